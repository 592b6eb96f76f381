"""MicroVM boxes for tests. They run where KVM does, in the QEMU machine of tests/vm: `make
test-vm`.

BOX_MICROVM names the backend: krun, or local, which runs the same tests with native boxes to show
that they expect nothing else of microVMs; what holds for microVMs alone is skipped then. All
timeouts are long, because the machine is slow.
"""

import contextlib
import os
import pathlib
import signal
import subprocess

import pytest

import boxdlib
import clientlib
import leftoverlib
import nativelib

BACKEND = os.environ.get("BOX_MICROVM", "krun")
SECONDS = 120  # for one answer, a new box included
FLOW_SECONDS = 280
MEMORY_MB = 128  # of most boxes: several fit into the machine
SPEC = {"memory_mb": MEMORY_MB, "cpus": 1.0}

NOTE = {"/run/box"}  # whether guests boot on this host is found out once, and stays written down

only_microvms = pytest.mark.skipif(BACKEND != "krun", reason="not true of native boxes")


class Place(nativelib.Place):
    """A place with box-vmm. Root uses the build's own, so that the probe whether guests boot here
    runs once; an ordinary user, who may not reach the build, gets an installed copy with its
    libraries."""

    def furnish(self, mode, operator):
        super().furnish(mode, operator)
        if BACKEND != "krun":
            return
        build = boxdlib.build(self.build)
        if mode == "root":
            (self.programs / "box-vmm").symlink_to(build / "box-vmm")
        else:
            self.install(build / "box-vmm", build.parent / "libkrun")

    def install(self, vmm, libraries):
        """Replaces box-vmm, so that the host is probed again."""
        link = self.folder / "lib" / "box"
        for old in (self.programs / "box-vmm", link):
            old.unlink(missing_ok=True)
        nativelib.copy([vmm], self.programs)
        link.parent.mkdir(mode=0o755, exist_ok=True)
        link.symlink_to(libraries)


class Runtime:
    """A boxd, the host's state before it, and a client with long timeouts."""

    def __init__(self, place, *args, **options):
        leftoverlib.adopt_orphans()
        self.place = place
        self.host = leftoverlib.HostState()
        self.host.folders |= NOTE
        self.boxd = place.start(*args, **options)
        self.boxd.wait_served()
        self.traces = leftoverlib.Traces(self.boxd, self.host)
        self.client = self.dial()

    def connect(self):
        return self.boxd.web()

    def dial(self):
        client = self.connect()
        assert client.ask("box_init", {"backend": BACKEND}, SECONDS) == {"initialized": True}
        return client

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.traces.note()
        with contextlib.suppress(clientlib.Closed):
            self.client.close()
        self.boxd.stop(check=kind is None)
        if kind is None:
            self.traces.check_gone(seconds=10)

    def run(self, cmd, session="main", seconds=SECONDS, **spec):
        """Runs a command; further members apply to a new session."""
        data = {"cmd": cmd, "session_id": session, **SPEC, **spec}
        return self.client.ask("box_exec", data, seconds)

    def out(self, cmd, session="main", **spec):
        """The stdout of a command that must succeed."""
        result = self.run(cmd, session, **spec)
        assert (result["exit_code"], result["stderr"]) == (0, ""), result
        return result["stdout"]

    def fail(self, cmd, session="main", seconds=SECONDS, **spec):
        data = {"cmd": cmd, "session_id": session, **SPEC, **spec}
        return self.client.fail("box_exec", data, seconds)

    def delete(self, session):
        return self.client.ask("box_delete_session", {"session_id": session}, SECONDS)

    def msb(self, verb, *args, data=b""):
        """`box msb`: (code, stdout, stderr)."""
        whose = ["--endpoint", self.boxd.url, "--workspace", "ws1"]
        done = subprocess.run(
            [str(boxdlib.build() / "box"), "msb", verb, *whose, *args],
            input=data,
            env=boxdlib.environment(LANGBOT_BOX_TRUSTED_INSTANCE_UUID=clientlib.INSTANCE),
            capture_output=True,
            timeout=SECONDS,
        )
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    # -- as the host sees it

    def boxes(self):
        """PID 1 of every box, by host pid."""
        return leftoverlib.inits(self.boxd)

    def await_boxes(self, count):
        boxdlib.wait_until(
            lambda: len(self.boxes()) == count, 30, lambda: f"not {count} boxes: {self.boxes()}"
        )

    def pids_of(self, init):
        return [init, *leftoverlib.descendants(init)]


def group_of(pid):
    """The cgroup (v2) of a process."""
    for line in pathlib.Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        if line.startswith("0::"):
            return pathlib.Path("/sys/fs/cgroup" + line[3:])
    raise AssertionError("no cgroup of version 2")


def machines(runtime):
    """The processes that have opened /dev/kvm: only root sees them."""
    found = []
    for pid in leftoverlib.descendants(runtime.boxd.pid):
        with contextlib.suppress(OSError):
            if any("kvm" in name for name in boxdlib.fd_names(pid).values()):
                found.append(pid)
    return found


def kill(pid):
    os.kill(pid, signal.SIGKILL)


class Live:
    """A live command. `out` and `err` are its output so far."""

    def __init__(self, runtime, cmd, session="main", **spec):
        self.client = runtime.client
        self.out = self.err = ""
        data = {"cmd": cmd, "session_id": session, "stdin": True, **SPEC, **spec}
        self.seq = self.client.start("box_exec_stream", data)
        first = self.client.wait(self.seq, SECONDS)
        assert first["code"] == 0, first["message"]
        self.exec_id = first["data"]["exec_id"]

    def event(self):
        event = self.client.wait(self.seq, SECONDS)["data"]
        if event["event"] == "stdout":
            self.out += event["data"]
        elif event["event"] == "stderr":
            self.err += event["data"]
        return event

    def until(self, text):
        while text not in self.out:
            assert self.event()["event"] != "exit", self.out

    def end(self):
        while (event := self.event())["event"] != "exit":
            pass
        return event["exit_code"]

    def input(self, data, eof=False):
        asked = {"exec_id": self.exec_id, "data": data, "eof": eof}
        assert self.client.ask("box_exec_input", asked, SECONDS) == {}
