"""Benchmarks of streams: the relay of a managed process, a live command, copies into boxes and out
of them, and the memory of idle managed processes.
"""

import hashlib
import os
import statistics
import subprocess
import time

import reference
from boxes import held, references
from servers import Broken, Server, family, one_processor, running

# How many rounds, and how many with --quick.
ROUNDS = {
    "relay": (15, 4),
    "flow": (9, 3),
    "live": (9, 3),
    "copy": (7, 2),
}
LINE, LONG_LINE = 100, 16 << 10
LIVE_BYTES = 256 << 20
COPY_BYTES = (1 << 30, 256 << 20)  # the second with --quick
PROCESSES = 60
SLEEP_SECONDS = 3
COMMAND_SECONDS = 120
MEMORY_MB = "3072"
SHM = "/dev/shm"
BARE = "bare pipe and socket"


def relay_path(session, process):
    digest = hashlib.sha256(f"{reference.INSTANCE}\0ws1".encode()).hexdigest()[:24]
    return f"/v1/sessions/ws-{digest}-g1-{session}/managed-process/{process}/ws"


class Streams:
    def __init__(self, bench, boxes, build):
        self.bench, self.note, self.ask, self.boxes = bench, bench.note, bench.ask, boxes
        self.cli = f"{build}/box"
        self.bare = f"{build}/bench/bare"

    def measure(self):
        with references(self.boxes) as others, self.boxes.box() as server:
            with running(self.bare_server("pipe", "cat")) as bare:
                self.measure_relay(server, bare, others)
                self.measure_flow(server, bare, others)
            self.note_bounds(others)
        with self.boxes.box() as server:
            self.measure_processes(server)
        with self.boxes.box() as server:
            self.measure_live(server)
            self.measure_copy(server)

    def bare_server(self, *words):
        argv = [self.bare, *words]
        return Server(argv, self.bench.folder, ["--bare"], r"^(\d+)$", stdin=subprocess.PIPE)

    # --- relay ---

    def peers(self, server, bare, others):
        """The programs that answer lines, with their flags. The reference's own flags come last."""
        yield "box", server, [*self.boxes.local]
        yield BARE, bare, []
        for who, (other, flags) in others.items():
            yield who, other, flags[:4]

    def relay(self, mode, server, flags, *more):
        session = "relay"
        words = ["--session", session, "--cmd", "cat", "--relay", relay_path(session, "p0")]
        return self.ask(server, mode, *flags, *words, *more)

    def measure_relay(self, server, bare, others):
        for _ in self.bench.rounds("relay"):
            self.round_relay(server, bare, others, f"relay echo of {LINE} bytes, all processors")
            pids = [peer.process.pid for _, peer, _ in self.peers(server, bare, others)]
            with one_processor(pids):
                self.round_relay(server, bare, others, f"relay echo of {LINE} bytes")

    def round_relay(self, server, bare, others, measured):
        took = {}
        for who, peer, flags in self.peers(server, bare, others):
            count = "1000" if who in ("box", BARE) else "200"
            got = self.relay("relay", peer, flags, "--bytes", str(LINE), "--count", count)
            took[who] = got["p50_us"]
            self.note(measured, who, got["p50_us"])
            self.note(f"{measured}, p99", who, got["p99_us"])
        more = took["box"] - took[BARE]
        self.note(f"{measured}, more than bare", "box", more)

    def measure_flow(self, server, bare, others):
        measured = "relay, lines of 16 KiB"
        for _ in self.bench.rounds("flow"):
            for who, peer, flags in self.peers(server, bare, others):
                count = "4000" if who in ("box", BARE) else "400"
                more = ["--bytes", str(LONG_LINE), "--count", count, "--warmup", "20"]
                # Few enough for everyone's buffers: a peer that only writes blocks one that also
                # only writes.
                got = self.relay("flow", peer, flags, *more, "--window", "16")
                self.note(measured, who, got["mb_per_second"])

    def note_bounds(self, others):
        """No relay is faster than one that only copies bytes: the ratio of a bare pipe and socket
        to the reference is the upper limit of any target."""
        echo = self.bench.figures[f"relay echo of {LINE} bytes"]
        flow = self.bench.figures["relay, lines of 16 KiB"]
        for who in others:
            less = statistics.median(echo[who]) / statistics.median(echo[BARE])
            more = statistics.median(flow[BARE]) / statistics.median(flow[who])
            self.bench.notes.append(
                f"a bare pipe and socket beside the {who}: echo {less:.2f}x faster, "
                f"lines of 16 KiB {more:.2f}x as many"
            )

    def measure_processes(self, server):
        flags = [*self.boxes.local, "--session", "many", "--cmd", "cat"]
        self.ask(server, "processes", *flags, "--sessions", "1")
        time.sleep(SLEEP_SECONDS)
        before, running_before = held(server), len(family(server.process.pid))
        self.ask(server, "processes", *flags, "--sessions", str(PROCESSES + 1))
        time.sleep(SLEEP_SECONDS)
        after, running_after = held(server), len(family(server.process.pid))
        if running_after - running_before != PROCESSES:
            raise Broken(f"{running_after - running_before} processes were started")
        parts = {key: (after[key] - before[key]) * 1024 / 1e6 for key in after}
        self.note(f"memory of {PROCESSES} managed cat", "box", sum(parts.values()))
        shown = ", ".join(f"{key} {figure:.2f}" for key, figure in parts.items())
        self.bench.notes.append(f"{PROCESSES} managed cat, MB: {shown}")

    # --- live commands and copies, with the `box` command ---

    def command(self, server, *words, **more):
        """The time that `box` takes in seconds."""
        environment = reference.environment(self.bench.folder)
        environment["BOX_ENDPOINT"] = f"ws://127.0.0.1:{server.port}"
        began = time.monotonic()
        done = subprocess.run(
            [self.cli, "--instance", reference.INSTANCE, *words],
            env=environment,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=COMMAND_SECONDS,
            **more,
        )
        if done.returncode != 0:
            raise Broken(f"box {' '.join(words)}: {done.stderr.decode(errors='replace')[-500:]}")
        return time.monotonic() - began

    def measure_live(self, server):
        measured = f"{LIVE_BYTES >> 20} MiB of a live command"
        source = f"{SHM}/box-bench-{os.getpid()}"
        self.command(server, "create", "live", "--memory", MEMORY_MB, stdout=subprocess.DEVNULL)
        fill = f"head -c {LIVE_BYTES} /dev/zero"
        self.command(server, "exec", "live", "--", f"{fill} >/tmp/f")
        try:
            subprocess.run(["sh", "-c", f'{fill} >"$0"', source], check=True)
            with running(self.bare_server("socket", "cat", source)) as bare:
                for _ in self.bench.rounds("live"):
                    took = self.command(
                        server, "exec", "live", "--", "cat /tmp/f", stdout=subprocess.DEVNULL
                    )
                    self.note(measured, "box", LIVE_BYTES / 1e6 / took)
                    got = self.ask(bare, "drain")
                    if got["bytes"] != LIVE_BYTES:
                        raise Broken(f"{got['bytes']} bytes came of the bare cat")
                    figure = LIVE_BYTES / 1e6 / got["seconds"]
                    self.note(measured, "cat into a socket", figure)
        finally:
            os.unlink(source)
        self.command(server, "rm", "live", stdout=subprocess.DEVNULL)

    def lay_out(self, source, target):
        """Keeps memory for one copy allocated: the host of a virtual machine reclaims what is free
        for a second, and getting it back takes longer than the copy."""
        subprocess.run(["cp", source, target], check=True)
        os.unlink(target)

    def measure_copy(self, server):
        size = COPY_BYTES[1 if self.bench.quick else 0]
        source, target = f"{SHM}/box-bench-{os.getpid()}-from", f"{SHM}/box-bench-{os.getpid()}-to"
        self.command(server, "create", "copy", "--memory", MEMORY_MB, stdout=subprocess.DEVNULL)
        try:
            subprocess.run(["sh", "-c", f'head -c {size} /dev/urandom >"$0"', source], check=True)
            for _ in self.bench.rounds("copy"):
                self.lay_out(source, target)
                took = {"into a box": self.command(server, "cp", source, "copy:/tmp/f")}
                self.lay_out(source, target)
                took["out of a box"] = self.command(server, "cp", "copy:/tmp/f", target)
                if subprocess.run(["cmp", source, target], check=False).returncode != 0:
                    raise Broken("box cp gave another file back")
                os.unlink(target)
                self.command(server, "exec", "copy", "--", "rm /tmp/f")
                self.lay_out(source, target)
                began = time.monotonic()
                subprocess.run(["cp", source, target], check=True)
                bare = time.monotonic() - began
                os.unlink(target)
                for way, seconds in took.items():
                    measured = f"box cp of {size >> 20} MiB {way}"
                    self.note(measured, "box", size / 1e6 / seconds)
                    self.note(measured, "cp to tmpfs", size / 1e6 / bare)
        finally:
            for path in (source, target):
                if os.path.exists(path):
                    os.unlink(path)
        self.command(server, "rm", "copy", stdout=subprocess.DEVNULL)
