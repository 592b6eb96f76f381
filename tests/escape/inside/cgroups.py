"""Attempts on limits and cgroups: leaving them, changing them, using more than is given."""

import errno
import mmap
import os
import signal

from frame import FILE_REFUSALS, attempt, blocked, doing, escaped, first_escape, name_of, writing

MIB = 1 << 20


def in_sys(name, leaf, text):
    @attempt("cgroups", name)
    def _(facts):
        folders = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
        for path in facts["cgroups"]:
            folders += [path, f"/sys/fs/cgroup{path}"]
        return first_escape(writing(f"{folder}/{leaf}", text) for folder in folders)


in_sys("write-release-agent", "release_agent", b"/bin/sh")
in_sys("write-notify-on-release", "notify_on_release", b"1")
in_sys("leave-by-cgroup-procs", "cgroup.procs", b"0")
in_sys("leave-by-tasks", "tasks", b"0")
in_sys("raise-memory-limit", "memory.limit_in_bytes", b"-1")
in_sys("raise-memory-max", "memory.max", b"max")
in_sys("raise-pids-limit", "pids.max", b"max")
in_sys("allow-devices", "devices.allow", b"a *:* rwm")


@attempt("cgroups", "see-the-hosts-cgroups")
def _(facts):
    """In a cgroup namespace of its own, a box sees itself as the root."""
    with open("/proc/self/cgroup") as file:
        lines = file.read().splitlines()
    paths = {
        line.split(":", 2)[2] for line in lines if any(c in line for c in facts["controllers"])
    }
    told = sorted(path for path in paths if "box-" in path)
    return escaped(told) if told else blocked(", ".join(sorted(paths)))


@attempt("cgroups", "find-a-cgroup-file-system")
def _(facts):
    with open("/proc/self/mounts") as file:
        found = [line for line in file if "cgroup" in line]
    return escaped(found[0]) if found else blocked("none")


@attempt("cgroups", "more-processes-than-given")
def _(facts):
    pids, error = [], None
    try:
        for _ in range(facts["pids_limit"] + 20):
            pid = os.fork()
            if pid == 0:
                signal.pause()
                os._exit(0)
            pids.append(pid)
    except OSError as why:
        error = why
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        for pid in pids:
            os.waitpid(pid, 0)
    if error is None:
        return escaped(f"{len(pids)} processes")
    assert error.errno == errno.EAGAIN, error
    return blocked(f"EAGAIN after {len(pids)}")


@attempt("cgroups", "more-threads-than-given")
def _(facts):
    import threading

    gate, threads = threading.Event(), []
    threading.stack_size(65536)
    try:
        for _ in range(facts["pids_limit"] + 20):
            thread = threading.Thread(target=gate.wait, daemon=True)
            thread.start()
            threads.append(thread)
    except RuntimeError:
        return blocked(f"after {len(threads)}")
    finally:
        gate.set()
    return escaped(f"{len(threads)} threads")


@attempt("cgroups", "more-memory-than-given", killed_by=(signal.SIGKILL,), alone=True)
def _(facts):
    size = facts["memory_mb"] * MIB * 3 // 2
    memory = mmap.mmap(-1, size)
    for at in range(0, size, 4096):
        memory[at] = 1
    return escaped(f"{size >> 20} MiB")


@attempt("cgroups", "more-memory-by-memfd", killed_by=(signal.SIGKILL,), alone=True)
def _(facts):
    """Memory of files without a name counts, too."""
    fd = os.memfd_create("big")
    piece = b"\1" * MIB
    for _ in range(facts["memory_mb"] * 3 // 2):
        os.write(fd, piece)
    return escaped(f"{facts['memory_mb'] * 3 // 2} MiB")


@attempt("cgroups", "more-memory-by-shared-segments", killed_by=(signal.SIGKILL,), alone=True)
def _(facts):
    import ctypes

    import frame

    size = facts["memory_mb"] * MIB * 3 // 2
    number, why = frame.call("shmget", 0, size, 0o1600)
    if number < 0:
        return blocked(name_of(why))
    frame.libc.shmat.restype = ctypes.c_void_p
    address = frame.libc.shmat(number, None, 0)
    frame.call(31, number, 0, None)  # IPC_RMID: it goes with us
    for at in range(0, size, 4096):
        ctypes.memset(address + at, 1, 1)
    return escaped(f"{size >> 20} MiB")


def fill(folder, most):
    """Writes until it is full, then removes the file. Returns the bytes written."""
    path, written, piece = f"{folder}/fill", 0, b"\1" * MIB
    try:
        with open(path, "wb", buffering=0) as file:
            while written < most:
                written += file.write(piece)
    except OSError as error:
        return written, error.errno
    finally:
        os.unlink(path)
    return written, 0


def filling(name, folder, share):
    @attempt("cgroups", name)
    def _(facts):
        room = facts["memory_mb"] * MIB // share
        written, why = fill(folder, room + 8 * MIB)
        if why == 0:
            return escaped(f"{written >> 20} MiB in {folder}")
        assert why == errno.ENOSPC, name_of(why)
        return blocked(f"ENOSPC after {written >> 20} MiB")


filling("fill-tmp", "/tmp", 2)
filling("fill-shm", "/dev/shm", 4)
filling("fill-home", "/home/box", 2)


@attempt("cgroups", "fill-run")
def _(facts):
    written, why = fill("/run", 64 * MIB)
    return escaped(f"{written >> 20} MiB") if why == 0 else blocked(name_of(why))


@attempt("cgroups", "more-files-than-given")
def _(facts):
    most = facts["memory_mb"] * MIB // 2 // 4096 + 500
    os.mkdir("/tmp/many")
    made = 0
    try:
        for made in range(most):
            os.close(os.open(f"/tmp/many/{made}", os.O_CREAT | os.O_WRONLY))
    except OSError as error:
        assert error.errno == errno.ENOSPC, error
        return blocked(f"ENOSPC after {made}")
    finally:
        for name in os.listdir("/tmp/many"):
            os.unlink(f"/tmp/many/{name}")
        os.rmdir("/tmp/many")
    return escaped(f"{made + 1} files")


@attempt("cgroups", "real-time-priority")
def _(facts):
    return first_escape(
        doing(os.sched_setscheduler, 0, policy, os.sched_param(1), refusals=(errno.EPERM,))
        for policy in (os.SCHED_FIFO, os.SCHED_RR)
    )


@attempt("cgroups", "higher-priority")
def _(facts):
    return doing(os.nice, -5, refusals=(*FILE_REFUSALS,))
