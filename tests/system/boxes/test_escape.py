"""The attempts of tests/escape to break out of a box, by name and count, and a box's posture: all
are blocked.

`make escape` also builds Box with defences removed and checks that the attempts then succeed.
"""

import concurrent.futures
import os
import re
import subprocess
import sys

import boxdlib
import testpaths
import pytest

ESCAPE = testpaths.ROOT / "tests" / "escape"
sys.path[1:1] = [str(ESCAPE), str(ESCAPE / "inside")]

import posture  # noqa: E402
import weakening  # noqa: E402
import world  # noqa: E402

CLASSES = {
    "boxes", "cgroups", "configuration", "devices", "fds", "files", "host", "ids", "mounts",
    "namespaces", "neighbours", "network", "port", "proc", "resources", "sockets", "syscalls",
    "tenants", "terminals",
}  # fmt: skip
LEAST = 450  # attempts; there may be more, and never fewer

pytestmark = [
    pytest.mark.skipif(not boxdlib.ROOT, reason="to be the host that is attacked needs root"),
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers of calls are for x86-64"),
]


def expected_names():
    lines = (ESCAPE / "names.txt").read_text().splitlines()
    return {tuple(line.split()) for line in lines if not line.startswith("#")}


def attack(*flags):
    """Runs the driver as people do: its exit code, (class, name) -> verdict, its last line."""
    command = [sys.executable, str(ESCAPE / "run"), "--programs", str(boxdlib.build()), *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    found, kind = {}, None
    for line in done.stdout.splitlines():
        if head := re.fullmatch(r"([a-z]+) \((\d+)\)", line):
            kind = head[1]
        elif row := re.match(r"  (BLOCKED|ESCAPED|ERROR|SKIPPED) +(\S+)", line):
            found[kind, row[2]] = row[1]
    return done, found


def check(done, found, names):
    """Every attempt ran, except those that need a network that this host cannot give."""
    wrong = {name: verdict for name, verdict in found.items() if verdict in ("ESCAPED", "ERROR")}
    assert not wrong, f"{wrong}\n{done.stdout[-300:]}{done.stderr[-2000:]}"
    assert set(found) == names, done.stdout[-2000:] + done.stderr[-2000:]
    skipped = {name for name, verdict in found.items() if verdict == "SKIPPED"}
    assert all(kind == "network" or name == "memory-by-netlink-buffers" for kind, name in skipped)
    count = len(found) - len(skipped)
    line = f"{len(found)} attempts of {len(names)}: {count} blocked, 0 escaped, 0 errors, "
    assert line in done.stdout, done.stdout[-500:]
    assert done.returncode == 0


@pytest.fixture(scope="module")
def attacks():
    """Both runs at once, as futures: they are independent and mostly wait."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        yield {"root": pool.submit(attack), "rootless": pool.submit(attack, "--rootless")}


@pytest.mark.timeout(300)
def test_every_attempt_is_blocked(attacks):
    done, found = attacks["root"].result()
    check(done, found, expected_names())
    assert len(found) >= LEAST and {kind for kind, _ in found} == CLASSES


@pytest.mark.timeout(300)
def test_every_attempt_without_root_is_blocked(attacks):
    done, found = attacks["rootless"].result()
    lacks = set(re.findall(r"^not promised without root: (\S+)$", done.stdout, re.MULTILINE))
    assert len(lacks) == 9
    check(done, found, {(kind, name) for kind, name in expected_names() if name not in lacks})


def test_every_weakening_opens_what_is_tried():
    """A quick check that all weakenings still fit the sources."""
    subprocess.run([testpaths.ROOT / "scripts" / "check-weakenings"], check=True)
    names = {name for _, name in expected_names()}
    opened = set()
    for one in weakening.read_all():
        assert set(one.opens) <= names, one.name
        opened |= set(one.opens)
    assert len(opened) >= 100


# Posture.


@pytest.fixture(scope="module")
def box():
    """A box with a host folder and no command running."""
    with world.World(boxdlib.build(), neighbours=False) as made:
        made.first = world.id_map(made.init)[1]
        made.mounter = world.descendants(made.init)[1]
        yield made


@pytest.fixture(scope="module")
def payload(box):
    """The pid of a command in the box."""
    spec = {"session_id": "s", **box.spec(host_path=str(box.workspace))}
    box.idle_fds = posture.fds(box.init)
    seq = box.client.start("box_exec", {"cmd": "exec sleep 600", **spec})
    boxdlib.wait_until(lambda: len(world.descendants(box.init)) == 3, what="the command")
    pid = world.descendants(box.init)[2]
    boxdlib.wait_until(lambda: posture.text(pid, "comm") == "sleep\n", what="its exec")
    yield pid
    box.client.ask("__cancel_action", {"seq_id": seq})  # boxd would wait for its end


def test_there_are_two_processes_of_ours(box):
    assert world.descendants(box.init) == [box.init, box.mounter]


def test_ids_capabilities_and_filters(box, payload):
    caps = posture.SET_UID | posture.SET_GID
    init = posture.status_of(box.first, caps | posture.KILL, 1, box.first + posture.PAYLOAD)
    assert posture.status(box.init) == init
    assert posture.status(box.mounter) == posture.status_of(box.first, caps | posture.SYS_ADMIN, 1)
    assert posture.status(payload) == posture.status_of(box.first + posture.PAYLOAD, 0, 1)


def test_id_maps(box, payload):
    for pid in (box.init, box.mounter, payload):
        for name in ("uid_map", "gid_map"):
            words = [int(word) for word in posture.text(pid, name).split()]
            assert words == [0, box.first, 65536]
    assert box.first >= 0x70000000


def test_namespaces(box, payload):
    host, own = posture.namespaces("self"), posture.namespaces(box.init)
    same = {name for name in posture.SPACES if own[name] == host[name]}
    assert same == {"time"}
    assert posture.namespaces(box.mounter) == own
    assert posture.namespaces(payload) == own


def test_mounts_are_these_and_no_other(box, payload):
    wanted = posture.expected_mounts(box.workspace, box.first, world.MEMORY_MB)
    for pid in (box.init, box.mounter, payload):
        assert posture.mounts(pid) == wanted


def test_fds_are_these_and_no_other(box, payload):
    null = ["/dev/null"] * 3
    # The control socket and the mounter's.
    loop = {"anon_inode:[eventpoll]": 1, "anon_inode:[signalfd]": 1}
    assert box.idle_fds == (null, {"socket": 2, "oom_score_adj": 1, **loop})
    assert posture.fds(box.mounter) == (null, {"socket": 1, "/": 1, "oom_score_adj": 1})
    assert posture.fds(payload) == (["/dev/null", "pipe", "pipe"], {})


def test_limits_connections(box, payload):
    for pid in (box.init, box.mounter, payload):
        assert posture.limits(pid) == posture.LIMITS


def test_cgroups(box, payload):
    own = posture.cgroups(box.init)
    assert own and all(re.fullmatch(r"box-[0-9a-f]{16}/[\w.-]+", path) for path in own.values())
    assert posture.cgroups(box.mounter) == own
    assert posture.cgroups(payload) == own
    assert not posture.cgroups(box.boxd.pid)


def test_out_of_memory_ends_commands_first(box, payload):
    scores = [int(posture.text(pid, "oom_score_adj")) for pid in (box.boxd.pid, box.init, payload)]
    assert scores[0] == scores[1] and scores[2] == min(scores[1] + 200, 1000)


def test_program_environment_and_folders(box, payload):
    for pid in (box.init, box.mounter):
        assert os.readlink(f"/proc/{pid}/exe") == "/memfd:box-init (deleted)"
        assert posture.text(pid, "environ") == ""
        assert posture.text(pid, "cmdline") == "box-init\0"
        assert (os.readlink(f"/proc/{pid}/cwd"), os.readlink(f"/proc/{pid}/root")) == ("/", "/")
        assert os.stat(f"/proc/{pid}/mem").st_uid == 0, "it is not traceable"
    variables = dict(
        one.split("=", 1) for one in posture.text(payload, "environ").split("\0") if one
    )
    assert set(variables) == {
        "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "PYTHONUNBUFFERED", "PWD",
    }  # fmt: skip
    assert os.readlink(f"/proc/{payload}/cwd") == "/workspace"


def test_boxd_and_the_worker(box):
    """box-rpc has no privileges; the only fds it has of a box are its sockets."""
    found = posture.status(box.boxd.worker)
    sets = {name: found[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")}
    assert set(sets.values()) == {"0" * 16}
    assert (found["NoNewPrivs"], found["Seccomp"]) == ("1", "2")
    assert "0" not in found["Uid"].split() and found["Groups"] == ""
