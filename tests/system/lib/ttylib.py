"""Terminals for tests: a pty of which the test holds both ends, and a screen drawn by tmux."""

import contextlib
import fcntl
import os
import re
import select
import struct
import subprocess
import termios
import time

import boxdlib
import clilib

SECONDS = 20


def set_size(fd, rows, cols):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))


def is_raw(fd):
    return not termios.tcgetattr(fd)[3] & (termios.ICANON | termios.ECHO | termios.ISIG)


def variables(**extra):
    made = clilib.variables(False, **extra)
    for name in ("COLUMNS", "LINES", "TMUX"):
        if name not in extra:
            made.pop(name, None)
    return {name: value for name, value in made.items() if value is not None}


class Pty:
    """`box` at a terminal whose other end we hold. `out` is what was shown so far."""

    def __init__(self, *args, size=(24, 80), env=None, **popen):
        self.master, self.slave = os.openpty()
        if size:
            set_size(self.slave, *size)
        self.before = termios.tcgetattr(self.slave)
        self.out = bytearray()
        pipes = {"stdin": self.slave, "stdout": self.slave, "stderr": self.slave}
        self.process = subprocess.Popen(
            [str(boxdlib.build() / "box"), *args],
            env=variables(**{"TERM": "xterm", **(env or {})}),
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            **{**pipes, **popen},
        )

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self.slave)

    def read(self, seconds):
        """Reads what is shown; returns whether there was anything."""
        if not select.select([self.master], [], [], max(seconds, 0))[0]:
            return False
        self.out += os.read(self.master, 1 << 16)
        return True

    def until(self, text, seconds=SECONDS):
        end = time.monotonic() + seconds
        start = 0
        while self.out.find(text, max(0, start - len(text))) < 0:
            start = len(self.out)
            left = end - time.monotonic()
            assert left > 0, f"{text} is not in {bytes(self.out[-2000:])}"
            self.read(left)
        return self

    def type(self, data):
        """Types it, and reads what is shown meanwhile, as a terminal emulator does."""
        end = time.monotonic() + SECONDS
        os.set_blocking(self.master, False)
        while data:
            assert time.monotonic() < end, f"{len(data)} bytes were not taken"
            readable, writable, _ = select.select([self.master], [self.master], [], 1)
            if readable:
                self.out += os.read(self.master, 1 << 16)
            if writable:
                with contextlib.suppress(BlockingIOError):
                    data = data[os.write(self.master, data[:4096]) :]
        os.set_blocking(self.master, True)
        return self

    def await_raw(self):
        boxdlib.wait_until(lambda: is_raw(self.slave), SECONDS, "the terminal is raw")
        return self

    def end(self, seconds=SECONDS):
        """Reads the rest; returns the exit code."""
        end = time.monotonic() + seconds
        while self.process.poll() is None:
            assert time.monotonic() < end, f"it goes on: {bytes(self.out[-2000:])}"
            self.read(0.02)
        while self.read(0):
            pass
        return self.process.returncode

    def is_restored(self):
        return termios.tcgetattr(self.slave) == self.before


class Tmux:
    """A shell in a window of tmux. The prompt of the shell is PROMPT."""

    PROMPT = "outer> "

    def __init__(self, folder, rows=24, cols=80, **env):
        self.socket = str(folder / "tmux")
        start = folder / "start"
        start.write_text(f"PS1='{self.PROMPT}'\n")
        self.env = variables(**{"TERM": "xterm", "ENV": str(start), **env})
        size = ("-x", str(cols), "-y", str(rows))
        self.run("-f", "/dev/null", "new-session", "-d", *size, "exec sh -i")
        self.pid, self.pane, name = self.run(
            "display-message", "-p", "#{pid} #{pane_pid} #{pane_tty}"
        ).split()
        self.fd = os.open(name, os.O_RDWR | os.O_NOCTTY)  # to look at its modes

    def run(self, *args):
        done = subprocess.run(
            ["tmux", "-S", self.socket, *args],
            env=self.env,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def __enter__(self):
        try:
            self.wait(f"^{self.PROMPT.strip()}")
        except AssertionError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *ignored):
        os.close(self.fd)
        self.run("kill-server")
        boxdlib.wait_until(lambda: not boxdlib.is_alive(self.pid), 5, "tmux has ended")

    def lines(self):
        return self.run("capture-pane", "-p").split("\n")

    def wait(self, pattern, seconds=SECONDS):
        """Waits until the screen matches; returns the match."""
        found = lambda: re.search(pattern, "\n".join(self.lines()), re.M)  # noqa: E731
        return boxdlib.wait_until(found, seconds, lambda: f"{pattern} is not on {self.lines()}")

    def type(self, text):
        self.run("send-keys", "-l", "--", text)

    def key(self, *names):
        self.run("send-keys", *names)

    def enter(self, text):
        self.type(text)
        self.key("Enter")

    def clear(self):
        self.run("send-keys", "-R")
        self.run("clear-history")

    def resize(self, rows, cols):
        self.run("resize-window", "-x", str(cols), "-y", str(rows))

    def start(self, *words):
        """Runs a command line in the shell; its exit code is shown as `code N` when it ends."""
        self.enter(f"{' '.join(words)}; echo co''de $?")

    def code(self):
        return int(self.wait(r"^code (\d+)$")[1])


