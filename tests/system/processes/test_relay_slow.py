"""Readers that take 64 KiB a second and then everything: the runtime buffers little for them,
others are served as before, and every byte arrives. On a release build, because sanitizers use
memory of their own.
"""

import contextlib
import hashlib
import json
import pathlib
import re
import subprocess
import sys
import threading
import time

import pytest

import boxdlib
import rawlib
import nativelib
import proclib
import testpaths
from clientlib import context
from crowdlib import percentile
from relaylib import shell, stop

LINE_BYTES = 1000
RATE_BYTES = 64 * 1024
MIB = 1 << 20
# The maximum buffered for one reader: in box-rpc 256 KiB that wait for the client, as much in
# flight from the box, and overhead of sockets and the allocator; in box-init 1 MiB of unconfirmed
# output and a window beyond it, in a ring whose size is a power of two. Nothing in boxd depends on
# readers.
RPC_BYTES_PER_READER = 3 * MIB // 2
INIT_BYTES_PER_READER = 9 * MIB // 4
KEEPER_BYTES = 4 * MIB
# The box as a whole: also its processes with their pages.
BOX_BYTES_PER_READER = 4 * MIB
LATENCY_TIMES = 2


pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.fixture(params=nativelib.MODES)
def place(request, nothing_left):
    with nativelib.Place(request.param, build="BOX_RELEASE") as made:
        yield made


# Memory.


def pss_bytes(pid):
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(re.search(r"^Pss: +(\d+) kB$", text, re.M)[1]) * 1024


def group_bytes(pid):
    """The memory charged to a box's cgroup, without page cache; None without a cgroup."""
    for line in pathlib.Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, group = line.split(":", 2)
        for top, name in (
            (f"/sys/fs/cgroup/memory{group}", "memory.usage_in_bytes"),
            (f"/sys/fs/cgroup{group}", "memory.current"),
        ):
            wanted = "memory" in controllers.split(",") or (controllers == "" and "current" in name)
            if wanted and "box-" in group and (pathlib.Path(top) / name).exists():
                return int((pathlib.Path(top) / name).read_text())
    return None


class Watch:
    """The maximum of each, sampled by a thread."""

    def __init__(self, boxd, init, mode):
        self.pids = {"box-rpc": boxd.worker, "boxd": boxd.pid, "box-init": init}
        self.init = init if nativelib.has_limits(mode) else None
        self.first = self.sample()
        self.most = dict(self.first)
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)

    def sample(self):
        found = {}
        for name, pid in self.pids.items():
            found[name] = max(boxdlib.rss_kb(pid) * 1024, pss_bytes(pid))
        if self.init and (group := group_bytes(self.init)) is not None:
            found["group"] = group
        return found

    def watch(self):
        while not self.ended.wait(0.1):
            with contextlib.suppress(OSError):
                for name, value in self.sample().items():
                    self.most[name] = max(self.most[name], value)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *ignored):
        self.ended.set()
        self.thread.join()

    def grown(self):
        return {name: self.most[name] - self.first[name] for name in self.first}


# Latency.


class Times:
    """Round trips of another client: a ping, and a command in a box of its own."""

    def __init__(self, boxd):
        self.ws = rawlib.Ws(boxd.port)
        self.command = rawlib.exec_data("true", "other")
        self.ctx = context()
        self.ws.call("box_exec", self.command, self.ctx)

    def time(self, *request):
        """Times in microseconds."""
        begun = time.perf_counter_ns()
        self.ws.call(*request)
        return (time.perf_counter_ns() - begun) / 1000

    def measure(self, seconds):
        pings, execs = [], []
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pings += [self.time("__ping") for _ in range(20)]
            execs.append(self.time("box_exec", self.command, self.ctx))
            time.sleep(0.02)
        return {"ping": pings, "exec": execs}


def shown(times):
    return {
        name: f"{percentile(all_of, 0.5):.0f}/{percentile(all_of, 0.95):.0f}"
        for name, all_of in times.items()
    }


def check_latency(before, slow, after):
    """Compared with the slower of before and after, since the host has other work, too."""
    for name in before:
        was = max(percentile(before[name], 0.5), percentile(after[name], 0.5))
        now = percentile(slow[name], 0.5)
        assert now <= LATENCY_TIMES * was, f"{name}: {was:.0f} us before, {now:.0f} us meanwhile"


# Everything together.


def find_init(client):
    """The pid of box-init of the session."""
    mark = nativelib.marker()
    shell(client, f"exec sleep {mark}", process="mark")
    return proclib.init_of(proclib.find_one(mark))


def start_writers(client, count, size):
    """Each writes `size` bytes of numbered lines; their MD5."""
    lines = size // LINE_BYTES
    for number in range(count):
        shell(client, f"exec seq -f %0{LINE_BYTES - 1}.0f 1 {lines}", process=f"p{number}")
    whole = hashlib.md5()
    for line in range(1, lines + 1):
        whole.update(b"%0*d\n" % (LINE_BYTES - 1, line))
    return whole.hexdigest()


def check_slow(place, count, seconds, size, alone):
    """`alone`: for how many seconds times are measured before and after."""
    with nativelib.dialled(place) as client:
        boxd = client.boxd
        client.ask("box_create_session", {"session_id": "s", "pids_limit": 128})
        times = Times(boxd)
        times.measure(0.5)
        before = times.measure(alone)
        with Watch(boxd, find_init(client), place.mode) as watch:
            md5 = start_writers(client, count, size)
            words = [boxd.port, count, seconds, size]
            readers = subprocess.Popen(
                [sys.executable, str(testpaths.LIB / "slow_readers.py"), *map(str, words)],
                stdout=subprocess.PIPE,
                text=True,
            )
            with readers:
                assert readers.stdout.readline() == "there\n"
                slow = times.measure(seconds - 0.5)
                assert readers.stdout.readline() == "slow\n"
                begun = time.monotonic()
                found = json.loads(readers.stdout.readline())
                took = time.monotonic() - begun
        after = times.measure(alone)
        times.ws.close()
        grown = watch.grown()
        in_mib = {name: f"{value / MIB:.1f}" for name, value in grown.items()}
        print(f"\n{count} readers of {size / 1e6:.0f} MB: grown by {in_mib} MiB")
        print(f"us (median/95 %): before {shown(before)}, meanwhile {shown(slow)},")
        print(f"after {shown(after)}; the rest in {took:.1f} s")
        for early, got, sum_of_all in found:
            assert got == size and sum_of_all == md5
            # Slow, but not stopped.
            assert RATE_BYTES * seconds / 2 < early < RATE_BYTES * seconds * 1.2 + MIB
        assert grown["box-rpc"] < count * RPC_BYTES_PER_READER
        assert grown["box-init"] < count * INIT_BYTES_PER_READER
        assert grown["boxd"] < KEEPER_BYTES
        assert grown.get("group", 0) < count * BOX_BYTES_PER_READER
        check_latency(before, slow, after)
        stop(client, "mark")


@pytest.mark.timeout(120)
def test_slow_readers(place):
    check_slow(place, 6, 4, 3_000_000, 1.5)


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_20_slow_readers(place):
    check_slow(place, 20, 30, 50_000_000, 3)
