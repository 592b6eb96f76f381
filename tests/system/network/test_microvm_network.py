"""What microVM boxes reach: nothing, everything but the host, or what their allowlist has.

In a test network of namespaces (netlib.py), asked from inside the guests. test_egress.py shows with
native boxes that each rule is needed; both kinds use the same router.
"""

import os
import pathlib
import re
import shutil

import pytest

import boxdlib
import clientlib
import leftoverlib
import microvmlib
import netlib
from microvmlib import SECONDS, SPEC, only_microvms
from test_native_network import (
    ARGS,
    BOXD,
    BOXD_PORT,
    HOST,
    LOOPBACK,
    METADATA,
    NAME,
    SITE,
    all_are,
    prepare,
    world,  # noqa: F401
)

pytestmark = [pytest.mark.microvm, pytest.mark.usefixtures("nothing_left")]

INSIDE = "198.18.0.3"
OTHER_PORT = f"{netlib.SITE}:{netlib.OTHER_PORT}"
OTHER_SITE = f"{netlib.RESOLVER}:80"
CLOSED = "ECONNRESET"
NEVER = "never"
NEVER_SECONDS = 4
ANSWER_SECONDS = 15
UNREACHED = ("ECONNREFUSED", "timeout")
LISTED = {"allow": [f"{netlib.SITE}/32:80"], "host_ports": [8080, BOXD_PORT]}
ADDRESS = "ip -4 -o address show dev eth0 | sed 's,.*inet \\([0-9.]*\\)/.*,\\1,'"
PORT = netlib.BOX_PORT


class Runtime(microvmlib.Runtime):
    """boxd runs on the host of the test network, and its boxes have the probe program."""

    def __init__(self, place, world, more=()):
        self.world = world
        self.probe, shell = prepare(place)
        program = pathlib.Path(self.probe) / "netprobe"
        leftoverlib.compile_program("netprobe.c", program).chmod(0o755)
        super().__init__(place, *ARGS, before=[*world.host.inside(), *shell, *more])

    def connect(self):
        sock = self.world.host.connect(("127.0.0.1", BOXD_PORT))
        return clientlib.Web(self.boxd, sock=sock)

    def spec(self, session, egress, **more):
        folder = {"host_path": self.probe, "host_path_mode": "ro"}
        return {"session_id": session, "network": "on", "egress": egress, **folder, **SPEC, **more}

    def make(self, session, egress):
        return self.client.ask("box_create_session", self.spec(session, egress), SECONDS)

    def give(self, session, egress, cmd):
        spec = self.spec(session, egress, cmd=cmd, timeout_sec=100)
        return self.client.ask("box_exec", spec, SECONDS)

    def probed(self, session, egress, reached, others=()):
        """The result for each target; targets that should answer have a longer timeout. Debian 12's
        passt answers refused connections late."""
        asked = {ANSWER_SECONDS: reached, NEVER_SECONDS: others}
        words = [f"/workspace/netprobe ask {n} {' '.join(those)}" for n, those in asked.items() if those]
        result = self.give(session, egress, " & ".join(words) + "; wait")
        assert result["exit_code"] == 0, result
        found = dict(line.split(" ", 1) for line in result["stdout"].splitlines())
        targets = [*reached, *others]
        return {target: NEVER if found[target] in UNREACHED else found[target] for target in targets}


# Tests with a runtime of their own come before those that share one: all use the same port.


def test_a_read_back_that_differs_stops_the_start(world):  # noqa: F811
    """With an nft that drops one rule of a box."""
    with microvmlib.Place("root") as place:
        folder = place.make("nft")
        shutil.copy(shutil.which("nft"), folder / "nft")
        wrapper = folder / "wrapper"
        lossy = "sed '/udp dport 80 accept/d'"
        wrapper.write_text(f'#!/bin/sh\nPATH=/usr/bin:/bin\n{lossy} | {folder}/nft "$@"\n')
        wrapper.chmod(0o755)
        mount = f'mount --bind {wrapper} {shutil.which("nft")}; exec "$@"'
        with Runtime(place, world, ["sh", "-ec", mount, "sh"]) as runtime:
            told = runtime.client.fail(
                "box_create_session", runtime.spec("lossy", LISTED), SECONDS
            )
            assert "egress cannot be enforced: the rules of the box are not what was set" in told
            runtime.await_boxes(0)


@pytest.mark.whole
def test_an_ordinary_user_s(world):  # noqa: F811
    with microvmlib.Place("rootless") as place, Runtime(place, world) as runtime:
        results = runtime.probed("listed", LISTED, [SITE], [OTHER_PORT, *BOXD, *LOOPBACK])
        assert results.pop(SITE) == "internet"
        all_are(results, list(results), NEVER)


# Two boxes of one runtime.


@pytest.fixture(scope="module")
def runtime(world):  # noqa: F811
    with microvmlib.Place("root") as place, Runtime(place, world) as made:
        yield made


@pytest.fixture(scope="module")
def listed(runtime):
    """A box with an allowlist and two host ports, from its session info."""
    return runtime.make("listed", LISTED)


@pytest.fixture(scope="module")
def other(runtime):
    """The address of a box without an allowlist, which runs a server."""
    runtime.make("other", None)
    said = runtime.give("other", None, f"/workspace/netprobe serve {PORT} box; {ADDRESS}")
    assert re.fullmatch(r"[0-9.]+", said["stdout"]), said
    return said["stdout"]


def test_only_what_is_allowed_is_reached(runtime, listed, other):
    never = [OTHER_PORT, OTHER_SITE, *HOST, *BOXD, *LOOPBACK, *METADATA, f"{other}:{PORT}"]
    results = runtime.probed("listed", LISTED, [SITE, NAME], never)
    assert (results.pop(SITE), results.pop(NAME)) == ("internet", "no such name")
    all_are(results, list(results), NEVER)


def test_without_a_list_all_but_the_host_and_other_boxes_is_reached(runtime, listed, other):
    mine = f"{other}:{PORT}"
    assert runtime.probed("other", None, [SITE, NAME, OTHER_SITE, mine]) == {
        **dict.fromkeys((SITE, NAME, OTHER_SITE), "internet"),
        mine: "box",  # so there was something to reach for the other box
    }
    never = [*HOST, *BOXD, *LOOPBACK, *METADATA, f"{INSIDE}:8080"]
    all_are(runtime.probed("other", None, [], never), never, NEVER)


def test_a_service_at_the_box_s_own_address(runtime, listed, world):  # noqa: F811
    """A service that listens everywhere on the host is not offered; one at this address is."""
    with world.host.serving("offer", listed["host_address"], "8080", "mine"):
        results = runtime.probed(
            "listed", LISTED, [f"{INSIDE}:8080"], [f"{INSIDE}:{BOXD_PORT}"]
        )
    assert results[f"{INSIDE}:8080"] == f"mine {listed['host_address']}"
    assert results[f"{INSIDE}:{BOXD_PORT}"] in (CLOSED, NEVER)


@only_microvms
def test_rights_of_passt(runtime, listed):
    """passt has no privileges: a user of its own inside the box, and a network other than the
    host's."""
    box = [runtime.pids_of(init) for init in runtime.boxes()][0]
    (passt,) = filter(is_passt, box)
    status = boxdlib.status_of(passt)
    assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == 0, status
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2"), status
    uids = {pid: boxdlib.status_of(pid)["Uid"].split()[1] for pid in box}
    assert list(uids.values()).count(uids[passt]) == 1 and "0" not in uids.values(), uids
    assert os.listdir(f"/proc/{passt}/root") == []
    own, host = (os.readlink(f"/proc/{pid}/ns/net") for pid in (passt, runtime.world.host.pid))
    assert own != host


def is_passt(pid):
    return boxdlib.status_of(pid)["Name"].startswith("passt")


def test_a_folder_of_the_host_read_only(runtime, listed):
    """The workspace of the box: a host folder with the probe program in it."""
    before = {path.name: path.read_bytes() for path in pathlib.Path(runtime.probe).iterdir()}
    cmd = "cd /workspace; (echo x >netprobe); rm -f netprobe; mkdir d; chmod 777 .; ls"
    result = runtime.give("listed", LISTED, cmd)
    assert result["stderr"].count("Read-only") == 4, result
    assert set(result["stdout"].split()) == set(before), result
    assert {path.name: path.read_bytes() for path in pathlib.Path(runtime.probe).iterdir()} == before
    for machine in microvmlib.machines(runtime):  # so it holds for a hostile guest kernel, too
        mounts = pathlib.Path(f"/proc/{machine}/mountinfo").read_text().splitlines()
        (options,) = [words[5] for words in map(str.split, mounts) if words[4] == "/share/workspace"]
        assert "ro" in options.split(","), options
