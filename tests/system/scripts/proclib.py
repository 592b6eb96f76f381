"""Processes of boxes as the host sees them, found by an argument that only they have (a marker).

Uses nothing but the standard library: it also runs in the environments of the real clients.
"""

import contextlib
import os
import pathlib
import signal
import time


def processes():
    """(pid, folder in /proc) of every process that can be inspected."""
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        yield int(folder.name), folder


def arguments(folder):
    with contextlib.suppress(OSError):
        return (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
    return []


def find(marker):
    """The pids of the processes that have this argument."""
    return [pid for pid, folder in processes() if marker in arguments(folder)[1:]]


def space_of(pid):
    return os.readlink(f"/proc/{pid}/ns/pid")


def init_of(pid):
    """PID 1 of the pid namespace that a process is in."""
    space = space_of(pid)
    for one, folder in processes():
        with contextlib.suppress(OSError):
            lines = (folder / "status").read_text().splitlines()
            inner = next(line for line in lines if line.startswith("NSpid:")).split()[-1]
            if inner == "1" and space_of(one) == space:
                return one
    raise AssertionError(f"{space} has no PID 1")


def find_one(marker, seconds=5.0):
    end = time.monotonic() + seconds
    while not (found := find(marker)):
        assert time.monotonic() < end, f"no process with argument {marker}"
        time.sleep(0.01)
    assert len(found) == 1, found
    return found[0]


def kill_init(marker):
    """kill -9 of PID 1 from outside; waits for the end of the whole box."""
    inside = find_one(marker)
    init = init_of(inside)
    os.kill(init, signal.SIGKILL)
    end = time.monotonic() + 5
    while find(marker):
        assert time.monotonic() < end, "the box outlived its PID 1"
        time.sleep(0.01)
    return init

