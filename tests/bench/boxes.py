"""Benchmarks of boxes: commands in existing and in new sessions, many at once, their output, and
the memory of idle boxes.
"""

import contextlib
import os
import shutil
import time

import reference
from servers import (
    Broken,
    command_of,
    family,
    forget_peak,
    one_processor,
    pss_kb,
    running,
    status_mb,
)

# How many rounds, and how many with --quick.
ROUNDS = {
    "exec": (15, 4),
    "first": (9, 2),
    "rate": (9, 2),
    "output": (9, 2),
    "one-off": (9, 2),
    "idle exec": (15, 4),
}
IDLE = (1000, 100)
OUTPUT_BYTES_MAX = 8 << 20
DRAIN_BYTES = (64 << 20, 1 << 30)  # both more than is kept: only how much is dropped differs
DRAIN_SECONDS = 300
FILL_SECONDS = 300
SLEEP_SECONDS = 3

CONFIG = f"""\
session_ttl_sec: 86400
limits:
  max_sessions: 2000
  max_processes_per_workspace: 64
  max_output_bytes: {OUTPUT_BYTES_MAX}
"""

SH = ["/bin/sh", "-c", "true"]
# The mounts of a box, as far as bubblewrap can make them; without limits, filter and network.
BWRAP = (
    "--unshare-all --die-with-parent --new-session --uid 1000 --gid 1000 "
    "--ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/sbin /sbin --symlink usr/lib /lib "
    "--symlink usr/lib64 /lib64 --ro-bind /etc /etc --proc /proc --dev /dev --tmpfs /tmp "
    "--tmpfs /var --tmpfs /run --tmpfs /home --tmpfs /workspace --chdir /workspace "
    "--clearenv --setenv PATH /usr/bin:/bin --setenv HOME /home /bin/sh -lc true"
).split()

# Kernel memory charged to processes, namespaces, mounts and cgroups; and files in memory.
KERNEL = ("Slab", "KernelStack", "PageTables", "Percpu")
FILES = ("Shmem",)


def meminfo_kb(kinds):
    with open("/proc/meminfo") as info:
        lines = dict(line.split(":") for line in info)
    return sum(int(lines[kind].split()[0]) for kind in kinds if kind in lines)


class Boxes:
    def __init__(self, bench, build):
        self.bench, self.note, self.ask = bench, bench.note, bench.ask
        self.cli = f"{build}/box"
        self.bwrap = shutil.which("bwrap")
        self.nsjail = shutil.which("nsjail")
        self.config = f"{bench.folder}/config.yaml"
        self.local = ["--backend", "local", "--root", f"{bench.folder}/root"]
        with open(self.config, "w") as config:
            config.write(CONFIG)
        self.network = []

    def box(self):
        return running(self.bench.box("--config", self.config))

    @contextlib.contextmanager
    def boxes(self):
        """This build and, if given, the earlier one, by name."""
        with contextlib.ExitStack() as stack:
            yield {
                who: stack.enter_context(running(make()))
                for who, make in self.bench.boxes("--config", self.config).items()
            }

    def measure(self):
        if not self.bwrap:
            self.bench.notes.append("bwrap: not here; not compared with it")
        if not self.nsjail:
            self.bench.notes.append("nsjail: not here; the reference cannot isolate commands")
        with references(self) as others, self.boxes() as servers:
            self.probe(servers["box"])
            self.measure_exec(servers, others)
            self.measure_first(servers, others)
            self.measure_output(servers["box"], others)
        with self.box() as server:
            self.measure_rate(server)
        with self.box() as server:
            self.measure_drain(server)
        self.measure_oneoff()
        with self.box() as one, self.box() as many:
            self.measure_idle(one, many)

    def probe(self, server):
        """Whether boxes can be made here, and whether with a network."""
        flags = [*self.local, "--count", "1", "--warmup", "0", "--session", "probe"]
        self.ask(server, "exec", *flags)
        try:
            self.ask(server, "exec", *flags, "--with-network")
            self.network = ["--with-network"]
        except Broken as broken:
            self.bench.notes.append(f"network on: not here: {str(broken)[-300:]}")

    def oneoffs(self, *commands):
        """Local commands that the load client runs in turn with its requests."""
        environment = ["--env", f"PATH={os.environ.get('PATH', '/usr/bin:/bin')}"]
        environment += ["--env", f"HOME={self.bench.folder}"]
        joined = [word for command in commands for word in ("//", *command)]
        return [*environment, "--", *joined[1:]]

    # --- measurements ---

    def measure_exec(self, servers, others):
        measured, server = "exec true, WebSocket", servers["box"]
        for _ in self.bench.rounds("exec"):
            flags = [*self.local, *self.network, "--count", "100", "--warmup", "20"]
            flags += self.oneoffs(SH)
            got = self.ask(server, "exec", *flags)
            self.note(measured, "box", got["exec"]["p50_us"])
            self.note(measured, "posix_spawn", got["spawned"][0]["p50_us"])
            self.note(f"{measured}, p99", "box", got["exec"]["p99_us"])
            self.note(f"{measured}, p99", "posix_spawn", got["spawned"][0]["p99_us"])
            if self.network:
                self.note(f"{measured}, network on", "box", got["exec_on"]["p50_us"])
                self.note(f"{measured}, network on", "network off", got["exec"]["p50_us"])
            for who, other in servers.items():
                with one_processor([other.process.pid]):
                    got = self.ask(other, "exec", *flags)
                self.note(f"{measured}, one processor", who, got["exec"]["p50_us"])
                if who == "box":
                    spawned = got["spawned"][0]["p50_us"]
                    self.note(f"{measured}, one processor", "posix_spawn", spawned)
            for who, (other, other_flags) in others.items():
                got = self.ask(other, "exec", *other_flags, "--count", "10", "--warmup", "2")
                self.note(measured, who, got["exec"]["p50_us"])

    def measure_first(self, servers, others):
        first = "first exec, network off"
        commands = [[self.bwrap, *BWRAP]] if self.bwrap else [SH]
        for number in self.bench.rounds("first"):
            flags = [*self.local, *self.network, "--count", "20", "--warmup", "3"]
            # In varying order: the reference leaves the host in a different state for its
            # successor.
            for who, server in list(servers.items())[:: 1 if number % 2 else -1]:
                got = self.ask(server, "first", *flags, *self.oneoffs(*commands))
                ms = {key: value["p50_us"] / 1e3 for key, value in got.items() if key != "spawned"}
                self.note(first, who, ms["first"])
                if self.bwrap and who == "box":
                    self.note(first, "bwrap", got["spawned"][0]["p50_us"] / 1e3)
                self.note("making a box, network off", who, ms["make"])
                self.note("delete, network off", who, ms["delete"])
                if self.network:
                    self.note("first exec, network on, more", who, ms["first_on"] - ms["first"])
                    self.note("delete, network on", who, ms["delete_on"])
            for who, (other, other_flags) in others.items():
                got = self.ask(other, "first", *other_flags, "--count", "4", "--warmup", "1")
                self.note(first, who, got["first"]["p50_us"] / 1e3)

    def measure_output(self, server, others):
        for _ in self.bench.rounds("output"):
            got = self.ask(server, "output", *self.local, "--count", "20", "--warmup", "3")
            self.note("1 MiB of stdout", "box", got["p50_us"] / 1e3)
            for who, (other, other_flags) in others.items():
                got = self.ask(other, "output", *other_flags, "--count", "5", "--warmup", "1")
                self.note("1 MiB of stdout", who, got["p50_us"] / 1e3)

    def measure_rate(self, server):
        """The boxes may use all processors, like the bare processes."""
        cpus = ["--cpus", str(os.cpu_count())]
        refused = 0
        for _ in self.bench.rounds("rate"):
            bare = self.bench.load("spawns", "--count", "2000", *self.oneoffs(SH))
            for sessions in (1, 8):
                flags = [*self.local, *cpus, "--count", "2000", "--warmup", "200"]
                flags += ["--session", f"rate{sessions}", "--sessions", str(sessions)]
                got = self.ask(server, "rate", *flags)
                measured = f"execs a second, sessions: {sessions}"
                self.note(measured, "box", got["per_second"])
                self.note(measured, "posix_spawn", bare["per_second"])
                refused += got["refused"]
        self.note("execs refused of those", "box", refused)
        burst = [*self.local, "--session", "burst", "--warmup", "0"]
        got = self.ask(server, "rate", *burst, "--count", "128", "--sessions", "128")
        self.note("new sessions refused, 32 at once", "box", got["refused"])

    def measure_drain(self, server):
        """The peak memory of every process of Box while far more is printed than is kept."""
        flags = [*self.local, "--session", "drain", "--count", "1", "--warmup", "0"]
        flags += ["--seconds", str(DRAIN_SECONDS)]
        self.ask(server, "exec", *flags)
        peaks = {}
        for size in DRAIN_BYTES * 2:  # two for warming up
            members = boxs_own(server)
            before = {pid: status_mb(pid, "VmRSS") for pid in members}
            for pid in members:
                forget_peak(pid)
            end = f"clipped at {OUTPUT_BYTES_MAX} bytes, {size - OUTPUT_BYTES_MAX} bytes discarded]"
            began = time.monotonic()
            command = ["--cmd", f"yes | head -c {size}", "--expect", end]
            self.ask(server, "exec", *flags, *command, seconds=DRAIN_SECONDS)
            took = time.monotonic() - began
            peaks[size] = sum(status_mb(pid, "VmHWM") for pid in members)
            if size == DRAIN_BYTES[1]:
                self.drain_note(members, before, took)
            time.sleep(SLEEP_SECONDS)  # box-rpc releases memory
        self.note("peak while 1 GiB is printed", "box", peaks[DRAIN_BYTES[1]])
        self.note("peak while 1 GiB is printed", "64 MiB", peaks[DRAIN_BYTES[0]])

    def drain_note(self, members, before, took):
        time.sleep(SLEEP_SECONDS)
        parts = [
            f"{name} {before[pid]:.1f}/{status_mb(pid, 'VmHWM'):.1f}/{status_mb(pid, 'VmRSS'):.1f}"
            for pid, name in members.items()
        ]
        text = f"1 GiB printed, {took:.1f} s; RSS before/peak/after in MB: {', '.join(parts)}"
        self.bench.notes = [note for note in self.bench.notes if not note.startswith("1 GiB")]
        self.bench.notes.append(text)

    def measure_oneoff(self):
        commands = [[self.cli, "run", "--", "true"]]
        commands += [[self.bwrap, *BWRAP]] if self.bwrap else []
        if not os.access(self.cli, os.X_OK):
            self.bench.notes.append("box: not built; 'box run' is not measured")
            return
        for _ in self.bench.rounds("one-off"):
            flags = ["--count", "10", "--warmup", "2", *self.oneoffs(*commands)]
            got = self.bench.load("spawn", *flags)["spawned"]
            self.note("box run -- true", "box", got[0]["p50_us"] / 1e3)
            if self.bwrap:
                self.note("box run -- true", "bwrap", got[1]["p50_us"] / 1e3)

    def measure_idle(self, one, many):
        """Two runtimes: one with a single box, one with all of them. Each box has run a command."""
        count = IDLE[1 if self.bench.quick else 0]
        fill = [*self.local, "--session", "idle", "--warmup", "0", "--window", "8"]
        for server in (one, many):
            self.ask(server, "rate", *fill, "--count", "1", "--sessions", "1")
        before = held(many)
        fill += ["--count", str(count), "--sessions", str(count)]
        got = self.ask(many, "rate", *fill, seconds=FILL_SECONDS)
        if got["refused"]:
            raise Broken(f"{got['refused']} of {count} boxes were refused")
        time.sleep(SLEEP_SECONDS)
        after = held(many)
        made = count - 1
        each = {key: (after[key] - before[key]) / 1024 / made for key in after}
        self.note("memory of an idle box", "box", sum(each.values()))
        self.note("boxes made a second, 8 at once", "box", got["per_second"])
        parts = ", ".join(f"{key} {figure:.3f}" for key, figure in each.items())
        self.bench.notes.append(f"an idle box of {count}, MiB: {parts}")
        for _ in self.bench.rounds("idle exec"):
            for who, server in (("box", many), ("1 box", one)):
                flags = [*self.local, "--session", "idle-0", "--count", "100", "--warmup", "20"]
                got = self.ask(server, "exec", *flags)
                self.note("exec with all of them there", who, got["exec"]["p50_us"])


# --- helpers ---


@contextlib.contextmanager
def references(boxes):
    """The reference runtimes by the name of their sandbox, with the flags that select it. One
    runtime each, since it cannot change its backend while running."""
    backends = {"reference, no isolation": "host"}
    if boxes.nsjail:
        backends["reference, nsjail"] = "nsjail"
    with contextlib.ExitStack() as stack:
        yield {
            who: (
                stack.enter_context(running(boxes.bench.reference())),
                ["--backend", name, "--root", f"{boxes.bench.folder}/reference"]
                + ["--expect", f'"{name}"'],
            )
            for who, name in backends.items()
        }


def boxs_own(server):
    """The processes of Box below this one, without the commands in boxes: pid -> name. A box-init
    is recognized by the memfd that it was started from."""
    names = {pid: command_of(pid) for pid in family(server.process.pid)}
    return {pid: name for pid, name in names.items() if "box" in name}


def held(server):
    """KiB per holder. Files in memory count once, by the host's total, not where they are mapped."""
    runtime, inside = 0, 0
    for pid in family(server.process.pid):
        kb = pss_kb(pid, ("Pss_Anon", "Pss_File"))
        if kb is None:
            raise Broken("the kernel does not show the memory of a box's processes")
        if command_of(pid) in ("boxd", "box-rpc"):
            runtime += kb
        else:
            inside += kb
    return {
        "its processes": inside,
        "boxd and box-rpc": runtime,
        f"kernel ({'+'.join(KERNEL)} of the machine)": meminfo_kb(KERNEL),
        "files in memory (Shmem of the machine)": meminfo_kb(FILES),
    }
