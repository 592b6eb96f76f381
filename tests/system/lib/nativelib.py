"""Native boxes for tests: boxd as root or as an ordinary user, real clients that carry out lists of
steps against it, and checks that nothing is left behind.
"""

import concurrent.futures
import contextlib
import ctypes
import functools
import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import threading

import boxdlib
import clientlib
import proclib
import testpaths
import pytest

USER = 12345  # an ordinary user; it needs no account
MODES = ("root", "rootless")
PROGRAMS = ("boxd", "box-rpc", "box-init", "box-skills")
SETPRIV = ("setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups")
FLOW_SECONDS = 250  # for all steps of one client; many share a slow host
PREFIX = "box-native-"
MADE = set()  # the names of our own folders
OTHERS = re.compile(r"box-[a-z]+-[A-Za-z0-9_]{6,8}")
CGROUP_PARENT = re.compile(r"box-[0-9a-f]{16}")
PR_SET_CHILD_SUBREAPER = 36
NUMBERS = itertools.count(1)
LOOK_SECONDS = 1.5 if os.environ.get("BOX_MICROVM") else 0.15  # less often on slow machines

# On most test hosts an ordinary user has no cgroup of its own.
OPERATOR = {"root": "", "rootless": "local:\n  degraded: true\n"}
UNLIMITED = "an ordinary user has no cgroup here: boxes run without limits"


def marker():
    """An argument of `sleep` that no other process has."""
    return f"86400.{os.getpid()}{next(NUMBERS):04}"


def missing(mode):
    """Why boxes are not possible in this mode here, or None."""
    if mode == "root":
        return None if boxdlib.ROOT else "boxd as root needs a test that is root"
    if boxdlib.ROOT and not shutil.which("setpriv"):
        return "not here: setpriv"
    before = SETPRIV if boxdlib.ROOT else ()
    probe = subprocess.run([*before, "unshare", "-Um", "true"], capture_output=True, timeout=20)
    return None if probe.returncode == 0 else "an ordinary user can have no user namespace here"


@functools.cache
def has_limits(mode):
    """Whether limits are possible: an ordinary user needs a delegated cgroup of version 2."""
    if mode == "root" or boxdlib.ROOT:
        return mode == "root"
    found = re.search(r"^0::(/.*)$", pathlib.Path("/proc/self/cgroup").read_text(), re.M)
    group = pathlib.Path("/sys/fs/cgroup" + found[1]) if found else None
    if group is not None and group.name == "boxd-leaf":
        group = group.parent
    if group is None or not os.access(group / "cgroup.subtree_control", os.W_OK):
        return False
    return {"cpu", "memory", "pids"} <= set((group / "cgroup.controllers").read_text().split())


def backend(mode, name="local"):
    """The backend in a status report; boxes without limits are always reported."""
    info = {"name": name, "available": True}
    return info if has_limits(mode) else {**info, "degraded": True}


def skip_if_missing(mode):
    why = missing(mode)
    if why:
        pytest.skip(why)


# -- where boxd runs


def copy(programs, folder):
    """Copies in a separate process: a thread of ours that forks meanwhile would hold the copy open
    for writing, and it could not be executed."""
    subprocess.run(["cp", "--", *map(str, programs), str(folder)], check=True)


class Place:
    """A folder with the programs, a home and a working folder that boxd can use in this mode."""

    def __init__(self, mode, operator=None, build="BOX_BUILD"):
        skip_if_missing(mode)
        self.mode = mode
        self.build = build
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=PREFIX))
        MADE.add(self.folder.name)
        try:
            self.furnish(mode, operator)
        except BaseException:
            shutil.rmtree(self.folder)
            raise

    def furnish(self, mode, operator):
        self.folder.chmod(0o755)
        self.programs = self.make("bin")
        copy([boxdlib.build(self.build) / name for name in PROGRAMS], self.programs)
        self.work = self.make("work")
        self.home = self.make("home")
        self.config = self.folder / "config.yaml"
        self.config.write_text(OPERATOR[mode] if operator is None else operator)
        self.config.chmod(0o644)
        self.before = SETPRIV if mode == "rootless" and boxdlib.ROOT else ()

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        shutil.rmtree(self.folder)

    def own(self, path):
        """Changes the owner of a file to boxd's user."""
        if self.mode == "rootless" and boxdlib.ROOT:
            os.chown(path, USER, USER, follow_symlinks=False)
        return path

    def make(self, *parts):
        """Creates a folder of boxd's user below this one."""
        path = self.folder.joinpath(*parts)
        path.mkdir(parents=True)
        path.chmod(0o755)
        return self.own(path)

    def write(self, path, text):
        path.write_text(text)
        path.chmod(0o644)
        return self.own(path)

    def environment(self, **more):
        return boxdlib.environment(HOME=str(self.home), **more)

    def mount_roots(self):
        """Allows every mount root, unless the configuration says otherwise."""
        return () if "mount_roots" in self.config.read_text() else ("/",)

    def command(self, *args):
        roots = [f"--mount-root={root}" for root in self.mount_roots()]
        boxd = str(self.programs / "boxd")
        return [*self.before, boxd, "--config", str(self.config), *roots, *args]

    def start(self, *args, before=(), **options):
        """A boxd. `before` is a command that runs it, in a shell of root's where possible."""
        options.setdefault("instance", clientlib.INSTANCE)
        options.setdefault("mount_roots", self.mount_roots())
        return boxdlib.Boxd(
            "--config",
            str(self.config),
            *args,
            programs=self.programs,
            before=[*before, *self.before],
            cwd=self.work,
            env={"HOME": str(self.home), **options.pop("env", {})},
            **options,
        )


@contextlib.contextmanager
def dialled(place, carrier="websocket", backend="local", config=None, args=(), **options):
    """A client over this transport of a boxd there, which is configured for native boxes."""
    with place.start(*args, stdio=carrier == "stdio", **options) as boxd:
        with clientlib.Stdio(boxd) if carrier == "stdio" else boxd.web() as client:
            yield client.init(backend=backend, **(config or {}))


# -- the real clients


def drive(generation, carrier, place, steps, inside=(), before=(), args=(), seconds=FLOW_SECONDS):
    """Has a real client carry out the steps; its results by name.

    `inside` precedes the client's command line, `before` boxd's; `args` follow boxd's.
    """
    venv = os.environ.get(f"BOX_VENV_{generation}")
    assert venv, f"BOX_VENV_{generation} must name a virtual environment"
    instance = clientlib.INSTANCE
    wanted = {"carrier": carrier, "instance": instance, "steps": steps}
    command = [*inside, f"{venv}/bin/python", str(testpaths.SCRIPTS / "box_steps_script.py")]
    if carrier == "stdio":
        port = () if args else ("--ws-control-port", "0")
        wanted["command"] = [*before, *place.command("-s", *port, *args)]
        wanted["env"] = place.environment(LANGBOT_BOX_TRUSTED_INSTANCE_UUID=instance)
        return run_script(command, wanted, place, seconds)
    with place.start(*args, before=before, token=clientlib.TOKEN) as boxd:
        wanted["url"] = boxd.url
        wanted["headers"] = {
            "X-LangBot-Instance-Id": instance,
            "X-LangBot-Box-Control-Token": clientlib.TOKEN,
        }
        return run_script(command, wanted, place, seconds)


def run_script(command, wanted, place, seconds=FLOW_SECONDS):
    order = place.folder / "steps.json"
    order.write_text(json.dumps(wanted))
    done = subprocess.run(
        [*command, str(order)], cwd=place.work, capture_output=True, text=True, timeout=seconds
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert "Sanitizer" not in done.stderr and "runtime error:" not in done.stderr, done.stderr
    results = json.loads(done.stdout)
    if wanted["carrier"] == "stdio":
        assert results.pop("exit_code") == 0
        assert results.pop("exit_seconds") < 2.0 + boxdlib.STALL_SECONDS
    return results


EVERYONE = list(itertools.product(("OLD", "NEW"), ("stdio", "websocket"), MODES))
# Every generation over every transport, half of them in each mode: for everything but the main
# flow.
HALF = [
    ("OLD", "stdio", "root"),
    ("OLD", "websocket", "rootless"),
    ("NEW", "stdio", "rootless"),
    ("NEW", "websocket", "root"),
]


def names(whole):
    return ["-".join(one) for one in whole]


class Flows:
    """The same steps with several clients at once. `make(place, *who)` returns the steps of one."""

    def __init__(self, make, everyone=EVERYONE, run=drive, workers=4):
        self.make = make
        self.run = run
        self.pool = concurrent.futures.ThreadPoolExecutor(workers)
        self.futures = {
            who: self.pool.submit(self.flow, *who) for who in everyone if not missing(who[2])
        }

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        self.pool.shutdown(cancel_futures=True)

    def flow(self, generation, carrier, mode):
        with Place(mode) as place:
            steps = self.make(place, generation, carrier, mode)
            return Results(self.run(generation, carrier, place, steps), place)

    def results(self, who):
        skip_if_missing(who[2])
        return self.futures[who].result()


class Results(dict):
    def __init__(self, results, place):
        super().__init__(results)
        self.place = place

    def gave(self, name):
        assert "gave" in self[name], f"{name}: {self[name]}"
        return self[name]["gave"]

    def raised(self, name):
        assert "raised" in self[name], f"{name}: {str(self[name])[:400]}"
        return self[name]["raised"]


# -- leftovers


@contextlib.contextmanager
def subreaper():
    """Makes this process a subreaper: orphaned descendants become its children, so none is missed."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    try:
        yield
    finally:
        libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def children():
    """Our live children; those that have ended are reaped."""
    return {
        pid: proclib.arguments(pathlib.Path(f"/proc/{pid}"))
        for pid in listed_children()
        if boxdlib.is_alive(pid)
    }


def listed_children():
    found = set()
    for listed in pathlib.Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):  # a thread that has just ended
            found.update(map(int, listed.read_text().split()))
    return found


def bury(known):
    for pid in listed_children() - known:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def descendants(pid):
    with contextlib.suppress(OSError):
        for listed in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
            for child in map(int, listed.read_text().split()):
                yield child
                yield from descendants(child)


class CgroupParents:
    """The cgroup parents of runtimes below this process, recorded while they run: other runtimes
    have their own."""

    def __init__(self):
        self.seen = set()
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()

    def watch(self):
        while not self.ended.wait(LOOK_SECONDS):
            for pid in descendants(os.getpid()):
                with contextlib.suppress(OSError):
                    for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
                        place = pathlib.Path(os.readlink(fd))
                        if CGROUP_PARENT.fullmatch(place.name):
                            self.seen.add(place)

    def end(self):
        self.ended.set()
        self.thread.join()

    def left(self):
        return {str(place) for place in self.seen if place.exists()}


def is_ours(name):
    """Whether a folder in /tmp is not that of another test that runs at the same time, by its name."""
    return name in MADE or not OTHERS.fullmatch(name)


def mounts():
    lines = pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
    top = pathlib.Path(tempfile.gettempdir())
    places = [pathlib.Path(line.split()[4]) for line in lines]
    return {
        str(place)
        for place in places
        if not (place.is_relative_to(top) and place != top) or is_ours(place.relative_to(top).parts[0])
    }


def folders():
    found = [name for name in os.listdir(tempfile.gettempdir()) if name.startswith("box")]
    return {name for name in found if is_ours(name)}


def remains(parents):
    return {
        "processes": set(children()),
        "cgroups": parents.left(),
        "mounts": mounts(),
        "folders": folders(),
        "links": set(os.listdir("/sys/class/net")),
    }


@contextlib.contextmanager
def nothing_left():
    """Compares before and after: processes, cgroups, mounts, folders in /tmp, network links."""
    with subreaper():
        parents = CgroupParents()
        before = remains(parents)
        try:
            yield
        finally:
            parents.end()
        bury(before["processes"])

        def more():
            after = remains(parents)
            return {key: after[key] - before[key] for key in after if after[key] - before[key]}

        boxdlib.wait_until(lambda: not more(), 5, lambda: f"left behind: {more()} {children()}")
        bury(before["processes"])
