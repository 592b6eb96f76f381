"""`box exec --timeout` ends the command only: the box stays with its files and processes, however
the command reacts to SIGTERM and however it is connected. The timeout of the wire protocol still
removes the session unless it is told to keep it.
"""

import concurrent.futures
import signal
import time

import boxdlib
import clilib
import nativelib
import proclib
import pytest
from boxdlib import wait_until
from clientlib import INSTANCE
from ttylib import Pty

WHO = {"LANGBOT_BOX_TRUSTED_INSTANCE_UUID": INSTANCE}
KEPT = "box: the command timed out after 1 s; the box s is kept\n"
# Each starts processes that sleep for MARK seconds.
COMMANDS = {
    "plain": "sleep MARK",
    "ignores SIGTERM": "trap '' TERM; sleep MARK; sleep MARK",
    "a background that ignores it": "(trap '' TERM; sleep MARK) & sleep MARK",
    "a background that holds the output": "sleep MARK & sleep MARK",
    "ends well": "trap 'exit 0' TERM; sleep MARK & wait",
    "stopped": "(sleep MARK) & kill -STOP $$",
}
HOW = {"pipes": [], "input": ["-i"], "terminal": ["-t"]}

pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.fixture(scope="module")
def client(nothing_left):
    """One mode is enough: box-init is the same in both."""
    mode = "root" if boxdlib.ROOT else "rootless"
    with nativelib.Place(mode) as place, nativelib.dialled(place) as made:
        yield made


def options(client):
    return ["--endpoint", client.boxd.url, "--workspace", "ws1"]


def box(client, command, *args, **more):
    return clilib.box(command, *options(client), *args, private=False, env=WHO, **more)


def gone(mark):
    wait_until(lambda: not proclib.find(mark), 3, f"sleep {mark} is gone")


@pytest.fixture
def furnished(client):
    """A box with a file and a process that must survive."""
    assert box(client, "create", "s")[0] == 0
    assert box(client, "exec", "s", "echo work > /workspace/kept")[0] == 0
    assert box(client, "start", "s", "sleep", nativelib.marker())[0] == 0
    yield client
    assert box(client, "exec", "s", "cat /workspace/kept") == (0, "work\n", "")
    code, out, _ = box(client, "ps", "s")
    assert code == 0 and " running " in out
    assert box(client, "rm", "s") == (0, "s\n", "")


def test_only_the_command_ends(furnished):
    def run(name, how):
        mark = nativelib.marker()
        began = time.monotonic()
        command = COMMANDS[name].replace("MARK", mark)
        done = box(furnished, "exec", "--timeout=1", *HOW[how], "s", command)
        took = time.monotonic() - began
        gone(mark)
        return done, took

    names = [(name, how) for name in COMMANDS for how in HOW]
    with concurrent.futures.ThreadPoolExecutor(len(names)) as pool:
        results = dict(zip(names, pool.map(lambda one: run(*one), names)))
    for name, (done, took) in results.items():
        assert done == (124, "", KEPT), (name, done)
        assert took < 12, name


def test_at_a_terminal(furnished):
    """A login shell ignores SIGTERM; its foreground job has a process group of its own."""
    mark = nativelib.marker()
    words = ["exec", *options(furnished), "-it", "--timeout=1", "s"]
    with Pty(*words, env=WHO) as sat:
        sat.await_raw().type(f"sleep {mark}\r".encode())
        assert sat.end() == 124
        assert sat.is_restored() and b"the box s is kept" in sat.out
    gone(mark)


def test_box_that_is_stopped_or_killed(furnished):
    """The runtime ends the command at its timeout, and at once when no client is connected."""
    marks = [nativelib.marker() for _ in range(2)]
    words = ["exec", *options(furnished), "--timeout=2", "s"]
    started = [
        clilib.start(*words, f"sleep {mark}", private=False, env=WHO) for mark in marks
    ]
    try:
        for mark, process, number in zip(marks, started, (signal.SIGSTOP, signal.SIGKILL)):
            proclib.find_one(mark, 10)
            process.send_signal(number)
        for mark in marks:
            wait_until(lambda mark=mark: not proclib.find(mark), 8, f"sleep {mark} is gone")
        started[0].send_signal(signal.SIGCONT)
        assert (started[0].wait(10), started[0].stderr.read().decode()) == (
            124,
            KEPT.replace("1 s", "2 s"),
        )
    finally:
        for process in started:
            process.kill()
            process.communicate()


def test_over_the_wire(client):
    spec = {"session_id": "w", "cmd": "sleep 60", "timeout_sec": 1}
    seq = client.start("box_exec_stream", {**spec, "keep_on_timeout": True})
    events = []
    while not events or events[-1].get("event") != "exit":
        events.append(client.wait(seq)["data"])
    assert (events[-1]["status"], events[-1]["exit_code"]) == ("timed_out", None)
    assert client.ask("box_get_session", {"session_id": "w"})["status"] != "closing"
    assert "exec_keep_on_timeout" in client.ask("box_status")["features"]
    for wrong in (1, "yes"):
        answer = client.wait(client.start("box_exec_stream", {**spec, "keep_on_timeout": wrong}))
        assert answer["message"] == "BoxValidationError: keep_on_timeout must be a boolean"
    assert client.exec("sleep 60", "w", timeout_sec=1)["status"] == "timed_out"
    listed = client.ask("box_get_sessions")["sessions"]
    assert all(one["status"] == "closing" for one in listed if one["session_id"] == "w")
