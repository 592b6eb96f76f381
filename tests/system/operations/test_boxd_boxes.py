"""boxd and its boxes with the real programs: a box that does not die, a box that cannot be made and
many boxes of one user do not hold up others.
"""

import contextlib
import os
import pathlib
import signal
import subprocess
import time

import pytest

import boxdlib
import leftoverlib
import nativelib
from clientlib import physical
from leftoverlib import HostState, Traces, native_boxd, needs_root

FREEZER = pathlib.Path("/sys/fs/cgroup/freezer")
KEY_USERS = pathlib.Path("/proc/key-users")
OTHER_USER = 23456  # of this file alone: its keys are counted
WARM_BOXES = 2


@pytest.fixture
def boxd(tmp_path):
    host = HostState()
    with native_boxd(tmp_path) as made:
        traces = Traces(made, host)
        yield made
    traces.check_gone()


def warm_boxes(boxd):
    children = pathlib.Path(f"/proc/{boxd.pid}/task/{boxd.pid}/children").read_text()
    return {int(pid) for pid in children.split() if boxdlib.is_warm_box(int(pid))}


def wait_warm_boxes(boxd):
    boxdlib.wait_until(lambda: len(warm_boxes(boxd)) == WARM_BOXES, 10, "the warm boxes are made")
    return warm_boxes(boxd)


@contextlib.contextmanager
def frozen(pid):
    """A process that stays even after SIGKILL."""
    group = FREEZER / f"box-test-{os.getpid()}"
    group.mkdir()
    try:
        (group / "cgroup.procs").write_text(str(pid))
        (group / "freezer.state").write_text("FROZEN")
        boxdlib.wait_until(lambda: (group / "freezer.state").read_text() == "FROZEN\n", 5, "frozen")
        yield
    finally:
        (group / "freezer.state").write_text("THAWED")
        boxdlib.wait_until(lambda: not (group / "cgroup.procs").read_text(), 5, "it has died")
        group.rmdir()


def switches(pid):
    return int(boxdlib.status_of(pid)["voluntary_ctxt_switches"])


@needs_root
@pytest.mark.skipif(not (FREEZER / "cgroup.procs").exists(), reason="no freezer of cgroup v1")
def test_a_box_that_does_not_die_holds_up_nobody(boxd):
    with boxd.web() as client:
        client.exec("true", "stuck")
        [stuck] = leftoverlib.inits(boxd)
        wait_warm_boxes(boxd)
        with frozen(stuck):
            seq = client.start("box_delete_session", {"session_id": "stuck"})
            time.sleep(0.5)
            assert boxdlib.is_alive(stuck)
            before = switches(boxd.pid)
            time.sleep(2)
            assert switches(boxd.pid) - before < 20, "boxd looks again and again"
            used = wait_warm_boxes(boxd)
            assert client.exec("echo x", "other")["stdout"] == "x"
            assert wait_warm_boxes(boxd) != used
        assert client.wait(seq)["code"] == 0


def expect_no_trace(client, session):
    """In no list, no count, and not found."""
    assert client.ask("box_get_sessions")["sessions"] == []
    status = client.ask("box_status")
    assert (status["active_sessions"], status["managed_processes"]) == (0, 0)
    assert status["capacity"] == {"limit": 1, "used": 0, "remaining": 1}
    storage = client.ask("box_get_storage_analysis")
    assert (storage["active_sessions"], storage["managed_processes"]) == (0, 0)
    missing = f"BoxSessionNotFoundError: session {physical(session)} not found"
    for action, data in (
        ("box_get_session", {}),
        ("box_get_managed_process", {"process_id": "p"}),
        ("box_start_managed_process", {"spec": {"command": "true"}}),
    ):
        assert client.fail(action, {"session_id": session, **data}) == missing


@needs_root
@pytest.mark.parametrize("killed", [False, True], ids=["", "killed"])
@pytest.mark.parametrize("how", ["timeout", "shutdown", "deletion"])
def test_a_session_that_is_removed_is_seen_no_more(boxd, how, killed):
    """boxd is stopped, so the box does not end: neither this box-rpc nor its successor shows it."""
    with contextlib.ExitStack() as stack:
        client = stack.enter_context(boxd.web())
        client.init(backend="local", limits={"max_sessions": 1})
        client.exec("true", "gone")
        process = {"command": "sleep", "args": ["600"], "process_id": "p"}
        client.ask("box_start_managed_process", {"session_id": "gone", "spec": process})
        boxd.signal(signal.SIGSTOP)
        stack.callback(boxd.signal, signal.SIGCONT)
        if how == "timeout":
            assert client.exec("sleep 60", "gone", timeout_sec=1)["status"] == "timed_out"
        elif how == "shutdown":
            client.ask("box_shutdown")
        else:
            deletion = client.start("box_delete_session", {"session_id": "gone"})
        expect_no_trace(client, "gone")
        assert len(leftoverlib.inits(boxd)) == 1, "its box is there still"
        if killed:
            boxd.kill_worker()
            boxd.signal(signal.SIGCONT)
            boxd.wait_served(2)
            client = stack.enter_context(boxd.web())
            expect_no_trace(client, "gone")
        else:
            waiting = [client.start("box_exec", {"cmd": "true", "session_id": "gone"})]
            time.sleep(0.2)
            assert not client.has_answer(waiting[0]), "made before the old box has ended"
            boxd.signal(signal.SIGCONT)
            assert client.wait(waiting[0])["code"] == 0
            if how == "deletion":
                assert client.wait(deletion)["code"] == 0
            client.ask("box_delete_session", {"session_id": "gone"})
        # There was room for one: another box waits until this one has ended.
        assert client.exec("echo x", "other")["stdout"] == "x"


@needs_root
def test_a_wrong_host_path_costs_no_warm_box(boxd):
    with boxd.web() as client:
        client.exec("true", "first")
        before = wait_warm_boxes(boxd)
        for path in ("/etc", "/nowhere/at/all"):
            spec = {"cmd": "true", "session_id": "x", "host_path": path, "host_path_mode": "ro"}
            assert client.fail("box_exec", spec).startswith("BoxValidationError: host_path")
        assert warm_boxes(boxd) == before


def groups_beside(pid):
    """The cgroups of all boxes in this box's runtime, in one hierarchy."""
    for line in pathlib.Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        parent = (pathlib.Path("/sys/fs/cgroup") / names / path.lstrip("/")).parent
        if leftoverlib.CGROUP_PARENT.search(str(parent)) and parent.exists():
            return sorted(one.name for one in parent.iterdir() if one.is_dir())
    raise AssertionError("a box without a cgroup")


OVERLAY = """mount --make-rprivate / && mount -t tmpfs none "$0" && cd "$0" &&
    mkdir low up work merged &&
    mount -t overlay -o lowerdir=low,upperdir=up,workdir=work none merged && cd / && exec "$@\""""


@needs_root
def test_a_birth_that_fails_leaves_nothing(tmp_path):
    """That owners cannot be mapped for a folder is only found out after a warm box was taken."""
    before = ["unshare", "-m", "sh", "-c", OVERLAY, str(tmp_path)]
    if subprocess.run([*before, "true"], capture_output=True, timeout=20).returncode != 0:
        pytest.skip("no overlay file system here")
    host = HostState()
    with nativelib.Place("root") as place, nativelib.dialled(place, before=before) as client:
        traces = Traces(client.boxd, host)
        client.exec("true", "first")
        for _ in range(5):
            wait_warm_boxes(client.boxd)
            spec = {"cmd": "true", "session_id": "x", "host_path": f"{tmp_path}/merged"}
            error = client.fail("box_exec", spec)
            if "cannot map owners" not in error:
                pytest.skip(f"owners can be mapped in an overlay here: {error}")
        boxdlib.wait_until(lambda: len(leftoverlib.inits(client.boxd)) == 1, 5, "one box is left")
        [first] = leftoverlib.inits(client.boxd)
        boxdlib.wait_until(
            lambda: len(wait_warm_boxes(client.boxd)) + 1 == len(groups_beside(first)),
            5,
            lambda: f"left: {groups_beside(first)}",
        )
    traces.check_gone()


@needs_root
def test_as_many_processes_as_the_kernel_has(tmp_path):
    settings = tmp_path / "box.yaml"
    settings.write_text("limits:\n  max_pids: 4194304\n")
    with leftoverlib.native_boxd(tmp_path, f"--config={settings}") as boxd, boxd.web() as client:
        result = client.exec("echo x", "many", pids_limit=1 << 22)
        assert (result["stdout"], result["exit_code"]) == ("x", 0)


def key_count(uid):
    """The number of keys that count for a user."""
    for line in KEY_USERS.read_text().splitlines():
        words = line.replace(":", " ").split()
        if int(words[0]) == uid:
            return int(words[3].split("/")[0])
    return 0


@needs_root
@pytest.mark.skipif(not KEY_USERS.exists(), reason="no keys in this kernel")
def test_boxes_of_one_user_do_not_use_up_its_keys(monkeypatch):
    user = str(OTHER_USER)
    command = ("setpriv", "--reuid", user, "--regid", user, "--clear-groups")
    monkeypatch.setattr(nativelib, "USER", OTHER_USER)
    monkeypatch.setattr(nativelib, "SETPRIV", command)
    with nativelib.Place("rootless") as place, nativelib.dialled(place) as client:
        client.exec("true", "s0")
        # Keys of processes that ended before, also of other tests, are removed some time later.
        boxdlib.wait_until(lambda: key_count(OTHER_USER) == 1, 30, "boxd's session keyring alone")
        for n in range(1, 10):
            client.exec("true", f"s{n}")
        boxdlib.wait_until(lambda: key_count(OTHER_USER) == 1, 30, "no key for each box")
