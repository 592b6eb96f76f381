"""The parts of a runtime with native boxes as seen from outside, and checks that nothing of it is
left.

`Traces` records what one boxd has while it lives: processes, cgroups, locks, mounts, links and
folders. The test process is a subreaper, so that orphans are not lost when boxd is killed.
"""

import contextlib
import ctypes
import os
import pathlib
import random
import re
import shutil
import subprocess
import threading
import time

import pytest
from websockets.exceptions import InvalidMessage

import boxdlib
import testpaths
from clientlib import Closed

NATIVE = {"backend": "native"}
KEPT = ("kept-a", "kept-b", "kept-c")
GONE_SECONDS = 2.0
SWEPT_SECONDS = 1.0
PR_SET_CHILD_SUBREAPER = 36
CGROUP_PARENT = re.compile(r"/box-[0-9a-f]{16}$")
SHARED_FOLDERS = ("/tmp", "/run", "/dev/shm", "/var/tmp", "/var/lib")
# Folders made by mkdtemp in C and in Python: other tests may run at the same time.
OTHER_TESTS = re.compile(r"/[a-z-]+[-.](\w{6}|\w{8})(/|\s|$)")

needs_root = pytest.mark.skipif(
    not boxdlib.ROOT, reason="only root sees the fds of boxd and the roots of boxes"
)


def adopt_orphans():
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


def native_boxd(folder, *args, config=None, **options):
    """A boxd with native boxes whose orphans we adopt. Skips where native boxes are not possible."""
    adopt_orphans()
    boxd = boxdlib.Boxd(*args, cwd=folder, config={**NATIVE, **(config or {})}, **options)
    try:
        boxd.wait_served()
    except AssertionError:
        boxd.stop(check=False)
        raise
    impossible = boxd.events("boxes.impossible")
    if impossible:
        boxd.stop(check=False)
        pytest.skip(f"no native boxes here: {impossible[0]['why']}")
    return boxd


def starter(folder, programs, *args, **options):
    """Returns a function that starts such a boxd."""
    return lambda: native_boxd(folder, *args, programs=programs, **options)


def copy_programs(folder, *names):
    for name in names:
        shutil.copy(boxdlib.build() / name, folder / name)


# -- processes


def read(path):
    try:
        return pathlib.Path(path).read_text(errors="replace")
    except OSError:
        return ""


def processes():
    """pid -> (parent, state) of all processes."""
    found = {}
    for name in os.listdir("/proc"):
        stat = name.isdigit() and read(f"/proc/{name}/stat")
        if stat:
            state, parent = stat.rsplit(")", 1)[1].split()[:2]
            found[int(name)] = (int(parent), state)
    return found


def descendants(root, table=None):
    table = table or processes()
    children = {}
    for pid, (parent, _) in table.items():
        children.setdefault(parent, []).append(pid)
    found, ahead = [], [root]
    while ahead:
        below = children.get(ahead.pop(), [])
        found += below
        ahead += below
    return [pid for pid in found if table[pid][1] not in "ZX"]


def describe(pid):
    name = read(f"/proc/{pid}/cmdline").replace("\0", " ") or read(f"/proc/{pid}/comm")
    return f"{pid} {name.strip()[:80]}"


def reap(keep):
    """Reaps orphans that were adopted."""
    for child, (parent, state) in processes().items():
        if parent == os.getpid() and state == "Z" and child not in keep:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child, os.WNOHANG)


def inits(boxd):
    """The first process of every box, by host pid."""
    found = []
    for pid, (parent, state) in processes().items():
        if parent == boxd.pid and state not in "ZX" and not boxdlib.is_warm_box(pid):
            numbers = re.search(r"^NSpid:(.*)$", read(f"/proc/{pid}/status"), re.MULTILINE)
            if numbers and len(numbers[1].split()) > 1 and numbers[1].split()[-1] == "1":
                found.append(pid)
    return found


def named_inits(boxd):
    """The boxes that have a file /tmp/name: the name -> the pid."""
    found = {}
    for pid in inits(boxd):
        name = read(f"/proc/{pid}/root/tmp/name").strip()
        if name:
            assert name not in found, f"two boxes of {name}"
            found[name] = pid
    return found


# -- everything else


def mounts():
    """Mount points and their types. Mount ids are left out, because they are reused."""
    lines = [" ".join(line.split()[3:]) for line in read("/proc/self/mountinfo").splitlines()]
    return {line for line in lines if not OTHER_TESTS.search(line)}


def links():
    return set(os.listdir("/sys/class/net"))


def folders():
    found = set()
    for folder in SHARED_FOLDERS:
        with contextlib.suppress(OSError):
            found |= {f"{folder}/{name}" for name in os.listdir(folder) if name.startswith("box")}
    return {path for path in found if not OTHER_TESTS.search(path)}


def holds_a_warm_box(group):
    return any(map(boxdlib.is_warm_box, read(group / "cgroup.procs").split()))


class HostState:
    """The state of the host before a boxd is started."""

    def __init__(self):
        self.mounts = mounts()
        self.links = links()
        self.folders = folders()
        self.pids = set(descendants(os.getpid()))


class Traces:
    """What belongs to one boxd; `check_gone` checks that none of it is left."""

    def __init__(self, boxd, host):
        self.boxd = boxd
        self.host = host
        names = boxdlib.fd_names(boxd.pid).values()
        self.parents = {pathlib.Path(name) for name in names if CGROUP_PARENT.search(name)}
        self.sockets = set()
        self.note()

    def note(self):
        """Call it repeatedly: locks are taken when they are needed."""
        with contextlib.suppress(OSError):
            names = boxdlib.fd_names(self.boxd.pid).values()
            self.sockets |= {name[8:-1] for name in names if name.startswith("socket:[")}

    def left_processes(self):
        reap({self.boxd.pid})
        mine = set(descendants(os.getpid())) - self.host.pids - {self.boxd.pid}
        inside = set()
        for parent in self.parents:
            for path, _, files in os.walk(parent):
                if "cgroup.procs" in files:
                    inside |= set(map(int, read(f"{path}/cgroup.procs").split()))
        return sorted(map(describe, mine | inside))

    def left_locks(self):
        lines = [line.split() for line in read("/proc/net/unix").splitlines()[1:]]
        return [line[7] for line in lines if len(line) > 7 and line[6] in self.sockets]

    def left_groups(self):
        return sorted(str(parent) for parent in self.parents if parent.exists())

    def left(self, groups=True):
        """What is left, by kind; empty kinds are omitted."""
        found = {
            "processes": self.left_processes(),
            "locks": self.left_locks(),
            "mounts": sorted(mounts() - self.host.mounts),
            "links": sorted(links() - self.host.links),
            "folders": sorted(folders() - self.host.folders),
            "groups": self.left_groups() if groups else [],
        }
        return {kind: what for kind, what in found.items() if what}

    def check_gone(self, groups=True, seconds=GONE_SECONDS):
        boxdlib.wait_until(
            lambda: not self.left(groups), seconds, lambda: f"left: {self.left(groups)}"
        )

    def check_swept(self):
        """Checks after the start of the next boxd."""
        boxdlib.wait_until(
            lambda: not self.left_groups(), SWEPT_SECONDS, lambda: f"left: {self.left_groups()}"
        )

    def boxes(self):
        """The cgroups of its boxes, in every hierarchy."""
        parents = filter(pathlib.Path.exists, self.parents)
        found = [path for parent in parents for path in parent.iterdir() if path.is_dir()]
        return sorted(str(path) for path in found if not holds_a_warm_box(path))

    def check_boxes(self, count, seconds=GONE_SECONDS):
        """Checks that there are exactly so many boxes."""
        per = len(self.parents)

        def right():
            return len(inits(self.boxd)) == count and len(self.boxes()) == count * per

        boxdlib.wait_until(
            right,
            seconds,
            lambda: f"not {count} boxes: inits {inits(self.boxd)}, groups {self.boxes()}",
        )


# -- load


class Load:
    """Clients in threads that use sessions of their own until told to stop.

    They dial again when the connection ends. An answer that is wrong is noted in `wrong`; an error
    is allowed when `allowed` finds its text.
    """

    def __init__(self, boxd, threads=4, network=True, allowed=None):
        self.boxd = boxd
        self.allowed = re.compile(allowed) if allowed else None
        self.wrong = []
        self.done = 0
        self.refused = 0
        self.ended = threading.Event()
        self.threads = [
            threading.Thread(target=self._run, args=(number, network and number == 0), daemon=True)
            for number in range(threads)
        ]
        for thread in self.threads:
            thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        self.stop()

    def stop(self):
        self.ended.set()
        for thread in self.threads:
            thread.join(30)
            assert not thread.is_alive()

    def _run(self, number, network):
        dice = random.Random(number)
        while not self.ended.is_set():
            try:
                with self.boxd.web() as client:
                    while not self.ended.is_set():
                        self._turn(client, dice, number, network)
            except (Closed, ConnectionError, EOFError, TimeoutError, InvalidMessage):
                self.ended.wait(0.02)
            except Exception as error:  # pylint: disable=broad-except
                if self.boxd.process.poll() is None:
                    self.wrong.append(repr(error))
                return

    def _turn(self, client, dice, number, network):
        session = f"load-{number}-{dice.randrange(2)}"
        spec = {"session_id": session, "network": "on" if network else "off"}
        what = dice.choice(["exec", "exec", "exec", "many", "create", "delete"])
        if what == "exec":
            word = f"w{dice.random()}"
            self._check(client.call("box_exec", {**spec, "cmd": f"echo {word}"}), word)
        elif what == "many":
            asked = [client.start("box_exec", {**spec, "cmd": f"echo {n}"}) for n in range(4)]
            for n, seq in enumerate(asked):
                self._check(client.wait(seq), str(n))
        elif what == "create":
            self._check(client.call("box_create_session", spec), None)
        else:
            self._check(client.call("box_delete_session", {"session_id": session}), None)

    def _check(self, answer, stdout):
        if answer["code"] == 0:
            self.done += 1
            if stdout is not None and answer["data"]["stdout"] != stdout:
                self.wrong.append(answer)
        elif answer["message"].startswith("BoxSessionNotFoundError"):
            self.done += 1
        elif self.allowed and self.allowed.search(answer["message"]):
            self.refused += 1
        else:
            self.wrong.append(answer)


def wait_worked(load, count=1):
    """Waits until so many more answers have come."""
    wanted = load.done + count
    boxdlib.wait_until(
        lambda: load.done >= wanted or load.wrong, 20, lambda: f"no answers: {load.boxd.tail()}"
    )
    assert load.wrong == []


# -- sessions


# The number shows whether a session was recreated.
FURNISH = (
    "echo {name} >/tmp/name; echo {name} >/workspace/file;"
    " (setsid sleep 987 >/dev/null 2>&1 </dev/null &) ;"
    " until pgrep -x sleep >/tmp/sleeper; do :; done; cat /tmp/sleeper"
)
LOOK = "cat /tmp/name /workspace/file; pgrep -x sleep; cat /tmp/sleeper"


def network_possible(boxd):
    """Whether boxes can have a network here: tried in a session of its own."""
    with boxd.web() as client:
        data = {"cmd": "true", "session_id": "probe", "network": "on"}
        possible = client.call("box_exec", data)["code"] == 0
        client.call("box_delete_session", {"session_id": "probe"})
    return possible


def furnish(client, names):
    """Sessions with files and a background process; name -> what LOOK must print."""
    found = {}
    for name in names:
        pid = client.exec(FURNISH.format(name=name), name)["stdout"]
        assert pid.isdigit(), pid
        found[name] = f"{name}\n{name}\n{pid}\n{pid}"
    return found


def check_furnished(client, found):
    for name, expected in found.items():
        result = client.exec(LOOK, name)
        assert (result["stdout"], result["exit_code"]) == (expected, 0), result


def sleepers(pid):
    """The arguments of all sleep processes below this pid."""
    found = set()
    for one in descendants(pid):
        words = read(f"/proc/{one}/cmdline").split("\0")
        if words[0] == "sleep":
            found.add(words[1])
    return found


# -- programs of our own


def compile_program(source, to, *flags):
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        pytest.skip("no C compiler")
    path = testpaths.PROGRAMS / source
    warnings = ["-Wall", "-Wextra", "-Werror"]
    subprocess.run(
        [*compiler.split(), "-std=gnu17", "-D_GNU_SOURCE", "-O1", *warnings, *flags]
        + ["-I", str(testpaths.ROOT), "-o", str(to), str(path)],
        check=True,
        timeout=60,
    )
    return to


def pause(least, most):
    time.sleep(random.uniform(least, most))
