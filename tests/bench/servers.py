"""The programs that are measured while they run: how they are started and ended, which processes
they are, and how much memory those use.
"""

import contextlib
import os
import random
import re
import signal
import socket
import subprocess
import threading
import time

import reference


class Broken(Exception):
    """A measured program does not work."""


def free_port():
    """A free port, not from the range that the system gives to clients: connecting to such a port
    repeatedly ends in a connection to oneself."""
    while True:
        port = random.randrange(20000, 30000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return port


class Server:
    """A program that listens, and the flags with which the load client connects to it."""

    def __init__(self, argv, folder, flags, says=None, port=None, stdin=subprocess.DEVNULL):
        self.flags = flags
        self.log = []
        self.process = subprocess.Popen(
            argv,
            env=reference.environment(folder),
            cwd=folder,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        self.ready = threading.Event()
        self.says, self.port = re.compile(says) if says else None, port
        threading.Thread(target=self.drain, daemon=True).start()

    def drain(self):
        for line in self.process.stdout:
            self.log = [*self.log[-50:], line[:500]]
            found = self.says.search(line) if self.says else None
            if found:
                self.port = self.port or int(found[1])
                self.ready.set()
        self.ready.set()

    def wait(self):
        if self.says:
            self.ready.wait(30)
        until = time.monotonic() + 30
        while self.process.poll() is None and time.monotonic() < until:
            with socket.socket() as probe:
                if self.port and probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return self
            time.sleep(0.02)
        raise Broken("a server did not start:\n" + "".join(self.log))

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        if self.process.stdin:
            self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@contextlib.contextmanager
def running(server):
    try:
        yield server.wait()
    finally:
        server.end()


def family(pid):
    """The process and all its descendants."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat") as stat:
                parents[int(name)] = int(stat.read().rpartition(")")[2].split()[1])
    members = [pid]
    for member in members:
        members += [child for child, parent in parents.items() if parent == member]
    return members


@contextlib.contextmanager
def one_processor(pids):
    """Client and servers share one processor meanwhile. Otherwise a round trip takes 25 us or 70 us
    depending on where the scheduler puts the two, which says nothing about the server."""
    allowed = os.sched_getaffinity(0)

    def put(processors):
        for member in [0, *(member for pid in pids for member in family(pid))]:
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(member, processors)

    try:
        put({max(allowed)})
        yield
    finally:
        put(allowed)


def pss_kb(pid, kinds=("Pss",)):
    """Its memory by kind, shared pages by their share. None where the kernel does not show it to
    us."""
    try:
        with open(f"/proc/{pid}/smaps_rollup") as rollup:
            text = rollup.read()
    except PermissionError:
        return None
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return sum(int(re.search(rf"^{kind}:\s+(\d+) kB", text, re.M)[1]) for kind in kinds)


def memory_mb(pid):
    """PSS of all its processes, or None where the kernel does not show it to us."""
    parts = [pss_kb(member) for member in family(pid)]
    return None if None in parts else sum(parts) * 1024 / 1e6


def command_of(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/comm") as comm:
        return comm.read().strip()
    return ""


def status_mb(pid, key):
    """VmRSS or VmHWM."""
    with open(f"/proc/{pid}/status") as status:
        return int(re.search(rf"^{key}:\s+(\d+) kB", status.read(), re.M)[1]) * 1024 / 1e6


def forget_peak(pid):
    """Resets VmHWM."""
    with open(f"/proc/{pid}/clear_refs", "w") as refs:
        refs.write("5")
