"""boxd as a child of a test: start, log, its state from /proc, and end.

Every wait has a timeout. Environment: see `build`.
"""

import contextlib
import http.client
import json
import os
import pathlib
import signal
import subprocess
import threading
import time

from clientlib import INSTANCE, Stdio, Web

ROOT = os.geteuid() == 0
FAKE = {"backend": "fake"}
STALL_SECONDS = 3.0  # that a machine with other work may stand still, beside every limit of time


def build(variable="BOX_BUILD"):
    """The build folder that a variable names: BOX_BUILD, BOX_RELEASE or BOX_RELEASE_FAKE."""
    folder = os.environ.get(variable)
    assert folder, f"{variable} must name a build folder"
    return pathlib.Path(folder)


def fast_build():
    """The build at release speed: for times and sizes of memory."""
    return build("BOX_RELEASE_FAKE" if os.environ.get("BOX_RELEASE_FAKE") else "BOX_BUILD")


def environment(**extra):
    """The environment of a child: enough to run, and none of our variables that change its
    behaviour."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith("LANGBOT_BOX_")
    }
    # LeakSanitizer needs ptrace, which a process that is not dumpable forbids.
    sanitizers = {"ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1"}
    return {**kept, **sanitizers, **extra}


def wait_until(condition, seconds=10.0, what="condition"):
    """Polls where there is no event to wait for; returns what the condition returned."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what() if callable(what) else what}")
        time.sleep(0.005)


def is_alive(pid):
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


WARM_BOXES = 2  # that a boxd keeps ready


def is_warm_box(pid):
    """Whether it is the first process of a box that nobody has asked for yet.

    It has the name of one, or for moments that of the program that it is or was.
    """
    with contextlib.suppress(OSError):
        status = status_of(pid)
        first = status["NSpid"].split()[1:] == ["1"]
        return first and status["Name"] in ("box-warm", "boxd", "memfd:box-init")
    return False


def status_of(pid):
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def rss_kb(pid):
    return int(status_of(pid)["VmRSS"].split()[0])


def peak_kb(pid):
    """The most memory that was resident at once since the start of the process."""
    return int(status_of(pid)["VmHWM"].split()[0])


def fd_names(pid):
    """The fds of a process. boxd and box-rpc are not dumpable, so only root can see theirs."""
    names = {}
    for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            names[int(entry.name)] = os.readlink(entry)
    return names


def fd_count(pid):
    return len(fd_names(pid))


def await_warm_boxes(pid):
    """Waits until boxd has made its warm boxes, where it can make any."""
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children")
    end = time.monotonic() + 2
    while time.monotonic() < end:
        if sum(map(is_warm_box, children.read_text().split())) >= WARM_BOXES:
            break
        time.sleep(0.01)
    time.sleep(0.1)  # the last one has its own second process to start yet


def settled_fd_count(pid):
    await_warm_boxes(pid)
    return fd_count(pid)


class Boxd:
    """boxd as a child. Use it as a context manager: it is ended and waited for at the end.

    `programs` is the folder that it is in, `before` what stands in front of its command line. What
    may be mounted is what most tests are not about: `mount_roots` is anywhere.
    """

    def __init__(
        self,
        *args,
        programs=None,
        stdio=False,
        env=None,
        token=None,
        instance=None,
        config=None,
        before=(),
        mount_roots=("/",),
        **popen,
    ):
        extra = dict(env or {})
        if token:
            extra["LANGBOT_BOX_CONTROL_TOKEN"] = token
        if instance or stdio:
            extra["LANGBOT_BOX_TRUSTED_INSTANCE_UUID"] = instance or INSTANCE
        if config is not None:
            extra["LANGBOT_BOX_CONFIG"] = json.dumps(config)
        self.token = token
        self.lines = []
        self._changed = threading.Condition()
        program = (programs or build()) / "boxd"
        assert program.is_file(), f"{program} is not built"
        flags = ["--log-format=json", *(["-s"] if stdio else [])]
        if not any(arg.startswith("--socket") for arg in args):
            flags.append("--socket=none")  # the operator's place is one for the whole machine
        if not any(arg.startswith("--ws-control-port") for arg in args):
            flags.append("--ws-control-port=0")
        flags += [f"--mount-root={root}" for root in mount_roots]
        pipes = {
            "stdin": subprocess.PIPE if stdio else subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
        }
        self.process = subprocess.Popen(
            [*before, str(program), *flags, *args],
            env=environment(**extra),
            **{**pipes, **popen},
        )
        self.pid = self.process.pid
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.stop(check=kind is None)

    # -- its log

    def _read(self):
        for line in self.process.stderr:
            with self._changed:
                self.lines.append(line.decode(errors="replace").rstrip("\n"))
                self._changed.notify_all()

    def events(self, name):
        """The events of this name that were logged so far, as maps."""
        found = [json.loads(line) for line in list(self.lines) if line.startswith("{")]
        return [event for event in found if event["event"] == name]

    def counted(self, name):
        """The sum of the counts in the events of this name, which are logged once a second at most."""
        return sum(event["count"] for event in self.events(name))

    def wait_event(self, name, count=1, seconds=10.0):
        """Waits for the count-th event of this name and returns it."""
        end = time.monotonic() + seconds
        with self._changed:
            while len(found := self.events(name)) < count:
                left = end - time.monotonic()
                assert left > 0, f"no event {name} ({count}): {self.tail()}"
                self._changed.wait(left)
        return found[count - 1]

    def wait_served(self, count=1):
        self.wait_event("serving", count)
        return self

    def tail(self):
        return "\n".join(self.lines[-40:])

    # -- its box-rpc

    def workers(self):
        """The pids of all box-rpc processes that it has started."""
        return [event["pid"] for event in self.events("worker.started")]

    @property
    def worker(self):
        """The pid of the box-rpc that was started last."""
        self.wait_event("worker.started")
        return self.workers()[-1]

    def kill_worker(self):
        os.kill(self.worker, signal.SIGKILL)

    # -- its port

    @property
    def port(self):
        self.wait_served()
        return self.wait_event("listening")["port"]

    @property
    def url(self):
        return f"ws://127.0.0.1:{self.port}/rpc/ws"

    def web(self, **options):
        """A WebSocket client of this boxd."""
        options.setdefault("token", self.token)
        return Web(self, **options)

    def http(self, path, method="GET", headers=None, body=None):
        """One HTTP request: (status, headers, body)."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        with contextlib.closing(connection):
            connection.request(method, path, headers=headers or {}, body=body)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()

    # -- its end

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, seconds=10.0):
        """Waits for the end and checks that nothing is left. Returns the exit code."""
        code = self.process.wait(seconds)
        self._reader.join(5)
        assert not self._reader.is_alive(), "someone still holds boxd's stderr"
        self.check_gone()
        return code

    def stop(self, check=True):
        if self.process.stdin:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            for pid in filter(is_alive, (*self.workers(), self.pid)):
                os.kill(pid, signal.SIGKILL)
            self.process.wait(10)
            assert not check, f"boxd did not end: {self.tail()}"
        self._reader.join(5)
        if self.process.stdout:
            self.process.stdout.close()
        if not self._reader.is_alive():
            self.process.stderr.close()
        if check:
            self.check_log()
            self.check_gone()

    def check_log(self):
        """No sanitizer reported an error."""
        bad = [line for line in self.lines if "Sanitizer" in line or "runtime error:" in line]
        assert not bad, "\n".join(self.lines)

    def check_gone(self):
        pids = [self.pid, *self.workers()]
        wait_until(lambda: not any(map(is_alive, pids)), what=lambda: f"processes are left of {pids}")


def fake_boxd(folder, *args, **options):
    """A boxd in this folder, with the fake backend."""
    return Boxd(*args, cwd=folder, config=FAKE, **options)


@contextlib.contextmanager
def dialled(carrier, **options):
    """A client over this transport, and the boxd that it is connected to (`client.boxd`)."""
    with Boxd(stdio=carrier == "stdio", **options) as boxd:
        with Stdio(boxd) if carrier == "stdio" else boxd.web() as client:
            yield client


def wait_running(client, session="s", **members):
    """Waits until the session has a command running."""

    def running():
        listed = client.ask("box_get_sessions", **members)["sessions"]
        return [one for one in listed if (one["session_id"], one["status"]) == (session, "running")]

    wait_until(running, what=f"{session} is running")
