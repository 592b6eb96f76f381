"""The network of native boxes, off and on, in a test network of namespaces (netlib.py).

boxd runs in its namespace `host`. Requests from inside a box are made by exec.
"""

import json
import os
import pathlib
import shutil
import subprocess

import pytest

import clientlib
import nativelib
import netlib

REFUSED = "ECONNREFUSED"
UNREACHABLE = "ENETUNREACH"
BOXD_PORT = 5999
SITE = f"{netlib.SITE}:80"
NAME = f"{netlib.NAME}:80"
LINKS = "cut -d: -f1 -s /proc/net/dev | tr -d ' ' | sort"
ARGS = (f"--ws-control-port={BOXD_PORT}", "--host", "0.0.0.0", "--unauthenticated")


def missing():
    """Why these tests cannot run here, or None."""
    if os.geteuid() != 0:
        return "needs root, to make a world of namespaces"
    tools = ["pasta", "nft", "ip", "nsenter", "unshare", "setpriv", netlib.PYTHON]
    absent = [tool for tool in tools if not shutil.which(tool)]
    return f"not here: {', '.join(absent)}" if absent else None


REASON = missing()
pytestmark = [
    pytest.mark.skipif(REASON is not None, reason=str(REASON)),
    pytest.mark.usefixtures("nothing_left"),
]


def at(addresses, port):
    return [f"{address}:{port}" for address in addresses]


HOST = at(netlib.HOST_ADDRESSES, netlib.PORT)
BOXD = at(netlib.HOST_ADDRESSES, BOXD_PORT)
LOOPBACK = [f"127.0.0.1:{port}" for port in (netlib.PORT, netlib.LOOPBACK_PORT, BOXD_PORT)]
METADATA = at(netlib.METADATA, 80)
EVERYTHING = [SITE, NAME, *HOST, *BOXD, *LOOPBACK, *METADATA]


def probe(*targets):
    return f"{netlib.PYTHON} /workspace/netinside.py probe {' '.join(targets)}"


def probed(result):
    """The result for each target. Refusals are immediate."""
    assert result["exit_code"] == 0, result
    found = json.loads(result["stdout"])
    slow = {target: seconds for target, (_, seconds) in found.items() if seconds > 2.5}
    assert not slow
    return {target: what for target, (what, _) in found.items()}


def prepare(place):
    """The host folder with the probe program for boxes; the command before boxd."""
    folder = place.make("probe")
    place.write(folder / "netinside.py", pathlib.Path(netlib.SCRIPT).read_text())
    resolv = place.write(place.folder / "resolv.conf", f"nameserver {netlib.RESOLVER}\n")
    steps = ["mount --make-rprivate /", f"mount --bind {resolv} /etc/resolv.conf"]
    if place.mode == "rootless":
        # Without udev the device may belong to root alone.
        tun = place.folder / "tun"
        steps += [f"[ -e {tun} ] || mknod -m 666 {tun} c 10 200"]
        steps += [f"mount --bind {tun} /dev/net/tun"]
    return str(folder), ["unshare", "-m", "sh", "-ec", "; ".join(steps) + '; exec "$@"', "sh"]


def make_steps(place, generation, carrier, mode):
    place.probe, place.shell = prepare(place)
    both = {"do": "exec", "host_path": place.probe, "host_path_mode": "ro", "timeout_sec": 60}
    off = {**both, "session_id": "off", "network": "off"}
    on = {**both, "session_id": "on", "network": "on"}
    return {
        "init": {"do": "init", "backend": "local"},
        "off": {**off, "cmd": probe(*EVERYTHING)},
        "off links": {**off, "cmd": LINKS},
        "on": {**on, "cmd": probe(*EVERYTHING)},
        "on again": {**on, "cmd": probe(SITE)},
        "on links": {**on, "cmd": LINKS},
        "sessions": {"do": "list"},
    }


@pytest.fixture(scope="module")
def world(nothing_left):
    made = netlib.World()
    links = made.host.ip("-o link")
    yield made
    after = made.host.ip("-o link")
    made.close()
    assert after == links


@pytest.fixture(scope="module")
def flows(world):
    def run(generation, carrier, place, steps):
        # One at a time on the host: all use the same port.
        inside = world.host.inside()
        before = [*inside, *place.shell]
        return nativelib.drive(generation, carrier, place, steps, inside, before, ARGS)

    with nativelib.Flows(make_steps, nativelib.HALF, run, workers=1) as made:
        yield made


@pytest.fixture(scope="module", params=nativelib.HALF, ids=nativelib.names(nativelib.HALF))
def flow(request, flows):
    return flows.results(request.param)


def all_are(results, targets, expected):
    wrong = {target: results[target] for target in targets if results[target] != expected}
    assert not wrong, wrong


# With the real clients.


def test_off(flow):
    results = probed(flow.gave("off"))
    all_are(results, [SITE, *HOST, *BOXD, *METADATA], UNREACHABLE)
    all_are(results, LOOPBACK, REFUSED)
    assert results[NAME] == "no such name"


def test_on(flow):
    results = probed(flow.gave("on"))
    all_are(results, [SITE, NAME], "internet")
    all_are(results, [*HOST, *BOXD, *LOOPBACK, *METADATA], REFUSED)
    assert probed(flow.gave("on again")) == {SITE: "internet"}


def test_links(flow):
    assert flow.gave("off links")["stdout"] == "lo"
    assert flow.gave("on links")["stdout"].split() == ["eth0", "lo"]
    info = {one["session_id"]: one["network"] for one in flow.gave("sessions")}
    assert info == {"off": "off", "on": "on"}


# In detail, with a test client.


@pytest.fixture(scope="module")
def client(place, world):
    """Over stdio, which needs no network."""
    place.probe, shell = prepare(place)
    before = [*world.host.inside(), *shell]
    with place.start(*ARGS, stdio=True, before=before) as boxd:
        boxd.wait_served()
        with clientlib.Stdio(boxd) as made:
            yield made.init(backend="local")


def ask(place, client, session, *targets, network="on"):
    spec = {"host_path": place.probe, "host_path_mode": "ro", "network": network}
    return probed(client.exec(probe(*targets), session, seconds=60, timeout_sec=60, **spec))


def test_the_prober_sees_what_is_there(world, client):
    """The host itself reaches all of it, so a refusal in a box proves something."""
    command = world.host.inside(netlib.PYTHON, netlib.SCRIPT, "probe", *HOST, SITE, *BOXD)
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    results = {target: what for target, (what, _) in json.loads(done.stdout).items()}
    all_are(results, HOST, "host")
    assert results[SITE] == "internet"
    assert not {results[target] for target in BOXD} & {REFUSED, UNREACHABLE, "timeout"}


def test_own_loopback_works(place, client):
    """A server in the box is reached at 127.0.0.1, with network off and on."""
    serve = (
        f"{netlib.PYTHON} /workspace/netinside.py box >/tmp/ready & "
        "until [ -s /tmp/ready ]; do sleep 0.05; done; "
    )
    for network in ("off", "on"):
        spec = {"host_path": place.probe, "host_path_mode": "ro", "network": network}
        target = f"127.0.0.1:{netlib.BOX_PORT}"
        result = client.exec(serve + probe(target), f"own-{network}", seconds=30, **spec)
        assert probed(result) == {target: "box"}


def test_netlink_where_there_is_a_network(place, client):
    """Interfaces can be read with the network on; with it off there is no netlink.

    The boxes follow each other: one that was made ahead for the other kind would be seen.
    """
    look = (
        f"{netlib.PYTHON} -c 'import socket; print(*[n for _, n in socket.if_nameindex()])' 2>&1 | "
        "tail -n 1"
    )
    for turn in range(2):
        for network, wanted in (("off", "not supported by protocol"), ("on", "lo eth0")):
            told = client.exec(look, f"netlink-{network}-{turn}", network=network)
            assert wanted in told["stdout"], told
    listed = client.exec("ip -br address", "netlink-on-0", network="on")
    assert listed["exit_code"] == 0 and "eth0" in listed["stdout"], listed


def test_boxes_do_not_reach_each_other(place, client):
    """Not by the address on eth0 either, which the other box tells."""
    serve = (
        f"{netlib.PYTHON} /workspace/netinside.py box >/tmp/ready & "
        "until [ -s /tmp/ready ]; do sleep 0.05; done; "
        "awk '/32 host/ { print f } { f = $2 }' /proc/net/fib_trie | sort -u"
    )
    spec = {"host_path": place.probe, "host_path_mode": "ro", "network": "on"}
    told = client.exec(serve, "server", seconds=30, **spec)["stdout"].split()
    address = next(one for one in told if not one.startswith("127."))
    target = f"{address}:{netlib.BOX_PORT}"
    assert ask(place, client, "server", target) == {target: "box"}
    assert ask(place, client, "other", target)[target] != "box"


def test_many_boxes_with_network(place, client):
    spec = {"host_path": place.probe, "host_path_mode": "ro", "network": "on", "timeout_sec": 60}
    started = [
        client.start("box_exec", {"cmd": probe(SITE), "session_id": f"n{n}", **spec})
        for n in range(8)
    ]
    results = [probed(client.wait(seq, 60)["data"]) for seq in started]
    assert results == [{SITE: "internet"}] * 8


def test_a_box_made_anew_has_its_network(place, client):
    mark = nativelib.marker()
    spec = {"host_path": place.probe, "host_path_mode": "ro", "network": "on"}
    client.exec(f"sleep {mark} &", "anew", **spec)
    nativelib.proclib.kill_init(mark)
    assert ask(place, client, "anew", SITE) == {SITE: "internet"}


def test_deleted_boxes_leave_room(place, client):
    for turn in range(5):
        assert ask(place, client, "gone", SITE) == {SITE: "internet"}, turn
        client.ask("box_delete_session", {"session_id": "gone"})
    assert client.fail("box_get_session", {"session_id": "gone"}).startswith("BoxSessionNotFound")
