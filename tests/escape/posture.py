"""What a started box looks like from outside, field by field, and what it must look like.

Every field is compared as a whole: a mount, an fd, a namespace or a capability that is not listed
here is a difference, however harmless it may be.
"""

import collections
import os
import pathlib
import re

import world

PAYLOAD = 1000  # in the box
FIELDS = (
    "Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs",
    "Seccomp", "Seccomp_filters", "Umask", "SigIgn", "Threads",
)  # fmt: skip
SPACES = (*world.SPACES, "time")
FILES_MAX = int(pathlib.Path("/proc/sys/fs/file-max").read_text())
LIMITS = {
    "Max core file size": "1",
    # A fraction of the host's value, above what programs need.
    "Max open files": str(min(4096, max(1024, FILES_MAX // 16 // world.PIDS))),
    "Max pending signals": "4096",
    "Max msgqueue size": "0",
    "Max locked memory": str(8 << 20),
    "Max nice priority": "0",
    "Max realtime priority": "0",
}
SET_UID, SET_GID, KILL, SYS_ADMIN = 1 << 7, 1 << 6, 1 << 5, 1 << 21
SYSTEM = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32")
MASKS = (
    "acpi", "asound", "interrupts", "kallsyms", "key-users", "keys", "latency_stats", "pressure",
    "sched_debug", "scsi",
)  # fmt: skip
FROZEN = ("bus", "fs", "irq", "sys")
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")


def text(pid, name):
    return pathlib.Path(f"/proc/{pid}/{name}").read_text()


def status(pid):
    lines = dict(line.split(":", 1) for line in text(pid, "status").splitlines())
    return {name: " ".join(lines[name].split()) for name in FIELDS}


def status_of(uid, capabilities, filters, makes_files_as=None):
    """The expected result of `status`."""
    owner = uid if makes_files_as is None else makes_files_as
    sets = {"CapInh": 0, "CapPrm": capabilities, "CapEff": capabilities, "CapBnd": 0, "CapAmb": 0}
    return {
        "Uid": f"{uid} {uid} {uid} {owner}",
        "Gid": f"{uid} {uid} {uid} {owner}",
        "Groups": "",
        **{name: f"{value:016x}" for name, value in sets.items()},
        "NoNewPrivs": "1",
        "Seccomp": "2" if filters else "0",
        "Seccomp_filters": str(filters),
        "Umask": "0022",
        "SigIgn": "0000000000000000",
        "Threads": "1",
    }


def namespaces(pid):
    return {name: os.stat(f"/proc/{pid}/ns/{name}").st_ino for name in SPACES}


def limits(pid):
    found = {}
    for line in text(pid, "limits").splitlines()[1:]:
        name, soft, hard = re.match(r"(.{25}) (\S+)\s+(\S+)", line).groups()
        found[name.strip()] = soft if soft == hard else f"{soft} {hard}"
    return {name: found[name] for name in LIMITS}


def kind_of(target):
    """socket:[1] -> socket, pipe:[2] -> pipe, a file of a process -> its name, others unchanged."""
    return re.sub(r"^(?:(socket|pipe):.*|/proc/\d+/(\w+))$", r"\1\2", target)


def fds(pid):
    """The number of fds of each kind, and what the standard ones are."""
    names = {fd: os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
    standard = [kind_of(names.pop(fd, "closed")) for fd in ("0", "1", "2")]
    return standard, dict(collections.Counter(map(kind_of, names.values())))


def cgroups(pid):
    """Its cgroups: controllers -> the last two parts of the path."""
    lines = [line.split(":", 2) for line in text(pid, "cgroup").splitlines()]
    return {kinds: "/".join(path.split("/")[-2:]) for _, kinds, path in lines if "/box-" in path}


def options(words):
    """Without the access time options, which are the host's."""
    return ",".join(word for word in words.split(",") if not word.endswith("atime"))


def mounts(pid):
    """target -> (type, root in the file system, mount options, file system options if ours)."""
    found = {}
    for line in text(pid, "mountinfo").splitlines():
        left, right = line.split(" - ")
        root, target, flags = left.split()[3:6]
        kind, source, more = right.split()
        assert target not in found, f"two mounts on {target}"
        own = kind in ("proc", "devpts") or (kind == "tmpfs" and source == "none")
        found[target] = (kind, root, options(flags), options(more) if own else None)
    return found


def tmpfs(size, inodes, mode=None, owner=None, flags="rw,nosuid,nodev"):
    more = f"rw,size={size}k,nr_inodes={inodes}"
    more += f",mode={mode}" if mode else ""
    more += f",uid={owner},gid={owner}" if owner is not None else ""
    return "tmpfs", "/", flags, more


def kind_under(path):
    """The file system type of a host path."""
    best = ("", "")
    for line in text("self", "mountinfo").splitlines():
        left, right = line.split(" - ")
        target = left.split()[4]
        inside = str(path) == target or str(path).startswith(target.rstrip("/") + "/")
        if inside and len(target) >= len(best[0]):
            best = (target, right.split()[0])
    return best[1]


def root_within(path):
    """The path within its file system, as in mountinfo."""
    best = ("", "/")
    for line in text("self", "mountinfo").splitlines():
        root, target = line.split()[3:5]
        inside = str(path) == target or str(path).startswith(target.rstrip("/") + "/")
        if inside and len(target) >= len(best[0]):
            best = (target, root)
    rest = str(path)[len(best[0].rstrip("/")) :]
    return (best[1].rstrip("/") + rest) or "/"


def expected_mounts(workspace, first, memory_mb):
    """The expected result of `mounts` for a box of this host with this workspace."""
    quarter, half = memory_mb * 1024 // 4, memory_mb * 1024 // 2
    payload = first + PAYLOAD
    dev = "rw,size=64k,nr_inodes=64,mode=755"
    proc = "rw,hidepid=invisible"
    terminals = f"rw,uid={payload},gid={payload},mode=620,ptmxmode=666,max=64"
    device = ("devtmpfs", "rw,nosuid,noexec", None)
    wanted = {
        "/": tmpfs(4096, 4096, 755, first, "ro,nosuid,nodev"),
        "/etc": tmpfs(32768, 32768, 755, None, "ro,nosuid,nodev"),
        "/dev": ("tmpfs", "/", "ro,nosuid,noexec", dev),
        "/dev/pts": ("devpts", "/", "rw,nosuid,noexec", terminals),
        "/dev/shm": tmpfs(quarter, quarter // 4, None, first, "rw,nosuid,nodev,noexec"),
        "/proc": ("proc", "/", "rw,nosuid,nodev,noexec", proc),
        "/tmp": tmpfs(half, half // 4, None, first),
        "/run": tmpfs(16384, 4096, 755, payload),
        "/home/box": tmpfs(half, half // 4, 755, payload),
        "/workspace": (
            kind_under(workspace), root_within(workspace), "rw,nosuid,nodev,idmapped", None,
        ),
    }  # fmt: skip
    for name in SYSTEM:
        path = pathlib.Path("/", name)
        if path.is_dir() and not path.is_symlink():
            wanted[str(path)] = (kind_under(path), root_within(path), "ro,nosuid,nodev", None)
    for name in DEVICES:
        wanted[f"/dev/{name}"] = (device[0], f"/{name}", *device[1:])
    for name in FROZEN:
        wanted[f"/proc/{name}"] = ("proc", f"/{name}", "ro,nosuid,nodev,noexec", proc)
    for name in MASKS:
        path = pathlib.Path("/proc", name)
        if path.is_dir():
            wanted[str(path)] = ("tmpfs", "/empty", "ro,nosuid,noexec", dev)
        elif path.exists():
            wanted[str(path)] = (device[0], "/null", *device[1:])
    return wanted
