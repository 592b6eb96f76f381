"""Attempts through /proc: other processes, PID 1, settings and secrets of the kernel."""

import ctypes
import errno
import os
import resource
import signal
import struct

from frame import (
    FILE_REFUSALS,
    attempt,
    blocked,
    call,
    doing,
    escaped,
    first_escape,
    try_call,
    libc,
    name_of,
    reading,
    writing,
)

GONE = (*FILE_REFUSALS, errno.ESRCH)
INITS = (1, 2)  # PID 1 and the process that mounts


def foreign_pids(pids):
    """The pids that do not also exist in the box by chance."""
    mine = {int(name) for name in os.listdir("/proc") if name.isdigit()}
    return [pid for pid in pids if pid not in mine]


@attempt("proc", "see-pid-1")
def _(facts):
    return first_escape(reading(f"/proc/{pid}/status", refusals=GONE) for pid in INITS)


@attempt("proc", "list-foreign-processes")
def _(facts):
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    mine = os.getuid()
    foreign = [pid for pid in pids if os.stat(f"/proc/{pid}").st_uid != mine]
    return escaped(foreign) if foreign else blocked(f"none of {len(pids)}")


def of_inits(name, action):
    return first_escape(action(f"/proc/{pid}/{name}") for pid in INITS)


@attempt("proc", "pid-1-mem")
def _(facts):
    return of_inits("mem", lambda path: doing(os.open, path, os.O_RDWR, refusals=GONE))


@attempt("proc", "pid-1-exe-overwrite")
def _(facts):
    return of_inits("exe", lambda path: doing(os.open, path, os.O_WRONLY, refusals=GONE))


@attempt("proc", "pid-1-exe-read")
def _(facts):
    return of_inits("exe", lambda path: reading(path, refusals=GONE, size=64))


@attempt("proc", "pid-1-root")
def _(facts):
    return of_inits("root", lambda path: doing(os.listdir, path, refusals=GONE))


@attempt("proc", "pid-1-cwd")
def _(facts):
    return of_inits("cwd", lambda path: doing(os.listdir, path, refusals=GONE))


@attempt("proc", "pid-1-fd")
def _(facts):
    return of_inits("fd", lambda path: doing(os.listdir, path, refusals=GONE))


@attempt("proc", "pid-1-environ")
def _(facts):
    return of_inits("environ", lambda path: doing(os.open, path, os.O_RDONLY, refusals=GONE))


@attempt("proc", "pid-1-maps-and-stack")
def _(facts):
    names = ("maps", "smaps", "auxv", "stack", "syscall", "personality", "io", "timers")
    return first_escape(
        reading(f"/proc/{pid}/{name}", refusals=GONE) for pid in INITS for name in names
    )


@attempt("proc", "pid-1-namespaces")
def _(facts):
    names = ("user", "mnt", "net", "pid", "ipc", "uts", "cgroup")
    return first_escape(
        doing(os.open, f"/proc/{pid}/ns/{name}", os.O_RDONLY, refusals=GONE)
        for pid in INITS
        for name in names
    )


@attempt("proc", "pid-1-kill")
def _(facts):
    """Signal 0 checks for permission; the others are sent to no process."""
    return first_escape(doing(os.kill, pid, 0, refusals=GONE) for pid in INITS)


@attempt("proc", "pid-1-kill-by-pidfd")
def _(facts):
    results = []
    for pid in INITS:
        fd, number = call("pidfd_open", pid, 0)
        if fd < 0:
            results.append(blocked(name_of(number)))
            continue
        results.append(try_call("pidfd_send_signal", fd, 0, None, 0))
    return first_escape(results)


@attempt("proc", "kill-everything")
def _(facts):
    """kill(-1) reaches all but PID 1: here it must not reach the mounter."""
    pid = os.fork()
    if pid == 0:
        os.setsid()
        signal.signal(signal.SIGCONT, signal.SIG_IGN)
        reached, number = call("kill", -1, int(signal.SIGCONT))
        os._exit(0 if reached == 0 or number == errno.ESRCH else 1)
    status = os.waitpid(pid, 0)[1]
    assert status == 0, status
    return first_escape(doing(os.kill, pid, signal.SIGCONT, refusals=GONE) for pid in INITS)


@attempt("proc", "pid-1-ptrace")
def _(facts):
    return first_escape(try_call("ptrace", 16, pid, 0, 0) for pid in INITS)  # attach


@attempt("proc", "pid-1-ptrace-seize")
def _(facts):
    return first_escape(try_call("ptrace", 0x4206, pid, 0, 0) for pid in INITS)


@attempt("proc", "pid-1-process-vm-readv")
def _(facts):
    """It is not relocated: it is loaded at the usual address of static programs."""
    here = ctypes.create_string_buffer(16)
    near = ctypes.create_string_buffer(struct.pack("QQ", ctypes.addressof(here), 16))
    far = ctypes.create_string_buffer(struct.pack("QQ", 0x400000, 16))
    return first_escape(try_call("process_vm_readv", pid, near, 1, far, 1, 0) for pid in INITS)


@attempt("proc", "pid-1-limits")
def _(facts):
    low = resource.getrlimit(resource.RLIMIT_NPROC)
    return first_escape(
        doing(resource.prlimit, pid, resource.RLIMIT_NPROC, low, refusals=GONE) for pid in INITS
    )


@attempt("proc", "pid-1-priority-and-cpus")
def _(facts):
    results = [doing(os.setpriority, os.PRIO_PROCESS, pid, 19, refusals=GONE) for pid in INITS]
    results += [doing(os.sched_setaffinity, pid, {0}, refusals=GONE) for pid in INITS]
    return first_escape(results)


@attempt("proc", "pid-1-oom-score")
def _(facts):
    return of_inits("oom_score_adj", lambda path: writing(path, b"1000", refusals=GONE))


@attempt("proc", "pid-1-id-maps")
def _(facts):
    return first_escape(
        writing(f"/proc/{pid}/{name}", b"0 0 1", refusals=GONE)
        for pid in INITS
        for name in ("uid_map", "gid_map", "setgroups", "projid_map")
    )


@attempt("proc", "own-id-maps-again")
def _(facts):
    return first_escape(
        writing(f"/proc/self/{name}", b"0 0 1", refusals=GONE) for name in ("uid_map", "gid_map")
    )


@attempt("proc", "self-exe-overwrite")
def _(facts):
    """Like the container exploit that overwrote its runtime: here the program is the host's python."""
    return doing(os.open, "/proc/self/exe", os.O_WRONLY, refusals=(*GONE, errno.ETXTBSY))


@attempt("proc", "self-mem-over-a-program")
def _(facts):
    """Writing to read-only pages by /proc/self/mem makes a copy: the file stays unchanged."""
    import mmap

    with open("/usr/bin/env", "rb") as file:
        before = file.read(64)
        pages = mmap.mmap(file.fileno(), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ)
        with open("/proc/self/maps") as maps:
            line = next(line for line in maps if line.rstrip().endswith("/usr/bin/env"))
        start = int(line.split("-")[0], 16)
        try:
            fd = os.open("/proc/self/mem", os.O_RDWR)
            os.pwrite(fd, b"#!/proof", start)
        except OSError as error:
            return blocked(name_of(error.errno))
        file.seek(0)
        after = file.read(64)
        pages.close()
    return escaped("the file has changed") if after != before else blocked("a private copy")


@attempt("proc", "self-root-and-cwd")
def _(facts):
    path = facts["secret_file"]
    return first_escape(
        reading(f"/proc/{who}/{name}{path}", facts["secret"], refusals=GONE)
        for who in ("self", "thread-self", str(os.getppid()))
        for name in ("root", "cwd")
    )


@attempt("proc", "hosts-processes-by-their-pids")
def _(facts):
    return first_escape(
        reading(f"/proc/{pid}/{name}", facts["secret"], refusals=GONE)
        for pid in foreign_pids(facts["host_pids"])
        for name in ("environ", "cmdline", f"root{facts['secret_file']}")
    )


@attempt("proc", "signal-the-hosts-processes")
def _(facts):
    pids = foreign_pids(facts["host_pids"])
    return first_escape(doing(os.kill, pid, 0, refusals=GONE) for pid in pids)


SETTINGS = {
    "core-pattern": "kernel/core_pattern",
    "modprobe": "kernel/modprobe",
    "hotplug-and-poweroff": "kernel/poweroff_cmd",
    "binfmt": "fs/binfmt_misc/register",
    "overcommit": "vm/overcommit_memory",
    "panic": "kernel/panic",
    "drop-caches": "vm/drop_caches",
    "ptrace-scope": "kernel/yama/ptrace_scope",
    "namespaces": "user/max_user_namespaces",
    "hostname-file": "kernel/hostname",
    "pid-max": "kernel/pid_max",
    "forwarding": "net/ipv4/ip_forward",
    "low-ports": "net/ipv4/ip_unprivileged_port_start",
    "ping-group": "net/ipv4/ping_group_range",
    "tty-injection": "dev/tty/legacy_tiocsti",
    "shm-limits": "kernel/shmmax",
}


def setting(name, path):
    @attempt("proc", f"sysctl-{name}")
    def _(facts):
        return doing(os.open, f"/proc/sys/{path}", os.O_WRONLY)


for key, value in SETTINGS.items():
    setting(key, value)


@attempt("proc", "sysrq-trigger")
def _(facts):
    """Opened only, because a write would affect the host. A masked file may be opened."""
    import stat

    try:
        fd = os.open("/proc/sysrq-trigger", os.O_WRONLY)
    except OSError as error:
        return blocked(name_of(error.errno))
    if stat.S_ISCHR(os.fstat(fd).st_mode):
        return blocked("masked")
    return escaped("open")


@attempt("proc", "kcore")
def _(facts):
    return reading("/proc/kcore", size=64)


@attempt("proc", "kernel-addresses")
def _(facts):
    with open("/proc/self/stat") as file:
        file.read()
    try:
        with open("/proc/kallsyms") as file:
            lines = file.read(4096).splitlines()
    except OSError as error:
        return blocked(name_of(error.errno))
    if any(int(line.split()[0], 16) for line in lines):
        return escaped(lines[0])
    return blocked("zeros" if lines else "masked")


@attempt("proc", "modules-and-iomem-addresses")
def _(facts):
    results = []
    for path in ("/proc/modules", "/proc/iomem", "/proc/ioports"):
        try:
            with open(path) as file:
                text = file.read(8192)
        except OSError as error:
            results.append(blocked(name_of(error.errno)))
            continue
        words = text.replace("-", " ").split()
        told = [word for word in words if len(word) >= 4 and word.startswith("ffff")]
        results.append(escaped(told[0]) if told else blocked("zeros"))
    return first_escape(results)


@attempt("proc", "kernel-log")
def _(facts):
    return first_escape(
        reading(path, refusals=(*FILE_REFUSALS, errno.EAGAIN))
        for path in ("/proc/kmsg", "/dev/kmsg")
    )


MASKED = (
    "acpi",
    "asound",
    "interrupts",
    "key-users",
    "keys",
    "latency_stats",
    "sched_debug",
    "scsi",
    "timer_list",
    "slabinfo",
    "vmallocinfo",
)


def masked(name):
    @attempt("proc", f"masked-{name}")
    def _(facts):
        path = f"/proc/{name}"
        if os.path.isdir(path):
            names = os.listdir(path)
            return escaped(names) if names else blocked("empty")
        return reading(path)


for key in MASKED:
    masked(key)


@attempt("proc", "pressure-trigger")
def _(facts):
    """Each one is a worker thread in the kernel."""
    return first_escape(
        writing(f"/proc/pressure/{name}", b"some 500000 2000000\0", refusals=GONE)
        for name in ("cpu", "io", "memory")
    )


@attempt("proc", "hosts-mounts-in-mountinfo")
def _(facts):
    with open("/proc/self/mountinfo") as file:
        lines = file.read().splitlines()
    strange = [line for line in lines if line.split()[4] in ("/sys", "/boot", facts["folder"])]
    strange += [line for line in lines if "cgroup" in line.split(" - ")[1]]
    return escaped(strange[0]) if strange else blocked(f"{len(lines)} of the box")


@attempt("proc", "hosts-name-of-the-workspace")
def _(facts):
    """The path of the folder on the host may be visible: that is no way to it."""
    with open("/proc/self/mountinfo") as file:
        text = file.read()
    shown = facts["workspace"] in text
    verdict, how = reading(facts["workspace"] + "/../outside/secret", facts["secret"])
    return (verdict, f"{how}; its path is {'shown' if shown else 'not shown'}")


@attempt("proc", "oom-score-below-boxds")
def _(facts):
    value = max(facts["oom_score_adj"] - 1, -1000)
    return first_escape(
        writing("/proc/self/oom_score_adj", str(score).encode(), refusals=GONE)
        for score in (-1000, value)
    )


@attempt("proc", "become-traceable-mm-tricks")
def _(facts):
    """PR_SET_MM moves what the kernel shows of a process: exe file, arguments, environment."""
    fd = os.open("/usr/bin/env", os.O_RDONLY)
    refusals = (errno.EPERM, errno.EINVAL)
    results = [try_call("prctl", 35, 13, fd, 0, 0, refusals=refusals)]  # PR_SET_MM_EXE_FILE
    for field in (1, 2, 3, 6, 7, 8):
        results.append(try_call("prctl", 35, field, 4096, 0, 0, refusals=refusals))
    return first_escape(results)


@attempt("proc", "crash-leaves-no-core")
def _(facts):
    os.chdir("/workspace")
    before = set(os.listdir("."))
    pid = os.fork()
    if pid == 0:
        libc.prctl(4, 1, 0, 0, 0)
        os.kill(os.getpid(), signal.SIGSEGV)
        os._exit(0)
    status = os.waitpid(pid, 0)[1]
    assert os.WIFSIGNALED(status), status
    made = set(os.listdir(".")) - before
    for name in made:
        os.unlink(name)
    if made or os.WCOREDUMP(status):
        return escaped(f"{sorted(made)} dumped={os.WCOREDUMP(status)}")
    return blocked("no core")


@attempt("proc", "raise-the-core-limit")
def _(facts):
    most = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    if resource.getrlimit(resource.RLIMIT_CORE) == most:
        return escaped("it has no limit")
    return doing(resource.prlimit, 0, resource.RLIMIT_CORE, most, refusals=(errno.EPERM,))
