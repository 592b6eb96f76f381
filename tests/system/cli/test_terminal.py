"""`box exec -it` and `box run -it` in a real tmux: full-screen programs, keys, sizes, exit codes,
and a terminal that is restored in every case.
"""

import contextlib
import hashlib
import os
import signal
import statistics
import termios
import time

import pytest

import boxdlib
import clilib
import nativelib
from fakeruntimelib import StreamServer
from ttylib import Pty, Tmux, is_raw, set_size

MODE = "root" if boxdlib.ROOT else "rootless"


pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.fixture(scope="module")
def boxd(nothing_left):
    """A boxd with a box `work` in it."""
    with nativelib.Place(MODE) as place, place.start(instance="box") as boxd:
        assert clilib.dialled(boxd, "create", "work") == (0, "work\n", "")
        yield boxd


@pytest.fixture
def sit(boxd):
    """sit(option, ..., cmd): box exec at a terminal of the test."""
    opened = []

    def start(*args, **options):
        *flags, cmd = args
        words = ["exec", f"--endpoint={boxd.url}", *flags, "work", *([cmd] if cmd else [])]
        opened.append(Pty(*words, **options))
        return opened[-1]

    yield start
    for one in opened:
        one.__exit__()


@pytest.fixture
def tmux(boxd, tmp_path):
    path = f"{boxdlib.build()}:{os.environ['PATH']}"
    with Tmux(tmp_path, PATH=path, BOX_ENDPOINT=boxd.url) as made:
        yield made


def inside(boxd, command):
    code, out, err = clilib.dialled(boxd, "exec", "work", command)
    assert (code, err) == (0, "")
    return out


def sleepers(boxd):
    return int(inside(boxd, "pgrep -cx sleep || :"))


# Full-screen programs.


def tildes(tmux):
    return sum(line == "~" for line in tmux.lines())


def await_size(boxd, rows, cols):
    """Waits until the terminal inside has this size."""
    command = "stty size -F /dev/pts/0"
    boxdlib.wait_until(lambda: inside(boxd, command) == f"{rows} {cols}\n", what=f"{rows}x{cols}")


def test_vi(tmux, boxd):
    tmux.start("box", "exec", "-it", "work", "vi", "note")
    boxdlib.wait_until(lambda: tildes(tmux) >= 20, what=lambda: f"vi has drawn: {tmux.lines()}")
    tmux.type("ione line\x1b")
    tmux.wait("^one line")
    tmux.resize(40, 120)
    boxdlib.wait_until(lambda: tildes(tmux) >= 36, what=lambda: f"vi is taller: {tmux.lines()}")
    await_size(boxd, 40, 120)
    tmux.type("o" + "x" * 119 + "y\x1b")
    tmux.wait("^x{119}y$")
    tmux.resize(12, 40)
    boxdlib.wait_until(lambda: tildes(tmux) in range(3, 9), what=lambda: f"smaller: {tmux.lines()}")
    tmux.wait("^x{40}\nx{40}\nx{39}y$")
    await_size(boxd, 12, 40)
    tmux.enter(":wq")
    assert tmux.code() == 0
    assert inside(boxd, "cat note") == "one line\n" + "x" * 119 + "y\n"


def test_top(tmux, boxd):
    tmux.start("box", "exec", "-it", "work", "top", "-d", "100")
    tmux.wait(r"^ *PID USER .*COMMAND")
    tmux.resize(20, 42)
    # Drawn at its width, no line wraps.
    await_size(boxd, 20, 42)
    tmux.wait(r"^top - .*\nTasks: .*\n%Cpu")
    tmux.resize(30, 130)
    await_size(boxd, 30, 130)
    tmux.wait(r"^top - .* load average: .*\nTasks: .*zombie *\n%Cpu.* st *\n(.*\n){2,4} *PID USER")
    tmux.type("q")
    assert tmux.code() == 0


def test_python(tmux):
    tmux.start("box", "exec", "-it", "work", "python3")
    tmux.wait("^>>>")
    tmux.enter("import os; 6 * 7, tuple(os.get_terminal_size())")
    tmux.wait(r"^\(42, \(80, 24\)\)$")
    tmux.resize(30, 90)
    tmux.clear()
    tmux.enter("tuple(os.get_terminal_size())")
    tmux.wait(r"^\(90, 30\)$")
    tmux.enter("while True: pass")
    tmux.key("Enter")
    for _ in range(10):  # Python misses one now and then, see below
        tmux.key("C-c")
        with contextlib.suppress(AssertionError):
            tmux.wait("^KeyboardInterrupt", 2)
            break
    tmux.wait("^KeyboardInterrupt")
    tmux.enter("exit(7)")
    assert tmux.code() == 7, tmux.lines()


def test_python_ends_with_its_input(tmux):
    tmux.start("box", "run", "--endpoint", "$BOX_ENDPOINT", "-it", "python3")
    tmux.wait("^>>>")
    tmux.key("C-d")
    assert tmux.code() == 0


def test_a_login_shell_with_jobs(tmux, boxd):
    tmux.start("box", "exec", "-it", "work")
    tmux.wait(r"^\$")
    tmux.enter("echo $0 $-; pwd")
    tmux.wait("^/bin/sh .*m.*\n/workspace")
    tmux.enter("sleep 1000")
    boxdlib.wait_until(lambda: sleepers(boxd) == 1, what="it sleeps")
    tmux.key("C-z")
    tmux.wait("Stopped")
    tmux.enter("jobs; bg")
    boxdlib.wait_until(lambda: inside(boxd, "ps -o stat= -C sleep") == "S\n", what="it goes on")
    tmux.enter("fg")
    # A key that arrives before the shell has read the line would discard the line and interrupt the
    # shell.
    boxdlib.wait_until(lambda: inside(boxd, "ps -o stat= -C sleep") == "S+\n", what="it is in front")
    tmux.key("C-c")
    boxdlib.wait_until(lambda: sleepers(boxd) == 0, what="it is ended")
    tmux.enter("echo ended $?")
    tmux.wait(r"ended 130$")
    assert "no job control" not in "\n".join(tmux.lines())
    tmux.enter("exit 9")
    assert tmux.code() == 9


# Exit codes.


@pytest.mark.parametrize(
    "command, code",
    [
        ("exit 0", 0),
        ("exit 42", 42),
        ("kill -TERM $$", 143),
        ("kill -KILL $$", 137),
        ("no-such-command 2>/dev/null", 127),
        ("exec /etc/passwd 2>/dev/null", 126),
    ],
)
@pytest.mark.parametrize("flags", ["-it", "-t", "-i", ""])
def test_exit_codes(sit, command, code, flags):
    at = sit(*filter(None, [flags]), command)
    assert (at.end(), bytes(at.out)) == (code, b"")
    assert at.is_restored()


def test_run_with_a_boxd_of_its_own():
    nativelib.skip_if_missing("root")
    env = {"LANGBOT_BOX_CONFIG": "{}", "ASAN_OPTIONS": "detect_leaks=0"}
    with Pty("run", "-it", "tty; stty size; exit 5", size=(11, 22), env=env) as at:
        assert at.end() == 5
        assert bytes(at.out) == b"/dev/pts/0\r\n11 22\r\n" and at.is_restored()


def test_our_own_failures(sit, boxd):
    with Pty("exec", f"--endpoint={boxd.url}", "-it", "nobody", "true") as at:
        assert at.end() == 125
        assert b"BoxSessionNotFoundError" in at.out and at.is_restored()
    at = sit("-it", "--workdir=/proc/nothing", "true")
    assert at.end() == 125 and b"workdir" in at.out and at.is_restored()


@pytest.mark.parametrize("words", [["python3"], ["python3", "-q"]])
def test_the_code_after_a_ctrl_c_that_was_handled(boxd, words):
    """No shell is there to catch it. Python misses a signal that comes between its prompt and its
    first wait: then it is sent again."""
    told = b"KeyboardInterrupt\r\n>>> "
    with Pty("exec", f"--endpoint={boxd.url}", "-it", "work", *words) as at:
        at.until(b">>> ")
        for _ in range(10):
            at.type(b"\x03")
            with contextlib.suppress(AssertionError):
                at.until(told, 2)
                break
        assert told in at.out
        at.type(b"exit(7)\n")
        assert at.end() == 7


# What the command sees of its terminal.


def test_a_terminal_without_a_size(sit):
    at = sit("-it", "stty size", size=None)
    assert (at.end(), bytes(at.out)) == (0, b"24 80\r\n")


def test_a_window_that_gets_its_size_late(sit):
    at = sit("-it", "trap 'stty size' WINCH; echo ready; while :; do read x; done", size=None)
    at.until(b"ready")
    set_size(at.master, 50, 100)
    at.until(b"50 100").type(b"\x03")
    assert at.end() == 130


@pytest.mark.parametrize(
    "flags, env, shown",
    [
        (["-it"], {"TERM": "screen-256color"}, "screen-256color||"),
        (["-t"], {"TERM": "vt100"}, "vt100||"),
        (["-it"], {"TERM": ""}, "xterm||"),
        (["-it"], {"TERM": None}, "xterm||"),
        (["-it", "--env=TERM=linux"], {}, "linux||"),
        (["-it"], {"TERM": "xterm", "COLUMNS": "5", "LINES": "6"}, "xterm||"),
        (["-i"], {"TERM": "vt100"}, "||"),
    ],
)
def test_variables(sit, flags, env, shown):
    at = sit(*flags, 'printf %s "$TERM|$COLUMNS|$LINES"', env=env)
    assert (at.end(), bytes(at.out)) == (0, shown.encode())


def test_output_may_go_elsewhere(sit, tmp_path):
    with open(tmp_path / "out", "wb") as out:
        at = sit("-it", "stty size; echo x >&2", stdout=out)
        assert at.end() == 0
    assert (tmp_path / "out").read_bytes() == b"24 80\r\nx\r\n"
    assert bytes(at.out) == b""


def test_without_i_nothing_is_read(sit):
    """The terminal is not raw then: Ctrl-C is a signal, which is forwarded to the command."""
    at = sit("-t", "echo ready; exec cat")
    at.until(b"ready")
    assert not is_raw(at.slave)
    at.type(b"typed\n").until(b"typed\r\n").type(b"\x03")
    assert at.end() == 130 and at.out.count(b"typed") == 1


def test_input_that_is_no_terminal(boxd, tmp_path):
    options = {"data": b"line\n"}
    refused = (125, "", "box: the input device is not a TTY\n")
    assert clilib.dialled(boxd, "exec", "-it", "work", "cat", **options) == refused
    assert clilib.dialled(boxd, "exec", "-it", "work") == refused
    assert clilib.dialled(boxd, "exec", "-i", "work", "cat", **options) == (0, "line\n", "")
    assert clilib.dialled(boxd, "exec", "work", "cat", **options) == (0, "line\n", "")
    code, out, err = clilib.dialled(boxd, "exec", "-t", "work", "stty size; echo x >&2")
    assert (code, out, err) == (0, "24 80\r\nx\r\n", "")


# Keys.


def test_ctrl_c_is_a_byte_for_a_program_that_wants_it(sit):
    at = sit("-it", "stty raw -echo; echo ready; head -c 4 | od -An -tx1; stty sane")
    at.until(b"ready").type(b"\x03\x1a\x1c\x04")
    at.until(b"03 1a 1c 04")
    assert at.end() == 0 and at.is_restored()


def test_ctrl_c_ends_what_is_in_the_foreground(sit, boxd):
    at = sit("-it", "trap 'echo trapped' INT; echo ready; sleep 1000; echo after; exit 3")
    at.until(b"ready").await_raw()
    # sh must have started its child, else the key comes too early for it.
    boxdlib.wait_until(lambda: sleepers(boxd) == 1, what="it sleeps")
    at.type(b"\x03").until(b"trapped").until(b"after")
    assert at.end() == 3


def test_ctrl_c_without_a_terminal_inside(sit):
    at = sit("echo ready; exec sleep 1000")
    at.until(b"ready")
    assert not is_raw(at.slave)
    at.type(b"\x03")
    assert at.end() == 130


def test_the_second_ctrl_c_leaves_a_command_that_does_not_mind(sit, boxd):
    at = sit("trap 'echo heard' INT; sleep 1000 & echo ready; while :; do wait; done")
    at.until(b"ready").type(b"\x03").until(b"heard")
    with pytest.raises(AssertionError, match="it goes on"):
        at.end(0.5)
    at.type(b"\x03")
    assert at.end() == 130
    boxdlib.wait_until(lambda: sleepers(boxd) == 0, what="it is ended")


def test_ctrl_d_ends_the_input(sit):
    at = sit("-it", "echo ready; cat; echo after")
    at.until(b"ready").await_raw().type(b"text\n\x04").until(b"text\r\ntext\r\nafter")
    assert at.end() == 0


def test_a_large_paste_arrives_whole(sit):
    paste = b"".join(b"%05d %s\n" % (number, b"x" * 93) for number in range(1050))
    assert len(paste) > 100 << 10
    at = sit("-it", "stty -echo; echo ready; cat | md5sum; exit 3")
    at.until(b"ready").await_raw().type(paste + b"\x04")
    at.until(hashlib.md5(paste).hexdigest().encode())
    assert at.end() == 3


def test_a_large_paste_comes_back_whole(sit):
    """Both directions at once, without echo, because the kernel drops echoed bytes that do not fit."""
    paste = b"".join(b"%05d %s\n" % (number, b"y" * 93) for number in range(1050))
    at = sit("-it", "stty -echo; echo ready; cat")
    at.until(b"ready\r\n").await_raw()
    at.type(paste + b"\x04")
    assert at.end(60) == 0
    assert bytes(at.out) == b"ready\r\n" + paste.replace(b"\n", b"\r\n")


def test_much_output(sit):
    size = 50_000_000
    at = sit("-it", f"yes 0123456789abcde | head -c {size}")
    begun = time.monotonic()
    assert at.end(100) == 0
    seconds = time.monotonic() - begun
    line = b"0123456789abcde\r\n"
    assert len(at.out) == size // 16 * len(line)
    assert at.out == bytearray(line * (size // 16))
    print(f"{size / seconds / 1e6:.1f} MB/s")


def test_a_key_comes_back_at_once(sit):
    at = sit("-it", "stty raw; echo ready; cat")
    at.until(b"ready").await_raw()
    times = []
    for number in range(100):
        key = b"%c" % (ord("a") + number % 26)
        at.out.clear()
        begun = time.monotonic()
        os.write(at.master, key)
        at.until(key)
        times.append(time.monotonic() - begun)
        while at.read(0.01):  # what cat prints
            pass
    quarter = statistics.quantiles(times)[0]  # the others may have met other work of the machine
    print(f"{quarter * 1e6:.0f} us")
    assert quarter < 0.03  # a timer on the way, or a delayed acknowledgement, would be longer


# The terminal is restored.


@pytest.mark.parametrize(
    "number",
    ["SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGALRM", "SIGSEGV", "SIGABRT"],
)
def test_a_signal_restores_the_terminal(sit, boxd, number):
    at = sit("-it", "echo ready; exec sleep 1000", env={"ASAN_OPTIONS": "handle_segv=0"})
    at.until(b"ready").await_raw()
    number = getattr(signal, number)
    at.process.send_signal(number)
    caught = number in (signal.SIGTERM, signal.SIGHUP)
    assert at.end() == (128 + number if caught else -number)
    assert at.is_restored()
    boxdlib.wait_until(lambda: sleepers(boxd) == 0, what="it is ended")


def test_interrupts_from_outside(sit):
    """The first signal goes to the command, also at a raw terminal."""
    at = sit("-it", "trap 'echo heard' INT; echo ready; while :; do read x; done")
    at.until(b"ready").await_raw()
    at.process.send_signal(signal.SIGINT)
    at.until(b"heard")
    at.process.send_signal(signal.SIGINT)
    assert at.end() == 130 and at.is_restored()


def box_of(tmux):
    """The pid of the `box` that the window's shell waits for."""

    def found():
        children = open(f"/proc/{tmux.pane}/task/{tmux.pane}/children").read().split()
        return int(children[0]) if children else None

    return boxdlib.wait_until(found, what="the shell has started box")


@pytest.mark.parametrize("number", [signal.SIGTSTP, signal.SIGSTOP])
def test_stopped_and_continued(tmux, number):
    before = termios.tcgetattr(tmux.fd)
    tmux.start("box", "exec", "-it", "work", "'echo ready; cat; stty size'")
    tmux.wait("^ready")
    boxdlib.wait_until(lambda: is_raw(tmux.fd), what="raw")
    os.kill(box_of(tmux), number)
    tmux.wait("Stopped")
    if number == signal.SIGTSTP:
        assert termios.tcgetattr(tmux.fd) == before
    else:
        tmux.type("stty sane")  # what nobody could do for it
        tmux.key("C-j")
        boxdlib.wait_until(lambda: not is_raw(tmux.fd), what="sane")
    tmux.resize(26, 77)
    tmux.enter("fg; echo co''de $?")
    boxdlib.wait_until(lambda: is_raw(tmux.fd), what="raw again")
    tmux.enter("again")
    tmux.wait("^again\nagain$")
    tmux.key("C-d")
    tmux.wait("^26 77\ncode 0$")
    if number == signal.SIGTSTP:
        assert termios.tcgetattr(tmux.fd) == before


# Connections.


@pytest.fixture
def streaming():
    with StreamServer() as server:
        yield server


def test_a_lost_connection(streaming):
    with Pty("exec", f"--endpoint={streaming.url}", "-it", "there", "live") as at:
        at.until(b"first").await_raw()
        streaming.live.socket.close(1001, "gone")
        assert at.end() == 125
        assert at.is_restored()
        assert bytes(at.out).endswith(
            b"\r\nbox: BoxRuntimeUnavailableError: "
            b"the runtime closed the connection: 1001 gone\r\n"
        )


def test_a_worker_that_dies(sit, boxd):
    at = sit("-it", "echo ready; exec sleep 1000")
    at.until(b"ready").await_raw()
    boxd.kill_worker()
    assert at.end() == 125 and at.is_restored()
    assert b"box: BoxRuntimeUnavailableError: " in at.out
    boxd.wait_event("worker.started", 2)
    assert inside(boxd, "echo on") == "on\n"


def test_many_sizes(streaming):
    with Pty("exec", f"--endpoint={streaming.url}", "-it", "there", "live", size=(5, 6)) as at:
        at.until(b"first").await_raw()
        for rows in range(1, 200):
            set_size(at.master, rows, 80)
        boxdlib.wait_until(
            lambda: streaming.sizes and streaming.sizes[-1] == (199, 80), what="the last size"
        )
        assert streaming.ttys == [{"rows": 5, "cols": 6}]
        streaming.live.exit(0)
        streaming.live.pump()
        assert at.end() == 0


def test_before_the_command_is_there_ctrl_c_is_ours(streaming):
    """A runtime that hangs cannot leave the user at a raw terminal."""
    with Pty("exec", f"--endpoint={streaming.url}", "-it", "there", "never") as at:
        boxdlib.wait_until(lambda: "box_exec_stream" in streaming.requests, what="it was asked")
        time.sleep(0.1)
        assert not is_raw(at.slave)
        at.type(b"\x03")
        assert at.end() == 130


@pytest.mark.parametrize("flags", [["-it"], []])
def test_a_terminal_that_stands_still_does_not_keep_pings(streaming, flags):
    with Pty("exec", f"--endpoint={streaming.url}", *flags, "there", "many 64 65536") as at:
        boxdlib.wait_until(lambda: len(streaming.sent) >= 8, what="the window is full")
        time.sleep(0.5)
        for _ in range(3):
            assert streaming.connections[0].ping().wait(5)
        assert len(streaming.sent) < 24
        assert at.end() == 0
        if flags:
            assert len(at.out) == 64 * 65536
