"""The network of boxes: they reach the internet, and nothing of the host, the router or each other.
Each refusal is also run once without its defence, where it must succeed.
"""

import contextlib
import hashlib
import os
import shutil
import signal
import subprocess

import boxdlib
import netlib
import pytest

REFUSED = "ECONNREFUSED"


def missing():
    """Why these tests cannot run here, or None."""
    if os.geteuid() != 0:
        return "needs root, to make a world of namespaces"
    tools = ["pasta", "nft", "ip", "nsenter", "unshare", "setpriv", netlib.PYTHON]
    absent = [tool for tool in tools if not shutil.which(tool)]
    if absent:
        return f"not here: {', '.join(absent)}"
    if subprocess.run(["unshare", "-Un", "true"], capture_output=True).returncode != 0:
        return "no user or network namespaces here"
    return None


REASON = missing()
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))


@pytest.fixture(scope="module")
def world():
    made = netlib.World()
    yield made
    made.close()


@pytest.fixture
def start(world):
    """start(**options) gives a Play, whose end is checked too."""
    with contextlib.ExitStack() as stack:

        def started(**options):
            program = boxdlib.build() / "tests/drivers/network_driver"
            play = netlib.Play(world, program, **options)
            stack.callback(end, play)
            return play

        yield started


def end(play):
    running = play.process.poll() is None
    log = play.read_log()
    code = play.close()
    assert code == 0 or not running, log
    assert "ERROR" not in log, log


@pytest.fixture(params=[False, True], ids=["root", "rootless"])
def rootless(request):
    return request.param


@pytest.fixture
def play(start, rootless):
    return start(rootless=rootless)


def at(addresses, port):
    return [f"{address}:{port}" for address in addresses]


def all_are(results, expected):
    wrong = {target: result for target, result in results.items() if result != expected}
    assert not wrong, wrong
    assert results


# What boxes reach.


def test_a_box_reaches_the_internet_by_address(play):
    box = play.box()
    assert box.probe(f"{netlib.SITE}:80") == {f"{netlib.SITE}:80": "internet"}


@pytest.mark.parametrize("resolver", [netlib.RESOLVER, "127.0.0.53"])
def test_names_are_resolved_by_the_resolver_of_the_host(start, rootless, resolver):
    box = start(rootless=rootless, resolver=resolver).box()
    assert box.script("lookup", netlib.NAME) == netlib.SITE
    assert box.script("lookup", "nowhere.example.test") is None
    assert box.probe_by_name(f"{netlib.NAME}:80") == "internet"
    assert box.probe_by_name("nowhere.example.test:80") == "no such name"


def test_udp_reaches_the_internet_as_if_the_host_had_sent_it(play):
    assert play.box().script("echo", "hello") == f"hello from {netlib.HOST_ADDRESSES[0]}"


def test_a_big_download_arrives_whole(play):
    expected = hashlib.sha256(netlib.big_bytes()).hexdigest()
    assert play.box().script("fetch", netlib.SITE) == expected


def test_boxes_have_addresses_of_their_own_and_all_work(play):
    boxes = [play.box() for _ in range(3)]
    assert [box.address for box in boxes] == ["198.19.0.1", "198.19.0.3", "198.19.0.5"]
    assert [box.router for box in boxes] == ["198.19.0.0", "198.19.0.2", "198.19.0.4"]
    for box in boxes:
        assert box.probe(f"{netlib.SITE}:80") == {f"{netlib.SITE}:80": "internet"}


def test_a_slot_that_was_left_rests_before_it_is_taken_again(play):
    first, second = play.box(), play.box()
    play.leave(first)
    third = play.box()
    assert third.address == "198.19.0.5"
    for box in second, third:
        assert box.probe(f"{netlib.SITE}:80") == {f"{netlib.SITE}:80": "internet"}


def test_a_box_has_lo_eth0_and_no_ipv6_but_its_own_loopback(play):
    box = play.box()
    code, text = box.run("ip -o -4 address; ip route; ip -o -6 address show dev eth0")
    assert code == 0
    assert "127.0.0.1/8" in text and f"{box.address}/31" in text
    assert f"default via {box.router} dev eth0" in text
    assert "inet6" not in text


def test_pasta_has_no_right_and_another_id(play, rootless):
    play.box()
    status = boxdlib.status_of(play.pasta())
    uid = str(netlib.USER if rootless else 64321)
    assert status["Uid"].split() == [uid] * 4
    # A taken-over pasta would have no more than the router: it is in the router's user namespace.
    assert os.stat(f"/proc/{play.pasta()}/ns/user").st_ino != os.stat("/proc/self/ns/user").st_ino
    assert status["NoNewPrivs"] == "1"


# Refusals, each also tried without its defence.


def test_the_host_is_refused_on_every_address(play):
    box = play.box()
    all_are(box.probe(*at(netlib.HOST_ADDRESSES, netlib.PORT)), REFUSED)


def test_without_the_set_of_the_host_it_is_reached(start, rootless):
    box = start(rootless=rootless, without="host").box()
    copied, perhaps_copied, *others = at(netlib.HOST_ADDRESSES, netlib.PORT)
    all_are(box.probe(*others), "host")
    # pasta gives the router the first address of its interface, newer versions all of them. Packets
    # to the router's own addresses are never forwarded.
    all_are(box.probe(copied), REFUSED)
    assert box.probe(perhaps_copied)[perhaps_copied] in ("host", REFUSED)


def test_the_loopback_of_the_host_is_refused(play):
    box = play.box()
    targets = at(["127.0.0.1", "127.0.0.2", "127.0.0.53", "::1"], netlib.PORT)
    targets += at(["127.0.0.1", netlib.GATEWAY, box.router, netlib.DNS], netlib.LOOPBACK_PORT)
    results = box.probe(*targets)
    # Nobody has this address; pasta answers for it on port 53 only.
    assert results.pop(f"{netlib.DNS}:{netlib.LOOPBACK_PORT}") in ("timeout", REFUSED)
    all_are(results, REFUSED)


def test_with_the_gateway_mapped_the_loopback_of_the_host_is_reached(start, rootless):
    box = start(rootless=rootless, without="map-gw,gateway").box()
    all_are(box.probe(f"{netlib.GATEWAY}:{netlib.LOOPBACK_PORT}"), "loopback")


def test_an_address_that_the_host_gets_later_is_refused(world, play):
    late = f"172.31.9.9:{netlib.PORT}"
    box = play.box()
    with world.added("address add 172.31.9.9/32 dev d0\n"):
        # A request before the rules are in place may succeed; a moment later none does.
        boxdlib.wait_until(lambda: box.probe(late) == {late: REFUSED}, what="it is refused")
        all_are(box.probe(late, f"{netlib.HOST_ADDRESSES[1]}:{netlib.PORT}"), REFUSED)
    all_are(box.probe(f"{netlib.SITE}:80"), "internet")


def test_without_the_set_of_the_host_a_later_address_is_reached(world, start, rootless):
    box = start(rootless=rootless, without="host").box()
    with world.added("address add 172.31.9.9/32 dev d0\n"):
        all_are(box.probe(f"172.31.9.9:{netlib.PORT}"), "host")


def test_the_gateway_is_refused(play):
    all_are(play.box().probe(f"{netlib.GATEWAY}:80", f"{netlib.GATEWAY}:{netlib.PORT}"), REFUSED)


def test_without_the_set_of_gateways_it_is_reached(start, rootless):
    box = start(rootless=rootless, without="gateway").box()
    all_are(box.probe(f"{netlib.GATEWAY}:80"), "internet")


def test_metadata_and_reserved_addresses_are_refused(play):
    box = play.box()
    all_are(box.probe(*at(netlib.METADATA + netlib.RESERVED, 80)), REFUSED)
    results = box.probe(*at(["0.0.0.1", "224.0.0.1", "255.255.255.255"], 80))
    assert set(results.values()) <= {REFUSED, "ENETUNREACH", "EACCES", "EINVAL"}, results


def test_without_that_rule_metadata_and_reserved_addresses_are_reached(start, rootless):
    box = start(rootless=rootless, without="special").box()
    all_are(box.probe(*at(netlib.METADATA + netlib.RESERVED, 80)), "internet")


def test_another_box_is_refused(play):
    first, second = play.box(), play.box()
    second.start_server()
    all_are(second.probe(f"{second.address}:{netlib.BOX_PORT}"), "box")
    all_are(first.probe(f"{second.address}:{netlib.BOX_PORT}"), REFUSED)


def test_without_that_rule_another_box_is_reached(start, rootless):
    play = start(rootless=rootless, without="boxes")
    first, second = play.box(), play.box()
    second.start_server()
    all_are(first.probe(f"{second.address}:{netlib.BOX_PORT}"), "box")


def router_server(play):
    """A server in the router itself, where normally nothing listens."""
    fds = f"/proc/{play.process.pid}/fd"
    net = next(fd for fd in os.listdir(fds) if os.readlink(f"{fds}/{fd}").startswith("net:"))
    server = subprocess.Popen(
        ["nsenter", f"--net={fds}/{net}", netlib.PYTHON, netlib.SCRIPT, "box"],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=netlib.die_with_parent,
    )
    assert server.stdout.readline() == "ready\n"
    return server


@pytest.mark.parametrize("without, expected", [("", REFUSED), ("router", "box")])
def test_the_router_itself_is_refused(start, rootless, without, expected):
    play = start(rootless=rootless, without=without)
    first, second = play.box(), play.box()
    server = router_server(play)
    try:
        addresses = [first.router, second.router, netlib.HOST_ADDRESSES[0]]
        all_are(first.probe(*at(addresses, netlib.BOX_PORT)), expected)
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


@pytest.mark.parametrize("without, arrives", [("", False), ("spoof", True)])
def test_a_source_that_is_not_the_box_s_own_is_dropped(world, start, without, arrives):
    box = start(without=without).box()
    world.internet.restart()
    assert box.run("ip address add 10.99.99.99/32 dev eth0", verb="admin") == (0, "")
    box.script("echo", "count", "10.99.99.99", verb="admin")
    assert (box.script("seen")["count"] == 1) is arrives


@pytest.mark.parametrize("without, least, most", [("", 1000, 4096), ("flows", 4097, 24000)])
def test_one_box_has_a_bounded_number_of_flows(world, start, without, least, most):
    play = start(without=without)
    box, other = play.box(), play.box()
    world.internet.restart()
    # Datagrams get lost: those that the rule allows are sent until enough have arrived.
    for _ in range(4 if without else 1):
        box.script("flood", "6000")
        count = other.script("seen")["count"]
        if count >= least:
            break
    assert least <= count <= most
    all_are(other.probe(f"{netlib.SITE}:80"), "internet")


# Life cycle.


def test_pasta_comes_back_after_its_death(play):
    box = play.box()
    before = play.pasta()
    os.kill(before, signal.SIGKILL)
    boxdlib.wait_until(lambda: play.pasta() not in (None, before), 5, "another pasta")
    target = f"{netlib.SITE}:80"
    boxdlib.wait_until(lambda: box.probe(target) == {target: "internet"}, 5, "a way out")
    all_are(box.probe(*at(netlib.HOST_ADDRESSES, netlib.PORT)), REFUSED)
    all_are(play.box().probe(target), "internet")


def everything_of(play):
    """The router's processes. Any process that holds the router is among them, so it ends with the
    last one."""
    spaces = play.namespaces()
    assert len(spaces) == 2
    found = netlib.holders(spaces)
    assert {play.process.pid, play.pasta()} <= found
    return found


def all_have_ended(pids):
    return not any(boxdlib.is_alive(pid) for pid in pids)


def test_nothing_is_left_after_the_death_of_the_owner(world, play):
    boxes = [play.box(), play.box()]
    links = world.host.ip("-br link")
    processes = everything_of(play) | {box.pid for box in boxes}
    play.process.kill()
    play.process.wait()
    boxdlib.wait_until(lambda: all_have_ended(processes), 5, "the end of all")
    assert world.host.ip("-br link") == links


def test_nothing_is_left_after_an_ordinary_end(world, play):
    links = world.host.ip("-br link")
    box = play.box()
    processes = everything_of(play) | {box.pid}
    play.process.stdin.close()
    assert play.process.wait(20) == 0
    assert all_have_ended(processes)
    assert world.host.ip("-br link") == links


def test_a_host_without_a_way_out_gets_one_later(world, start, rootless):
    world.host.ip("route delete default")
    try:
        play = start(rootless=rootless)
        box = play.box()
        assert play.pasta() is None
        assert set(box.probe(f"{netlib.SITE}:80").values()) <= {"ENETUNREACH", "EHOSTUNREACH"}
    finally:
        world.add_default_route()
    target = f"{netlib.SITE}:80"
    boxdlib.wait_until(lambda: box.probe(target) == {target: "internet"}, 5, "a way out")
    all_are(play.box().probe(target), "internet")


def test_a_new_box_waits_for_the_way_out_that_the_host_has_now(world, start, rootless):
    world.host.ip("route delete default")
    try:
        play = start(rootless=rootless)
        play.box()
    finally:
        world.add_default_route()
    all_are(play.box().probe(f"{netlib.SITE}:80"), "internet")


@pytest.mark.parametrize("program", ["pasta", "nft"])
def test_what_is_missing_is_said_with_its_cure(start, rootless, program):
    play = start(rootless=rootless, **{program: "/dev/null"})
    line = play.answer("impossible ")
    assert f"{program} is missing: install passt and nftables" in line
    assert play.process.wait(10) == 3


def test_a_pasta_that_does_not_start_is_an_error(start, rootless):
    play = start(rootless=rootless, pasta="/bin/false")
    for _ in range(2):
        play.say("box")
        play.answer("error 5 the network of boxes has no way out: pasta does not start")


@pytest.mark.parametrize(
    "lost",
    ["@host", "169.254.0.0", "host { 10.77.0.1 }", "gateways { 203.0.113.1 }"],
    ids=["rule of the host", "special rule", "address of the host", "gateway"],
)
def test_rules_that_are_not_there_are_noticed(start, rootless, lost):
    play = start(rootless=rootless, nft=f"grep -vF '{lost}'")
    play.say("box")
    play.answer("error 5 the rules of the router are not what was set")
    assert play.namespaces() == set()
    assert play.pasta() is None


def test_what_nft_says_is_passed_on(start, rootless):
    play = start(rootless=rootless, nft="sed s/masquerade/nonsense/")
    play.say("box")
    assert "the rules of the router cannot be set: nft: " in play.answer("error 5 ")


def test_a_host_with_many_addresses_is_refused_on_all(world, start, rootless):
    with world.many_addresses(1000):
        play = start(rootless=rootless)
        box = play.box()
        all_are(box.probe(*at(["172.30.0.0", "172.30.2.7", "172.30.3.249"], netlib.PORT)), REFUSED)
        all_are(box.probe(f"{netlib.SITE}:80"), "internet")


def test_when_the_host_cannot_be_refused_any_more_nothing_goes_out(world, start, rootless):
    """nft fails when it is given this address: an incomplete ruleset is not used."""
    play = start(rootless=rootless, nft="sed 's/172.31.8.8/!/'")
    box = play.box()
    target = f"{netlib.SITE}:80"
    all_are(box.probe(target), "internet")
    with world.added("address add 172.31.8.8/32 dev d0\n"):
        boxdlib.wait_until(lambda: play.pasta() is None, 5, "the end of pasta")
        assert box.probe(target)[target] != "internet"
        assert "network.closed" in play.read_log()
    boxdlib.wait_until(lambda: box.probe(target) == {target: "internet"}, 10, "a way out")


def test_a_slot_takes_little_time(play):
    """The limit is far above the usual millisecond: the test detects a wait, it does not measure."""
    play.box()
    times = sorted(sum(play.box().us.values()) for _ in range(9))
    assert times[4] < 50_000, times
