"""Live commands over the wire: terminals in native boxes, requests to a running command, and
refusals with their exact errors.
"""

import os
import time

import pytest

import parallellib
import boxdlib
import clientlib
import nativelib

UNKNOWN = "BoxValidationError: exec_id names no running exec"
NO_TTY = "BoxValidationError: tty must be null or a map of two integers, rows and cols"
NO_SIZE = "BoxValidationError: rows and cols of a tty must be 1 to 65535"
TTY = {"rows": 24, "cols": 80}


pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.fixture(scope="module")
def client(place):
    with nativelib.dialled(place) as made:
        yield made


@pytest.fixture(scope="module")
def scenes(request, nothing_left):
    with parallellib.begun(request) as made:
        yield made


class Live:
    """A live command. `out` is its output so far."""

    def __init__(self, client, cmd, session="s", stdin=True, **spec):
        self.client = client
        self.out = ""
        data = {"cmd": cmd, "session_id": session, "stdin": stdin, **spec}
        self.seq = client.start("box_exec_stream", data)
        first = client.wait(self.seq)
        assert first["code"] == 0, first["message"]
        assert first["data"]["event"] == "started"
        self.exec_id = first["data"]["exec_id"]

    def until(self, text, seconds=15):
        """Reads until the output contains this."""
        end = time.monotonic() + seconds
        while text not in self.out:
            event = self.client.wait(self.seq, end - time.monotonic())["data"]
            assert event["event"] == "stdout", (event, self.out)
            self.out += event["data"]
        return self.out

    def end(self, seconds=15):
        """Reads to the end and returns the exit code."""
        while True:
            event = self.client.wait(self.seq, seconds)["data"]
            if event["event"] == "exit":
                assert self.client.wait(self.seq)["chunk_status"] == "end"
                return event["exit_code"]
            assert event["event"] == "stdout", event  # a terminal has no other
            self.out += event["data"]

    def ask(self, action, **members):
        return self.client.ask(f"box_exec_{action}", {"exec_id": self.exec_id, **members})

    def fail(self, action, **members):
        return self.client.fail(f"box_exec_{action}", {"exec_id": self.exec_id, **members})

    def type(self, text):
        assert self.ask("input", data=text) == {}

    def kill(self):
        self.ask("signal", signal=9)
        assert self.end() == 137


# What a command sees of its terminal.


def test_a_terminal_of_its_own(client):
    command = "tty; stty size; readlink /proc/self/fd/0 /proc/self/fd/2; ps -o tty= $$"
    live = Live(client, command, tty={"rows": 33, "cols": 101})
    assert live.end() == 0
    assert live.out == "/dev/pts/0\r\n33 101\r\n/dev/pts/0\r\n/dev/pts/0\r\npts/0\r\n"


@pytest.mark.parametrize("rows, cols", [(1, 1), (65535, 65535)])
def test_sizes_at_their_limits(client, rows, cols):
    live = Live(client, "stty size", tty={"rows": rows, "cols": cols})
    assert (live.end(), live.out) == (0, f"{rows} {cols}\r\n")


def test_erasing_takes_back_a_character(client):
    live = Live(client, "stty -echo; echo ready; cat", tty=TTY)
    live.until("ready")
    live.type("aé\x7fb漢\x7f\x7fc\n")
    live.until("ac\r\n")
    live.type("\x04")
    assert live.end() == 0


def test_a_terminal_without_input(client):
    live = Live(client, "echo ready; exec sleep 1000", stdin=False, tty=TTY)
    live.until("ready")
    assert live.fail("input", data="x") == "BoxValidationError: the exec has no stdin"
    live.kill()


def test_a_resize_is_heard(client):
    command = "trap 'stty size' WINCH; echo ready; while :; do read line; done"
    live = Live(client, command, tty=TTY)
    live.until("ready")
    assert live.ask("resize", rows=40, cols=132) == {}
    live.until("40 132\r\n")
    live.kill()


def test_keys_for_signals(client):
    """The terminal turns them into signals for the foreground job only."""
    live = Live(client, "exec sh -i", tty=TTY)
    live.until("$ ")
    live.type("sleep 1000\n")
    live.until("sleep 1000\r\n")
    boxdlib.wait_until(lambda: client.exec("pgrep -x sleep")["exit_code"] == 0, what="it sleeps")
    live.type("\x1a")
    live.until("Stopped")
    live.type("fg\n")
    live.until("fg\r\nsleep 1000\r\n")
    live.type("\x03")
    live.until("^C")
    live.type("echo code $?\n")
    live.until("code 130\r\n")
    assert "job control" not in live.out
    live.type("\x04")
    live.end()
    assert client.exec("pgrep -x sleep")["exit_code"] == 1


def test_the_end_of_input_is_typed(client):
    """A terminal accepts further input after it."""
    live = Live(client, "stty -echo; echo ready; cat; echo between; cat", tty=TTY)
    live.until("ready")
    assert live.ask("input", data="one\n", eof=True) == {}
    live.until("one\r\nbetween\r\n")
    assert live.ask("input", data_base64="dHdvCg==") == {}
    live.until("two\r\n")
    assert live.ask("input", eof=True) == {}
    assert live.end() == 0


def test_a_terminal_stays_while_its_command_runs(client):
    """The terminal survives while no process has it open."""
    wait = "rm -f /tmp/go; until [ -e /tmp/go ]; do sleep 0.05; done"
    command = f"exec </dev/null >/dev/null 2>&1; {wait}; {{ stty size; echo back; }} <>/dev/tty >&0"
    live = Live(client, command, tty=TTY)
    assert live.ask("resize", rows=7, cols=9) == {}
    time.sleep(0.3)
    assert client.exec("touch /tmp/go")["exit_code"] == 0
    assert (live.end(), live.out) == (0, "7 9\r\nback\r\n")


def test_a_terminal_hangs_up_with_its_command(client):
    """A background process that ignores the hangup keeps running without the terminal, and costs
    box-init no processor time, not even when it ends."""
    mark = nativelib.marker()
    live = Live(client, f"trap '' HUP; sleep {mark} & exit 3", "left", tty=TTY)
    assert live.end() == 3
    init = int(boxdlib.status_of(nativelib.proclib.find_one(mark))["PPid"])
    assert client.exec("ls /dev/pts", "left")["stdout"] == "ptmx"
    assert client.exec("pkill sleep", "left")["exit_code"] == 0
    before = cpu_ticks(init)
    time.sleep(0.5)
    assert cpu_ticks(init) - before <= 5
    client.ask("box_delete_session", {"session_id": "left"})


FILL = """
import os, time
os.set_blocking(1, False)
full = 0
while full < 20:
    try:
        os.write(1, b"x" * 4096)
        full = 0
    except BlockingIOError:
        full += 1
        time.sleep(0.05)
"""


@parallellib.scene
def test_input_that_a_terminal_never_took_costs_nothing(client):
    """The command is over, but its end waits for a client that takes no more output."""
    mark = nativelib.marker()
    command = f"stty raw -echo; python3 -c '{FILL}'; echo over >/tmp/over"
    spec = {"cmd": command, "session_id": "full", "stdin": True, "tty": TTY}
    assert client.exec(f"sleep {mark} >/dev/null 2>&1 &", "full")["exit_code"] == 0
    init = int(boxdlib.status_of(nativelib.proclib.find_one(mark))["PPid"])
    seq = client.start("box_exec_stream", spec, stream_flow_control=1)
    started = client.wait(seq)["data"]
    client.wait(seq)  # it is in raw mode by now
    typed = {"exec_id": started["exec_id"], "data": "x" * 300000}
    client.start("box_exec_input", typed)
    look = "cat /tmp/over 2>/dev/null"
    boxdlib.wait_until(lambda: client.exec(look, "full")["stdout"], what="the command is over")
    before = cpu_ticks(init)
    time.sleep(0.5)
    assert cpu_ticks(init) - before <= 5
    assert client.ask("__cancel_action", {"seq_id": seq}) == {"cancelled": True}
    client.ask("box_delete_session", {"session_id": "full"})


def cpu_ticks(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def test_a_terminal_and_mounts_of_its_own(client, place):
    shown = place.make(f"shown-{next(nativelib.NUMBERS)}")
    place.write(shown / "file", "it is there\n")
    mounts = [{"host_path": str(shown), "mount_path": "/shown", "mode": "ro"}]
    live = Live(client, "tty; cat /shown/file; sh -ic :", extra_mounts=mounts, tty=TTY)
    assert (live.end(), live.out) == (0, "/dev/pts/0\r\nit is there\r\n")


def test_many_terminals_at_once(client):
    """Each terminal has its own number, and all numbers are released."""
    for _ in range(3):
        lives = [Live(client, "tty; read x; echo got $x", tty=TTY) for _ in range(20)]
        names = {live.until("\r\n").split("\r\n")[0] for live in lives}
        assert names == {f"/dev/pts/{n}" for n in range(20)}
        for live in lives:
            live.type("it\n")
        assert [live.end() for live in lives] == [0] * 20
        assert all(live.out.endswith("got it\r\n") for live in lives)
    assert client.exec("ls /dev/pts")["stdout"] == "ptmx"


def test_cancel_ends_what_has_the_terminal(client):
    mark = nativelib.marker()
    live = Live(client, "exec sh -i", tty=TTY)
    live.until("$ ")
    live.type(f"sleep {mark}\n")
    nativelib.proclib.find_one(mark)
    assert client.ask("__cancel_action", {"seq_id": live.seq}) == {"cancelled": True}
    boxdlib.wait_until(lambda: not nativelib.proclib.find(mark), what="the foreground job ended")


# Isolation.

PROBE = """
import errno, fcntl, os, termios
def tried(what, *args):
    try:
        what(*args)
        return "done"
    except OSError as why:
        return errno.errorcode[why.errno]
for name in ("/dev/tty", os.ttyname(0)):
    fd = os.open(name, os.O_RDWR | os.O_NOCTTY)
    print("sti", tried(fcntl.ioctl, fd, termios.TIOCSTI, b"x"))
print("pts", *sorted(os.listdir("/dev/pts")))
print("dev", *sorted({os.fstat(fd).st_dev for fd in (0, 1, 2)}))
print("fds", *sorted(os.listdir("/proc/self/fd")))
master, slave = os.openpty()
print("own", os.ttyname(slave))
print("steal", tried(fcntl.ioctl, slave, termios.TIOCSCTTY, 1))
"""


def test_a_terminal_is_the_box_s_own(client):
    """Nobody can type into it, no other terminal can be reached, and a command may open more."""
    live = Live(client, f"exec python3 -c '{PROBE}'", "walls", tty=TTY)
    assert live.end() == 0, live.out
    said = {}
    for line in live.out.splitlines():
        word, *rest = line.split()
        said.setdefault(word, []).append(rest)
    assert said["sti"] == [["EPERM"], ["EPERM"]]
    assert said["pts"] == [["0", "ptmx"]] and said["own"] == [["/dev/pts/1"]]
    # The listing itself has one.
    assert said["fds"] == [["0", "1", "2", "3", "4", "5"]]
    assert said["steal"] in ([["EPERM"]], [["EBUSY"]])
    (devices,) = said["dev"]
    assert len(devices) == 1
    if os.path.exists("/dev/pts"):
        assert int(devices[0]) != os.stat("/dev/pts").st_dev


def test_another_box_has_another_devpts(client):
    lives = [
        Live(client, "tty; stat -c %d /dev/pts; echo ready; read x", session, tty=TTY)
        for session in ("one", "two")
    ]
    (name, device), (other_name, other_device) = (
        live.until("ready\r\n").split("\r\n")[:2] for live in lives
    )
    assert name == other_name == "/dev/pts/0" and device != other_device
    for live in lives:
        live.type("\n")
        assert live.end() == 0


def test_a_box_cannot_take_all_terminals(client):
    """The host has one limit for all boxes. A box without a free terminal gets an error, others
    work on."""
    take = "import os\nfor n in range(64): os.openpty()\nprint('ready', flush=True)\ninput()"
    greedy = Live(client, f'exec python3 -c "{take}"', "greedy")
    greedy.until("ready\n")
    spec = {"cmd": "true", "session_id": "greedy", "tty": TTY}
    why = "BoxCapacityExceededError: too many terminals at once in one session (64)"
    assert client.fail("box_exec_stream", spec) == why
    assert "No space left" in client.exec(f'python3 -c "{take}" 2>&1', "greedy")["stdout"]
    assert Live(client, "tty", "other", tty=TTY).end() == 0
    greedy.type("\n")
    assert greedy.end() == 0
    assert Live(client, "tty", "greedy", tty=TTY).end() == 0


# Refusals.


@pytest.mark.parametrize(
    "tty, why",
    [
        ({"rows": 0, "cols": 80}, NO_SIZE),
        ({"rows": 24, "cols": 0}, NO_SIZE),
        ({"rows": 65536, "cols": 80}, NO_SIZE),
        ({"rows": 24, "cols": 65536}, NO_SIZE),
        ({"rows": -1, "cols": 80}, NO_SIZE),
        ({"rows": 24, "cols": -(2**63)}, NO_SIZE),
        ({"rows": "24", "cols": 80}, NO_TTY),
        ({"rows": 24.0, "cols": 80}, NO_TTY),
        ({"rows": True, "cols": 80}, NO_TTY),
        ({"rows": None, "cols": 80}, NO_TTY),
        ({"rows": 24}, NO_TTY),
        ({"cols": 80}, NO_TTY),
        ({}, NO_TTY),
        ({"rows": 24, "cols": 80, "term": "xterm"}, NO_TTY),
        ([24, 80], NO_TTY),
        (True, NO_TTY),
        (24, NO_TTY),
        ("24x80", NO_TTY),
    ],
)
def test_terminals_that_cannot_be(client, tty, why):
    spec = {"cmd": "true", "session_id": "s", "stdin": True, "tty": tty}
    assert client.fail("box_exec_stream", spec) == why


@pytest.fixture(scope="module")
def piped(client):
    """A command without a terminal that waits for its input."""
    live = Live(client, "exec cat", "piped")
    yield live
    assert live.ask("input", data="done", eof=True) == {}
    assert (live.end(), live.out) == (0, "done")
    # A command that has ended accepts no requests.
    assert live.fail("input", data="x") == UNKNOWN
    assert live.fail("signal", signal=15) == UNKNOWN
    assert live.fail("resize", rows=1, cols=1) == UNKNOWN


@pytest.fixture(scope="module")
def waiting(client):
    """A command with a terminal that waits for its input."""
    live = Live(client, "stty -echo; echo ready; exec cat", "waiting", tty=TTY)
    live.until("ready\r\n")
    yield live
    live.type("done\n\x04")
    assert live.end() == 0
    assert live.out == "ready\r\ndone\r\n"


def test_input_after_its_end(client):
    live = Live(client, "cat; echo; exec sleep 1000")
    assert live.ask("input", data="all", eof=True) == {}
    live.until("all\n")
    for more in ({"data": "x"}, {"eof": True}, {"data_base64": "eA==", "eof": True}):
        assert live.fail("input", **more) == "BoxValidationError: the input has ended already"
    live.kill()


def test_resize_without_a_terminal(piped):
    why = "BoxValidationError: the exec has no tty"
    assert piped.fail("resize", rows=24, cols=80) == why


@pytest.mark.parametrize(
    "members, why",
    [
        ({"rows": 0, "cols": 80}, NO_SIZE),
        ({"rows": 24, "cols": 65536}, NO_SIZE),
        ({"rows": -1, "cols": 80}, NO_SIZE),
        ({"rows": 24}, "KeyError: 'cols'"),
        ({"cols": 80}, "KeyError: 'rows'"),
        ({"rows": "24", "cols": 80}, "ValueError: rows must be int, not str"),
        ({"rows": 24, "cols": 80.0}, "ValueError: cols must be int, not float"),
        ({"rows": True, "cols": 80}, "ValueError: rows must be int, not bool"),
    ],
)
def test_sizes_that_cannot_be(waiting, members, why):
    assert waiting.fail("resize", **members) == why


@pytest.mark.parametrize(
    "number, why",
    [
        (0, "BoxValidationError: signal must be 1 to 64"),
        (65, "BoxValidationError: signal must be 1 to 64"),
        (-9, "BoxValidationError: signal must be 1 to 64"),
        (2**63 - 1, "BoxValidationError: signal must be 1 to 64"),
        ("TERM", "ValueError: signal must be int, not str"),
        (9.0, "ValueError: signal must be int, not float"),
        (True, "ValueError: signal must be int, not bool"),
    ],
)
def test_signals_that_are_none(waiting, piped, number, why):
    assert waiting.fail("signal", signal=number) == why
    assert piped.fail("signal", signal=number) == why


@pytest.mark.parametrize(
    "members, why",
    [
        ({"data": 5}, "BoxValidationError: data must be text or bytes"),
        (
            {"data": "a", "data_base64": "YQ=="},
            "BoxValidationError: data and data_base64 exclude each other",
        ),
        ({"data_base64": "YQ"}, "BoxValidationError: data_base64 is not base64"),
        ({"data": "a", "eof": 1}, "ValueError: eof must be bool, not int"),
    ],
)
def test_input_that_is_none(waiting, piped, members, why):
    assert waiting.fail("input", **members) == why
    assert piped.fail("input", **members) == why


REQUESTS = [
    ("box_exec_input", {"data": "x"}),
    ("box_exec_resize", {"rows": 24, "cols": 80}),
    ("box_exec_signal", {"signal": 15}),
]


@pytest.mark.parametrize("action, members", REQUESTS)
@pytest.mark.parametrize("exec_id", ["", "exec-0", "exec-99999999", "é" * 300, "exec-1\0"])
def test_an_unknown_exec(client, waiting, action, members, exec_id):
    assert client.fail(action, {"exec_id": exec_id, **members}) == UNKNOWN


@pytest.mark.parametrize("action, members", REQUESTS)
def test_an_exec_must_be_named(client, action, members):
    assert client.fail(action, members) == "KeyError: 'exec_id'"
    named = {"exec_id": 7, **members}
    assert client.fail(action, named) == "ValueError: exec_id must be str, not int"


@pytest.mark.parametrize("action, members", REQUESTS)
def test_an_exec_of_another_workspace(client, waiting, action, members):
    data = {"exec_id": waiting.exec_id, **members}
    assert client.fail(action, data, context=clientlib.context("ws2")) == UNKNOWN
    assert client.fail(action, data, context=None) == UNKNOWN
    with client.boxd.web() as other:
        assert other.fail(action, data, context=clientlib.context("ws2")) == UNKNOWN


def test_another_connection_of_the_same_workspace(client, waiting):
    with client.boxd.web() as other:
        data = {"exec_id": waiting.exec_id, **TTY}
        assert other.ask("box_exec_resize", data) == {}


def test_features_name_terminals(client):
    assert "exec_tty" in client.ask("box_status")["features"]

