"""Allowlists of boxes and host ports, at the router: boxes reach what is allowed and nothing else.
Each refusal is also run once without its defence, where it must succeed.
"""

import contextlib
import hashlib
import os
import pathlib
import signal
import time

import boxdlib
import netlib
import pytest
import test_network
from test_network import REFUSED, all_are, at, end, play, rootless, start, world  # noqa: F401

pytestmark = test_network.pytestmark

HOST = "198.18.0.3"  # where a box reaches host ports
SITE = f"{netlib.SITE}:80"
OTHER_PORT = f"{netlib.SITE}:{netlib.OTHER_PORT}"
OTHER_SITE = f"{netlib.RESOLVER}:80"
CLOSED = "ECONNRESET"  # allowed, but nothing listens there


# The allowlist.


def test_only_what_is_allowed_is_reached(play):
    box = play.box(f"{netlib.SITE}/32:80")
    assert box.probe(SITE, OTHER_PORT, OTHER_SITE) == {
        SITE: "internet",
        OTHER_PORT: REFUSED,
        OTHER_SITE: REFUSED,
    }
    assert box.script("echo", "hello").startswith("failed")  # UDP, port 7


@pytest.mark.parametrize("without, expected", [("", REFUSED), ("egress", "internet")])
def test_the_rules_are_what_refuses(start, rootless, without, expected):
    box = start(rootless=rootless, without=without).box(f"{netlib.SITE}/32:80")
    all_are(box.probe(OTHER_PORT, OTHER_SITE), expected)


def test_an_entry_without_a_port_means_all_of_tcp_and_udp(play):
    box = play.box("93.184.216.0/24")
    all_are(box.probe(SITE, OTHER_PORT), "internet")
    all_are(box.probe(OTHER_SITE), REFUSED)
    assert box.script("echo", "hello") == f"hello from {netlib.HOST_ADDRESSES[0]}"


def test_udp_by_its_port(play):
    assert play.box(f"{netlib.SITE}/32:7").script("echo", "hello").startswith("hello from")
    assert play.box(f"{netlib.SITE}/32:8").script("echo", "hello").startswith("failed")


def test_boxes_have_lists_of_their_own(play):
    first, second = play.box(f"{netlib.SITE}/32:80"), play.box(f"{netlib.RESOLVER}/32:80")
    free, closed = play.box(), play.box("only")
    assert first.probe(SITE, OTHER_SITE) == {SITE: "internet", OTHER_SITE: REFUSED}
    assert second.probe(SITE, OTHER_SITE) == {SITE: REFUSED, OTHER_SITE: "internet"}
    all_are(free.probe(SITE, OTHER_SITE, OTHER_PORT), "internet")
    all_are(closed.probe(SITE, OTHER_SITE, OTHER_PORT), REFUSED)


def test_what_no_box_may_reach_is_refused_to_those_that_may_reach_everything(play):
    box, other = play.box("0.0.0.0/0"), play.box()
    other.start_server()
    all_are(box.probe(SITE, OTHER_PORT), "internet")
    targets = at(netlib.HOST_ADDRESSES, netlib.PORT) + at(netlib.METADATA + netlib.RESERVED, 80)
    targets += at([netlib.GATEWAY, HOST, box.router, other.router], netlib.PORT)
    targets += at([other.address], netlib.BOX_PORT)
    all_are(box.probe(*targets), REFUSED)


def test_an_entry_never_means_the_router(play):
    """Whatever the entry covers, and whoever might listen there."""
    box = play.box("0.0.0.0/0", "host:80")
    server = test_network.router_server(play)
    try:
        all_are(box.probe(*at([HOST, box.router], netlib.BOX_PORT)), REFUSED)
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


def test_names_are_resolved_for_those_who_may_ask(play):
    assert play.box(f"{netlib.DNS}/32:53").script("lookup", netlib.NAME) == netlib.SITE
    code, text = play.box(f"{netlib.SITE}/32:80").run(
        f"{netlib.PYTHON} {play.script} lookup {netlib.NAME}"
    )
    assert code != 0 and "No route to host" in text


def test_a_slot_that_is_taken_again_has_nothing_of_its_last_box(start, rootless):
    """Reuse is immediate here; normally it is minutes later."""
    play = start(rootless=rootless, without="rest")
    limited = play.box(f"{netlib.SITE}/32:80", "host:8080")
    play.leave(limited)
    time.sleep(0.01)
    free = play.box()
    assert free.router == limited.router
    all_are(free.probe(SITE, OTHER_SITE, OTHER_PORT), "internet")
    all_are(free.probe(f"{HOST}:8080"), REFUSED)
    play.leave(free)
    time.sleep(0.01)
    again = play.box(f"{netlib.RESOLVER}/32:80")
    assert again.router == limited.router
    assert again.probe(SITE, OTHER_SITE) == {SITE: REFUSED, OTHER_SITE: "internet"}


def test_rules_go_when_others_come(play):
    limited = play.box(f"{netlib.SITE}/32:80")
    play.box(f"{netlib.SITE}/32:80")
    assert "chain slot0 " in rules_of(play)
    play.leave(limited)
    play.box(f"{netlib.RESOLVER}/32:80")
    rules = rules_of(play)
    assert "slot0" not in rules and "chain slot1 " in rules and "chain slot2 " in rules


def rules_of(play):
    spaces = {name.split(":")[0]: name for name in play.namespaces()}
    for fd in pathlib.Path(f"/proc/{play.process.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            if os.readlink(fd) == spaces["net"]:
                return netlib.run("nsenter", f"--net={fd}", "nft", "list", "ruleset").stdout
    raise AssertionError("no router")


# Rules as they are read back.


@pytest.mark.parametrize(
    "changed",
    [
        "sed '/slot.*tcp dport 80 accept/d'",
        "sed 's/tcp dport 80 accept/tcp dport 81 accept/'",
        "sed 's/93.184.216.34 /93.184.216.0\\/24 /'",
        "sed '/slot0 counter jump refuse/d'",
        "sed 's/goto slot0/goto refuse/'",
        "sed 's/\"b0\" : goto/\"b8\" : goto/;s/{ \"b0\" }/{ \"b8\" }/'",
        "sed '/udp dport 80 accept/a add rule inet box slot0 accept'",
    ],
    ids=["lost", "port", "address", "end", "goes elsewhere", "other slot", "one more"],
)
def test_rules_that_differ_stop_the_start(start, rootless, changed):
    play = start(rootless=rootless, nft=changed)
    play.say(f"box only {netlib.SITE}/32:80")
    play.answer("error 5 egress cannot be enforced: the rules of the box are not what was set")
    # Boxes without an allowlist are still made.
    all_are(play.box().probe(SITE), "internet")


def test_one_that_failed_is_no_other_box_s_fault(start, rootless):
    play = start(rootless=rootless, nft="sed 's/tcp dport 81 accept/tcp dport 82 accept/'")
    play.box(f"{netlib.SITE}/32:80")
    play.say(f"box only {netlib.SITE}/32:81")
    play.answer("error 5 egress cannot be enforced")
    box = play.box(f"{netlib.SITE}/32:80")
    assert box.probe(SITE, OTHER_PORT) == {SITE: "internet", OTHER_PORT: REFUSED}


# Host ports.


def test_a_service_at_the_box_s_own_address_is_reached(world, play):
    box = play.box("host:8080")
    assert box.host == "127.66.0.1"
    with world.host.serving("offer", box.host, "8080", "mine"):
        # The server sees by the address whose connection it is.
        all_are(box.probe(f"{HOST}:8080"), f"mine {box.host}")
        all_are(box.probe(f"{HOST}:8081", SITE), REFUSED)
        assert box.script("fetch", HOST, "8080") == hashlib.sha256(netlib.big_bytes()).hexdigest()


def test_nothing_but_what_is_offered_at_this_address_is_reached(world, play):
    """Other services of the host listen everywhere, or at another loopback address."""
    ports = [netlib.PORT, netlib.LOOPBACK_PORT]
    box = play.box("0.0.0.0/0", *(f"host:{port}" for port in ports))
    everywhere = netlib.run(
        *world.host.inside(
            netlib.PYTHON, netlib.SCRIPT, "probe", f"{box.host}:{netlib.PORT}"
        )
    ).stdout
    assert "host" in everywhere  # the host itself can reach it there
    all_are(box.probe(*(f"{HOST}:{port}" for port in ports)), CLOSED)
    all_are(box.probe(f"127.0.0.1:{netlib.PORT}", f"{box.host}:{netlib.PORT}"), REFUSED)


def test_one_box_s_service_is_not_another_s(world, play):
    first, second, third = play.box("host:8080"), play.box("host:8080"), play.box("0.0.0.0/0")
    assert [box.host for box in (first, second, third)] == ["127.66.0.1", "127.66.0.2", "0.0.0.0"]
    with world.host.serving("offer", first.host, "8080", "first"):
        all_are(first.probe(f"{HOST}:8080"), f"first {first.host}")
        all_are(second.probe(f"{HOST}:8080"), CLOSED)
        all_are(third.probe(f"{HOST}:8080"), REFUSED)
        with world.host.serving("offer", second.host, "8080", "second"):
            all_are(first.probe(f"{HOST}:8080"), f"first {first.host}")
            all_are(second.probe(f"{HOST}:8080"), f"second {second.host}")


def test_addresses_are_the_lowest_free_and_come_back(world, start, rootless):
    first, second = start(rootless=rootless), start(rootless=rootless)
    boxes = [play.box("host:80") for play in (first, second, first)]
    assert [box.host for box in boxes] == ["127.66.0.1", "127.66.0.2", "127.66.0.3"]
    assert netlib.locks(world) == [box.host for box in boxes]
    second.leave(boxes[1])
    assert first.box("host:80").host == "127.66.0.2"
    first.process.kill()
    first.process.wait()
    boxdlib.wait_until(lambda: netlib.locks(world) == [], 5, "the locks of a dead owner")
    assert second.box("host:80").host == "127.66.0.1"


def port_proxies(play):
    children = f"/proc/{play.process.pid}/task/{play.process.pid}/children"
    pids = [int(pid) for pid in pathlib.Path(children).read_text().split()]
    known = {play.pasta()}
    return [pid for pid in pids if pid not in known and is_port_proxy(pid)]


def is_port_proxy(pid):
    try:
        return "Seccomp:\t2" in pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:  # one of boxd's short-lived children, such as nft
        return False


def test_a_port_proxy_has_no_rights_and_comes_back_after_its_death(world, play):
    box = play.box("host:8080")
    with world.host.serving("offer", box.host, "8080", "mine"):
        all_are(box.probe(f"{HOST}:8080"), f"mine {box.host}")
        (before,) = port_proxies(play)
        status = pathlib.Path(f"/proc/{before}/status").read_text()
        assert "CapEff:\t0000000000000000" in status and "CapPrm:\t0000000000000000" in status
        assert "NoNewPrivs:\t1" in status
        boxdlib.wait_until(lambda: netlib.age_of(before) > 1.5, 5, "a good run")
        os.kill(before, signal.SIGKILL)
        boxdlib.wait_until(lambda: port_proxies(play) not in ([], [before]), 5, "another port proxy")
        all_are(box.probe(f"{HOST}:8080"), f"mine {box.host}")
    play.leave(box)
    assert port_proxies(play) == []


def test_nothing_is_left_after_the_death_of_the_owner(world, play):
    play.box("host:8080")
    processes = port_proxies(play)
    assert processes
    play.process.kill()
    play.process.wait()
    boxdlib.wait_until(lambda: test_network.all_have_ended(processes), 5, "the end of the port proxy")
    boxdlib.wait_until(lambda: netlib.locks(world) == [], 5, "the end of the lock")
