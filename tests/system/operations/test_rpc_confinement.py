"""box-rpc while it serves, as /proc shows it: no privileges, no open files, no secrets.

That its seccomp filter works is tested from inside by tests/unit/worker/test_rpc_confine.c.
"""

import os
import pathlib
import re

import pytest

from boxdlib import (
    ROOT,
    fake_boxd,
    fast_build,
    fd_names,
    status_of,
)
from clientlib import INSTANCE, context
from rawlib import (
    Pipes,
    Ws,
    exec_data,
)

TOKEN = "token-of-the-tests-" * 3
SECRET = "value-that-nobody-needs-to-see"
CAPABILITIES = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")


@pytest.fixture(params=["websocket", "stdio"])
def served(request, tmp_path):
    """A boxd at release speed (a sanitizer opens files of its own) that has answered an exec."""
    environment = {"LANGBOT_BOX_CONTROL_TOKEN": TOKEN, "SECRET_OF_THE_PARENT": SECRET}
    options = {"programs": fast_build(), "env": environment}
    if request.param == "stdio":
        with Pipes(tmp_path, **options) as stdio:
            assert stdio.call("box_exec", exec_data("echo hi"), context())["stdout"] == "hi"
            stdio.boxd.carrier = request.param
            yield stdio.boxd.wait_served()
    else:
        environment["LANGBOT_BOX_TRUSTED_INSTANCE_UUID"] = INSTANCE
        with fake_boxd(tmp_path, **options) as boxd:
            boxd.carrier = request.param
            yield boxd.wait_served()


def proc(pid, name):
    return pathlib.Path(f"/proc/{pid}/{name}")


def test_no_privilege(served):
    status = status_of(served.worker)
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"
    assert int(status.get("Seccomp_filters", 1)) >= 1
    none = "0000000000000000"
    if ROOT:
        assert {name: status[name] for name in CAPABILITIES} == dict.fromkeys(CAPABILITIES, none)
    else:
        # An ordinary user may not clear the bounding set, which gives nothing with no_new_privs.
        assert {status[name] for name in CAPABILITIES if name != "CapBnd"} == {none}


@pytest.mark.skipif(not ROOT, reason="only root can give another uid")
def test_another_user(served):
    status = status_of(served.worker)
    for name in ("Uid", "Gid"):
        ids = set(status[name].split())
        assert len(ids) == 1 and ids != {"0"}
    assert status["Groups"] == ""
    assert status_of(served.pid)["Uid"].split()[0] == "0"


@pytest.mark.skipif(not ROOT, reason="the owner of the files is seen by root only")
def test_not_dumpable(served):
    """The kernel makes root the owner of such a process's files in /proc."""
    for pid in (served.pid, served.worker):
        assert proc(pid, "environ").stat().st_uid == 0
        assert proc(pid, "mem").stat().st_uid == 0
    assert status_of(served.worker)["Uid"].split()[0] != "0"


@pytest.mark.skipif(ROOT, reason="root may read all the same")
def test_not_readable_to_its_own_user(served):
    for pid in (served.pid, served.worker):
        with pytest.raises(PermissionError):
            proc(pid, "environ").read_bytes()


@pytest.mark.skipif(not ROOT, reason="needs the right to read")
def test_no_secret_is_left(served):
    assert proc(served.worker, "environ").read_bytes() == b""
    assert proc(served.worker, "cmdline").read_bytes() == b"box-rpc\0"
    for pid in (served.pid, served.worker):
        for name in ("environ", "cmdline"):
            text = proc(pid, name).read_bytes()
            assert TOKEN.encode() not in text
            assert pid == served.pid or SECRET.encode() not in text
    assert not [line for line in served.lines if TOKEN in line]


def test_no_secret_after_a_restart(tmp_path):
    environment = {"LANGBOT_BOX_CONTROL_TOKEN": TOKEN}
    with fake_boxd(tmp_path, programs=fast_build(), env=environment) as boxd:
        boxd.wait_served()
        boxd.kill_worker()
        boxd.wait_served(2)
        if ROOT:
            assert proc(boxd.worker, "environ").read_bytes() == b""
        assert status_of(boxd.worker)["Seccomp"] == "2"
        assert status_of(boxd.worker)["NoNewPrivs"] == "1"
        assert not [line for line in boxd.lines if TOKEN in line]


def listening_inodes():
    """inode -> local address, of listening TCP sockets."""
    found = {}
    for name in ("tcp", "tcp6"):
        for line in pathlib.Path("/proc/net", name).read_text().splitlines()[1:]:
            columns = line.split()
            if columns[3] == "0A":
                found[columns[9]] = columns[1]
    return found


def connected_inodes():
    """TCP sockets that do not listen."""
    lines = []
    for name in ("tcp", "tcp6"):
        lines += pathlib.Path("/proc/net", name).read_text().splitlines()[1:]
    return {line.split()[9] for line in lines if line.split()[3] != "0A"}


def unix_inodes():
    lines = pathlib.Path("/proc/net/unix").read_text().splitlines()[1:]
    return {line.split()[6] for line in lines}


def classify(pid, fd, name, stderr):
    if name == stderr:
        return "stderr"
    inode = re.fullmatch(r"socket:\[(\d+)\]", name)
    if inode and inode.group(1) in listening_inodes():
        return "listener"
    if inode and inode.group(1) in unix_inodes():
        return "boxd"
    if fd in (0, 1) and name.startswith("pipe:"):
        return "stdio"
    kinds = {
        r"/dev/null": "null",
        r"anon_inode:\[eventpoll\]": "epoll",
        r"anon_inode:\[eventfd\]": "eventfd",
        r"pipe:\[\d+\]": "pipe",
        rf"/proc/{pid}/statm": "statm",
        r"/memfd:box-state \(deleted\)": "state",
        r"/dev/urandom": "urandom",
    }
    return next((kind for form, kind in kinds.items() if re.fullmatch(form, name)), name)


@pytest.mark.skipif(not ROOT, reason="the fds of a process that is not dumpable are root's to see")
def test_only_expected_fds(served):
    names = fd_names(served.worker)
    kinds = {fd: classify(served.worker, fd, name, names[2]) for fd, name in names.items()}
    print(kinds)
    counts = {kind: list(kinds.values()).count(kind) for kind in kinds.values()}
    most = {
        "null": 4,
        "stderr": 1 if served.carrier == "stdio" else 2,
        "boxd": 1,
        "epoll": 3,
        "eventfd": 3,
        "pipe": 4,
        "listener": 2,
        "state": 1,
        "statm": 1,
        "urandom": 1,
        "stdio": 2 if served.carrier == "stdio" else 0,
    }
    assert {kind: n for kind, n in counts.items() if n > most.get(kind, 0)} == {}
    for kind in ("stderr", "boxd", "epoll", "listener", "state", "statm"):
        assert counts.get(kind), f"no {kind}: the list above is out of date"


@pytest.mark.skipif(not ROOT, reason="the fds of a process that is not dumpable are root's to see")
def test_boxd_has_no_client(served):
    """boxd keeps the listening sockets, and none of a client's."""
    names = fd_names(served.pid)
    sockets = [name[8:-1] for name in names.values() if name.startswith("socket:")]
    assert [one for one in sockets if one in listening_inodes()]
    assert not [one for one in sockets if one in connected_inodes()]
    if served.carrier == "stdio":
        assert (names[0], names[1]) == ("/dev/null", "/dev/null")


def test_limits_of_the_process(served):
    text = proc(served.worker, "limits").read_text()
    core = re.search(r"^Max core file size\s+(\d+)\s+(\d+)", text, re.M)
    assert core and core.groups() == ("0", "0")


@pytest.mark.skipif(not ROOT, reason="links of a process that is not dumpable are root's to see")
def test_no_folder(served):
    assert os.readlink(proc(served.worker, "cwd")) == "/"


def test_parent_and_session(served):
    """A session of its own, so that a terminal's keys do not reach it; and it dies with boxd."""
    fields = proc(served.worker, "stat").read_text().rsplit(")", 1)[1].split()
    assert int(fields[1]) == served.pid
    assert int(fields[3]) == served.worker


@pytest.mark.timeout(60)
def test_same_under_sanitizers(tmp_path):
    """The build that all other tests use is confined, too."""
    with fake_boxd(tmp_path) as boxd, Ws(boxd.port) as ws:
        ws.ping()
        status = status_of(boxd.worker)
        assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
