"""A hostile box-init (hostile_init.c in its place), and hosts that run out of something.

Whatever a box sends, box-rpc answers its caller and stays up, and other boxes are not affected.
"""

import resource
import subprocess
import time

import pytest

from boxdlib import STALL_SECONDS, Boxd, fd_count, fd_names, peak_kb, wait_running, wait_until
from clientlib import failure, success
from leftoverlib import (
    NATIVE,
    HostState,
    Traces,
    compile_program,
    copy_programs,
    inits,
    native_boxd,
    needs_root,
)
from crowdlib import percentile

pytestmark = needs_root

BROKE = "it broke the protocol"
ENDED = "its first process has ended"
LATE = "it did not end a command in time"
MORE = "it sent more output than allowed"
LATE_SECONDS = 1 + 5 + 2 + STALL_SECONDS  # the command's own timeout, the patience of box-rpc, and some more
MAKE_SECONDS = 10 + 2 + STALL_SECONDS
MEMORY_KB = 300 * 1024  # under sanitizers

# command -> the reason why its box is ended
BROKEN = {
    "nonsense": BROKE,
    "short": BROKE,
    "long": BROKE,
    "kind": BROKE,
    "request": BROKE,
    "size": BROKE,
    "end": BROKE,
    "signal": BROKE,
    "nobody": BROKE,
    "taken": "it took more input than was sent",
    "flood": MORE,
    "empty": ENDED,
    "die": ENDED,
}
HARMLESS = ("good", "twice", "reset", "boast", "fds")
ENDLESS = ("silent", "deaf", "crumbs", "strangers")


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """boxd and box-rpc beside the hostile box-init."""
    folder = tmp_path_factory.mktemp("hostile")
    copy_programs(folder, "boxd", "box-rpc")
    compile_program("hostile_init.c", folder / "box-init", "-static")
    return folder


@pytest.fixture
def hostile(programs, tmp_path):
    host = HostState()
    with native_boxd(tmp_path, programs=programs) as boxd:
        traces = Traces(boxd, host)
        yield boxd
        assert len(boxd.workers()) == 1, boxd.tail()
    traces.check_gone()


def is_good(client, session="bystander"):
    started = time.monotonic()
    result = client.exec("good", session)
    assert (result["stdout"], result["exit_code"]) == ("good", 0), result
    return time.monotonic() - started


def test_broken_rules(hostile):
    with hostile.web() as client:
        is_good(client)
        (bystander,) = inits(hostile)
        for cmd, why in BROKEN.items():
            is_good(client, cmd)
            data = {"cmd": cmd, "session_id": cmd, "timeout_sec": 5}
            told = client.fail("box_exec", data)
            assert told.startswith("BoxError: "), told
            assert why in told and cmd in told, told
            is_good(client)
            is_good(client, cmd)
            client.ask("box_delete_session", {"session_id": cmd})
        assert inits(hostile) == [bystander]


def test_others_of_a_broken_box(hostile):
    """Every command of that box gets an error, also those that wait."""
    with hostile.web() as client:
        is_good(client)
        waiting = [
            client.start("box_exec", {"cmd": "silent", "session_id": "s", "timeout_sec": 60})
            for _ in range(20)
        ]
        data = {"cmd": "nonsense", "session_id": "s", "timeout_sec": 60}
        assert BROKE in client.fail("box_exec", data)
        for seq in waiting:
            assert BROKE in failure(client.wait(seq, 10))
        is_good(client, "s")


def test_harmless_lies(hostile):
    with hostile.web() as client:
        is_good(client)
        fds = fd_count(hostile.worker)
        for cmd in HARMLESS:
            result = client.exec(cmd, "liar")
            # How much it dropped is its own claim, which nobody can check.
            assert result["stdout"].splitlines()[0] == "good", (cmd, result)
            assert result["exit_code"] == 0, (cmd, result)
            is_good(client, "liar")
        client.ask("box_delete_session", {"session_id": "liar"})
        wait_until(lambda: fd_count(hostile.worker) == fds, what=lambda: fd_names(hostile.worker))
        told = client.fail("box_exec", {"cmd": "mount", "session_id": "liar"})
        assert told.startswith("BoxError: the command cannot be started: mounts: "), told
        is_good(client, "liar")


def test_endless(hostile, tmp_path):
    """No answer, no end, or endless output: box-rpc ends the box, and its memory stays limited."""
    mute = {"cmd": "good", "session_id": "mute", "host_path": booting(tmp_path, "mute")}
    with hostile.web() as client, hostile.web() as leaver:
        is_good(client)
        (bystander,) = inits(hostile)
        before = peak_kb(hostile.worker)
        asked = {
            cmd: client.start("box_exec", {"cmd": cmd, "session_id": cmd, "timeout_sec": 1})
            for cmd in ENDLESS
        }
        never_ready = client.start("box_exec", mute)
        leaver.start("box_exec", {"cmd": "silent", "session_id": "left", "timeout_sec": 1})
        wait_until(lambda: len(inits(hostile)) == 3 + len(ENDLESS), what="their boxes")
        leaver.close()
        waits = wait_alone(hostile, client, 2, LATE_SECONDS)
        for cmd, seq in asked.items():
            told = failure(client.wait(seq, 10))
            assert cmd in told and (LATE in told or (cmd == "crumbs" and MORE in told)), told
        grown = peak_kb(hostile.worker) - before
        waits += wait_alone(hostile, client, 1, MAKE_SECONDS)
        assert "it was not ready after 10 s" in failure(client.wait(never_ready, 10))
        assert inits(hostile) == [bystander]
        most = percentile(waits, 0.9)
        print(f"others waited {most:.3f} s mostly, {max(waits):.3f} s at worst; {grown} KiB more")
        assert most < 1.0 and max(waits) < 1.0 + STALL_SECONDS, sorted(waits)[-10:]
        assert grown < MEMORY_KB
        is_good(client, "left")


def wait_alone(boxd, client, count, seconds):
    """Waits until so many boxes are left; returns how long another client waited for each answer
    meanwhile."""
    waits = []
    end = time.monotonic() + seconds
    while len(inits(boxd)) > count:
        assert time.monotonic() < end, f"boxes are left: {boxd.tail()}"
        waits.append(is_good(client))
        time.sleep(0.05)
    return waits


def booting(tmp_path, how):
    """A host folder that tells box-init how to behave before it is ready."""
    folder = tmp_path / f"boot-{how}"
    folder.mkdir()
    (folder / "boot").write_text(how)
    return str(folder)


def test_deleted(hostile):
    """A box that does not answer can be deleted, and waiting callers get an error."""
    with hostile.web() as client, hostile.web() as other:
        is_good(client)
        for cmd in ("silent", "deaf"):
            seq = client.start("box_exec", {"cmd": cmd, "session_id": cmd, "timeout_sec": 60})
            wait_until(lambda: len(inits(hostile)) == 2, what="its box")
            other.ask("box_delete_session", {"session_id": cmd})
            assert client.wait(seq, 10)["code"] == 1
            wait_until(lambda: len(inits(hostile)) == 1, what="the box has gone")
        # A box that floods may already have been ended before the deletion.
        seq = client.start("box_exec", {"cmd": "flood", "session_id": "flood", "timeout_sec": 60})
        if other.call("box_delete_session", {"session_id": "flood"})["code"] != 0:
            client.wait(seq, 30)
        else:
            assert client.wait(seq, 30)["code"] == 1
        wait_until(lambda: len(inits(hostile)) == 1, what="the box has gone")


def test_restart_beside_silent_boxes(programs, tmp_path):
    """A successor of box-rpc is not held up by boxes that do not answer."""
    host = HostState()
    with native_boxd(tmp_path, programs=programs) as boxd:
        traces = Traces(boxd, host)
        with boxd.web() as client:
            for cmd in ("good", "deaf", "crumbs"):
                client.start("box_exec", {"cmd": cmd, "session_id": cmd, "timeout_sec": 60})
            for cmd in ("deaf", "crumbs"):
                wait_running(client, cmd)
        boxd.kill_worker()
        boxd.wait_served(2)
        with boxd.web() as client:
            is_good(client, "good")
            asked = {
                cmd: client.start("box_exec", {"cmd": "good", "session_id": cmd, "timeout_sec": 1})
                for cmd in ("deaf", "crumbs")
            }
            for cmd, seq in asked.items():
                told = failure(client.wait(seq, LATE_SECONDS))
                assert LATE in told, told
                is_good(client, cmd)
    traces.check_gone()


@pytest.mark.parametrize(
    ("boot", "why"),
    [
        ("die", "it ended before it was ready"),
        ("short", "it ended before it was ready"),
        ("nonsense", "Protocol error"),
        ("failed", "enter Landlock: Operation not permitted"),
    ],
)
def test_never_ready(hostile, tmp_path, boot, why):
    folder = booting(tmp_path, boot)
    with hostile.web() as client:
        is_good(client)
        told = client.fail("box_exec", {"cmd": "good", "session_id": "s", "host_path": folder})
        assert told.startswith("BoxError: the box cannot be made: "), told
        assert why in told and "null" not in told, told
        wait_until(lambda: len(inits(hostile)) == 1, what="it is gone")
        (tmp_path / f"boot-{boot}" / "boot").unlink()
        assert client.exec("good", "s", host_path=folder)["stdout"] == "good"


# Hosts that run out of something.


def limited(number):
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (number, number))

    return limit


def be_important():
    resource.setrlimit(resource.RLIMIT_RTPRIO, (50, 50))
    resource.setrlimit(resource.RLIMIT_NICE, (40, 40))


# The kernel's errors when it has run out.
GREEDY = """
import os, resource
print(resource.getrlimit(resource.RLIMIT_RTPRIO), resource.getrlimit(resource.RLIMIT_NICE))
for what in (lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)), lambda: os.nice(-5)):
    try:
        what()
        print("done")
    except PermissionError:
        print("refused")
"""


def test_priority_of_who_started_it_is_not_a_box_s(tmp_path):
    try:
        subprocess.run(["true"], preexec_fn=be_important, check=True)
    except subprocess.SubprocessError:
        pytest.skip("limits cannot be raised here")
    boxd = Boxd(cwd=tmp_path, config=NATIVE, preexec_fn=be_important)
    with boxd:
        boxd.wait_served()
        with boxd.web() as client:
            said = client.exec(f"python3 -c '{GREEDY}'", "s")["stdout"]
    assert said.splitlines() == ["(0, 0) (0, 0)", "refused", "refused"]


@pytest.mark.parametrize("files", [40, 64, 72, 96])
def test_few_open_files(tmp_path, files):
    """boxd reports what it lacks, makes no half boxes, and existing boxes keep working."""
    host = HostState()
    boxd = Boxd(cwd=tmp_path, config=NATIVE, preexec_fn=limited(files))
    with boxd:
        boxd.wait_served()
        traces = Traces(boxd, host)
        told = []
        made = []
        with boxd.web() as client:
            for number in range(40):
                session = f"s{number}"
                answer = client.call("box_exec", {"cmd": "echo ok", "session_id": session})
                if answer["code"] == 0:
                    made.append(session)
                    assert success(answer)["stdout"] == "ok"
                else:
                    told.append(failure(answer))
            print(files, len(made), set(told))
            assert told, "it must have run out"
            for text in told:
                assert text.startswith(("BoxError: ", "BoxBackendUnavailableError: ")), text
                assert "open files" in text or "Invalid argument" in text, text
            traces.check_boxes(len(made))
            for session in made:
                assert client.exec("echo again", session)["stdout"] == "again"
                client.ask("box_delete_session", {"session_id": session})
            traces.check_boxes(0)
            if made:
                assert client.exec("echo new", "new")["stdout"] == "new"
        assert len(boxd.workers()) == 1, boxd.tail()
    traces.check_gone()


def group_numbers(parent):
    return sorted(int(path.name[1:]) for path in parent.glob("b[0-9]*"))


def test_no_room_for_groups(tmp_path):
    """The kernel refuses the cgroup of a box: the error says so, and nothing of the box is left."""
    host = HostState()
    with native_boxd(tmp_path) as boxd, boxd.web() as client:
        traces = Traces(boxd, host)
        client.exec("true", "bystander")
        parent = sorted(traces.parents)[0]
        # Two warm boxes; a first one of another shape may have been made and dropped.
        wait_until(lambda: len(group_numbers(parent)) == 3, what="the groups of the next boxes")
        last = group_numbers(parent)[-1]
        # Each try uses one number for the box, and may use another one for the next warm box.
        taken = [parent / f"b{number}" for number in range(last + 1, last + 18)]
        for path in taken:
            path.mkdir()
        client.exec("true", "one but last")
        client.exec("true", "last")
        try:
            for _ in range(4):
                told = client.fail("box_exec", {"cmd": "true", "session_id": "s"})
                assert told.startswith("BoxError: "), told
                assert "group" in told, told
                assert len(inits(boxd)) == 3
        finally:
            for path in taken:
                path.rmdir()
        assert client.exec("echo ok", "s")["stdout"] == "ok"
        traces.check_boxes(4)
    traces.check_gone()
