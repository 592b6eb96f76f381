"""Allowlists and host ports of native boxes, through boxd, in a test network of namespaces.

The router's rules, and that each is needed, are tested in test_egress.py.
"""

import json
import os
import pathlib
import shutil
import signal

import pytest

import boxdlib
import clientlib
import netlib
import test_native_network
from test_native_network import (
    ARGS,
    BOXD,
    BOXD_PORT,
    HOST,
    LOOPBACK,
    METADATA,
    NAME,
    REFUSED,
    SITE,
    all_are,
    prepare,
    probe,
    probed,
    world,  # noqa: F401
)

pytestmark = test_native_network.pytestmark

INSIDE = "198.18.0.3"
OTHER_PORT = f"{netlib.SITE}:{netlib.OTHER_PORT}"
OTHER_SITE = f"{netlib.RESOLVER}:80"
CLOSED = "ECONNRESET"
ONLY_SITE = {"allow": [f"{netlib.SITE}/32:80"]}


@pytest.fixture(scope="module")
def shell(place):
    place.probe, made = prepare(place)
    return made


@pytest.fixture
def boxd(place, shell, world):
    with place.start(*ARGS, before=[*world.host.inside(), *shell]) as made:
        made.wait_served()
        yield made


def dial(world, boxd):
    sock = world.host.connect(("127.0.0.1", BOXD_PORT))
    return clientlib.Web(boxd, sock=sock)


@pytest.fixture
def client(boxd, world):
    with dial(world, boxd) as made:
        yield made.init(backend="local")


def spec_of(place, session, egress, **more):
    return {
        "session_id": session,
        "host_path": place.probe,
        "host_path_mode": "ro",
        "network": "on",
        "egress": egress,
        "timeout_sec": 60,
        **more,
    }


def ask(place, client, session, egress, *targets):
    spec = spec_of(place, session, egress)
    del spec["session_id"]
    return probed(client.exec(probe(*targets), session, seconds=60, **spec))


def make(place, client, session, egress):
    """A session, and its info."""
    return client.ask("box_create_session", spec_of(place, session, egress), seconds=60)


def test_only_what_is_allowed_is_reached(place, client):
    targets = [SITE, OTHER_PORT, OTHER_SITE, *HOST, *BOXD, *LOOPBACK, *METADATA]
    results = ask(place, client, "one", ONLY_SITE, *targets)
    assert results[SITE] == "internet"
    all_are(results, targets[1:], REFUSED)
    two = {"allow": [f"{netlib.RESOLVER}/32"]}
    assert ask(place, client, "two", two, SITE, OTHER_SITE) == {
        SITE: REFUSED,
        OTHER_SITE: "internet",
    }
    assert ask(place, client, "none", {"allow": []}, SITE, NAME) == {
        SITE: REFUSED,
        NAME: "no such name",
    }
    names = {"allow": ["198.18.0.2:53", f"{netlib.SITE}:80"]}
    assert ask(place, client, "names", names, NAME) == {NAME: "internet"}
    # And a box without an allowlist, at the same time and after them.
    assert ask(place, client, "all", None, SITE, OTHER_SITE) == {
        SITE: "internet",
        OTHER_SITE: "internet",
    }
    everything = ask(place, client, "every", {"allow": ["0.0.0.0/0"]}, *HOST, *BOXD, *METADATA)
    all_are(everything, [*HOST, *BOXD, *METADATA], REFUSED)


def test_it_is_part_of_what_a_session_is(place, client):
    info = make(place, client, "same", {"allow": ["93.184.216.34:80", "10.0.0.0/8"]})
    assert info["egress"] == {"allow": ["10.0.0.0/8", "93.184.216.34/32:80"], "host_ports": []}
    assert "host_address" not in info
    assert "egress" in client.ask("box_status")["features"]
    again = {"allow": ["10.0.0.0/8", "93.184.216.34/32:80", "10.0.0.0/8"]}
    assert ask(place, client, "same", again, SITE) == {SITE: "internet"}
    for other in None, {}, {"allow": ["10.0.0.0/8"]}, {**again, "host_ports": [80]}:
        refusal = client.fail("box_exec", {**spec_of(place, "same", other), "cmd": "true"})
        assert refusal.startswith("BoxSessionConflictError: ")
        assert "already exists with egress=allow 10.0.0.0/8 93.184.216.34/32:80" in refusal


def test_what_is_no_egress_is_refused(place, client):
    off = spec_of(place, "off", ONLY_SITE, network="off")
    assert "egress needs network 'on'" in client.fail("box_create_session", off)
    six = spec_of(place, "six", {"allow": ["::/0"]})
    assert "boxes have no IPv6" in client.fail("box_create_session", six)


def test_ports_of_the_host(place, client, world):
    one = make(place, client, "one", {"host_ports": [8080, BOXD_PORT, netlib.PORT]})
    two = make(place, client, "two", {"host_ports": [8080]})
    assert (one["host_address"], two["host_address"]) == ("127.66.0.1", "127.66.0.2")
    assert one["host_address_inside"] == INSIDE
    listed = {info["session_id"]: info for info in client.ask("box_get_sessions")["sessions"]}
    assert listed["two"]["host_address"] == "127.66.0.2"
    ports = {"host_ports": [8080, BOXD_PORT, netlib.PORT]}
    with world.host.serving("offer", one["host_address"], "8080", "mine"):
        results = ask(
            place,
            client,
            "one",
            ports,
            *[f"{INSIDE}:{port}" for port in (8080, BOXD_PORT, netlib.PORT, 8081)],
            *[SITE, *HOST, *BOXD, *LOOPBACK, f"{one['host_address']}:8080"],
        )
        assert results.pop(f"{INSIDE}:8080") == f"mine {one['host_address']}"
        # The runtime and the host's other services listen everywhere: they are not offered.
        for port in BOXD_PORT, netlib.PORT:
            assert results.pop(f"{INSIDE}:{port}") == CLOSED
        all_are(results, list(results), REFUSED)
        other = f"{INSIDE}:8080"
        assert ask(place, client, "two", {"host_ports": [8080]}, other) == {other: CLOSED}
    client.ask("box_delete_session", {"session_id": "one"})
    boxdlib.wait_until(lambda: netlib.locks(world) == ["127.66.0.2"], 10, "the address back")
    assert make(place, client, "three", {"host_ports": [1]})["host_address"] == "127.66.0.1"


def test_both_outlive_box_rpc(place, boxd, world):
    egress = {"allow": [f"{netlib.SITE}:80"], "host_ports": [8080]}
    with dial(world, boxd) as client:
        before = make(place, client.init(backend="local"), "kept", egress)
    boxd.kill_worker()
    boxdlib.wait_until(lambda: len(boxd.workers()) == 2, 10, "another box-rpc")
    with dial(world, boxd) as client:
        after = client.ask("box_get_session", {"session_id": "kept"})
        assert after["egress"] == before["egress"]
        assert after["host_address"] == before["host_address"]
        with world.host.serving("offer", before["host_address"], "8080", "mine"):
            results = ask(place, client, "kept", egress, SITE, OTHER_PORT, f"{INSIDE}:8080")
        assert list(results.values()) == ["internet", REFUSED, "mine 127.66.0.1"]


def test_addresses_come_back_when_boxd_is_killed(place, boxd, world):
    with dial(world, boxd) as client:
        make(place, client.init(backend="local"), "one", {"host_ports": [80]})
        assert netlib.locks(world) == ["127.66.0.1"]
        os.kill(boxd.pid, signal.SIGKILL)
    boxdlib.wait_until(lambda: netlib.locks(world) == [], 10, "the address back")


def test_a_read_back_that_differs_stops_the_start(place, shell, world):
    """With an nft that drops one rule of a box."""
    folder = place.make("nft")
    shutil.copy(shutil.which("nft"), folder / "nft")
    changed = "sed '/udp dport 80 accept/d'"
    wrapper = folder / "wrapper"
    wrapper.write_text(f'#!/bin/sh\nPATH=/usr/bin:/bin\n{changed} | {folder}/nft "$@"\n')
    wrapper.chmod(0o755)
    mount = f'mount --make-rprivate /; mount --bind {wrapper} {shutil.which("nft")}; exec "$@"'
    before = [*world.host.inside(), *shell, "unshare", "-m", "sh", "-ec", mount, "sh"]
    with place.start(*ARGS, before=before) as boxd:
        boxd.wait_served()
        with dial(world, boxd) as client:
            client.init(backend="local")
            refusal = client.fail(
                "box_create_session", spec_of(place, "s", ONLY_SITE), seconds=60
            )
            assert "egress cannot be enforced: the rules of the box are not what was set" in refusal
            assert ask(place, client, "free", None, SITE) == {SITE: "internet"}
            other = {"allow": [f"{netlib.SITE}:{netlib.OTHER_PORT}"]}
            assert ask(place, client, "s", other, OTHER_PORT) == {OTHER_PORT: "internet"}


# With the `box` command.


def box(place, shell, world, *words):
    """The output of `box`, which starts a private boxd."""
    folder = pathlib.Path(place.programs)
    command = [*world.host.inside(), *shell, *place.before, str(folder / "box"), *words]
    done = netlib.run(*command, check=False, env=place.environment(), cwd=place.work)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_box_run(place, shell, world):
    if not (pathlib.Path(place.programs) / "box").exists():
        shutil.copy(boxdlib.build() / "box", pathlib.Path(place.programs) / "box")
    mount = f"{place.probe}:/probe:ro"
    command = f"{netlib.PYTHON} /probe/netinside.py probe {SITE} {OTHER_PORT}"
    options = ["--config", place.config, "--allow", f"{netlib.SITE}:80", "--mount", mount]
    results = json.loads(box(place, shell, world, "run", *options, "--", command))
    assert [what for what, _ in results.values()] == ["internet", REFUSED]
    if place.mode == "rootless":
        return  # `box plan` has no --config, and this user has no limits here
    plan = box(place, shell, world, "plan", "--allow", "10.0.0.0/8:53", "--host-port", "8080")
    assert "network     on\nallow       10.0.0.0/8:53\nhost port   8080\n" in plan
