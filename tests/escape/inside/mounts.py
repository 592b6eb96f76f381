"""Attempts with mounts, roots and namespaces."""

import ctypes
import errno
import os
import signal
import struct

from frame import attempt, blocked, call, escaped, first_escape, try_call, name_of

MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE, MS_MOVE = 1, 32, 4096, 16384, 1 << 18, 8192
AT_FDCWD = -100
SPACES = {
    "user": 0x10000000,
    "mount": 0x00020000,
    "pid": 0x20000000,
    "net": 0x40000000,
    "ipc": 0x08000000,
    "uts": 0x04000000,
    "cgroup": 0x02000000,
    "time": 0x00000080,
}


def mounting(name, *arguments):
    @attempt("mounts", name)
    def _(facts):
        os.makedirs("/tmp/place", exist_ok=True)
        return try_call("mount", *arguments)


mounting("mount-proc", b"proc", b"/tmp/place", b"proc", 0, None)
mounting("mount-sysfs", b"sysfs", b"/tmp/place", b"sysfs", 0, None)
mounting("mount-tmpfs", b"tmpfs", b"/tmp/place", b"tmpfs", 0, None)
mounting("mount-devtmpfs", b"dev", b"/tmp/place", b"devtmpfs", 0, None)
mounting("mount-devpts", b"devpts", b"/tmp/place", b"devpts", 0, b"newinstance")
mounting("mount-cgroup", b"cgroup", b"/tmp/place", b"cgroup", 0, b"memory")
mounting("mount-cgroup2", b"cgroup2", b"/tmp/place", b"cgroup2", 0, None)
mounting("mount-overlay", b"o", b"/tmp/place", b"overlay", 0, b"lowerdir=/usr:/etc")
mounting("mount-fuse", b"f", b"/tmp/place", b"fuse", 0, b"fd=0,rootmode=40000,user_id=0,group_id=0")
mounting("mount-bind", b"/usr", b"/tmp/place", None, MS_BIND | MS_REC, None)
mounting("mount-move", b"/tmp", b"/workspace", None, MS_MOVE, None)
mounting("mount-over-etc", b"/tmp", b"/etc", None, MS_BIND, None)
mounting("remount-root-writable", None, b"/", None, MS_REMOUNT | MS_BIND, None)
mounting("remount-usr-writable", None, b"/usr", None, MS_REMOUNT | MS_BIND, None)
mounting("remount-proc-sys-writable", None, b"/proc/sys", None, MS_REMOUNT | MS_BIND, None)
mounting("remount-workspace-suid-dev", None, b"/workspace", None, MS_REMOUNT | MS_BIND, None)
mounting("change-propagation", None, b"/", None, MS_REC | 1 << 20, None)  # shared


@attempt("mounts", "umount-masks")
def _(facts):
    paths = (b"/proc/keys", b"/proc/interrupts", b"/proc/sys", b"/proc/kallsyms")
    return first_escape(try_call("umount2", path, flag) for path in paths for flag in (0, 2))


@attempt("mounts", "umount-everything")
def _(facts):
    paths = (b"/workspace", b"/tmp", b"/usr", b"/dev", b"/proc", b"/")
    return first_escape(try_call("umount2", path, 2) for path in paths)


@attempt("mounts", "pivot-root")
def _(facts):
    return try_call("pivot_root", b"/tmp", b"/tmp")


@attempt("mounts", "chroot")
def _(facts):
    """The first half of leaving a chroot."""
    return try_call("chroot", b"/tmp")


@attempt("mounts", "fsopen-proc-and-tmpfs")
def _(facts):
    return first_escape(
        try_call("fsopen", kind, 1) for kind in (b"proc", b"tmpfs", b"cgroup2", b"ext4")
    )


@attempt("mounts", "fsconfig-and-fsmount")
def _(facts):
    return first_escape([try_call("fsconfig", 0, 6, None, None, 0), try_call("fsmount", 0, 1, 0)])


@attempt("mounts", "fspick-root")
def _(facts):
    return try_call("fspick", AT_FDCWD, b"/", 1)


@attempt("mounts", "open-tree-clone")
def _(facts):
    return first_escape(
        [
            try_call("open_tree", AT_FDCWD, b"/", 1 | 0o2000000 | 0x8000),
            try_call("open_tree", AT_FDCWD, b"/", 0o2000000),
            try_call("open_tree_attr", AT_FDCWD, b"/", 0o2000000, None, 0),
        ]
    )


@attempt("mounts", "move-mount")
def _(facts):
    return try_call("move_mount", AT_FDCWD, b"/workspace", AT_FDCWD, b"/tmp", 0)


@attempt("mounts", "mount-setattr-writable")
def _(facts):
    attributes = ctypes.create_string_buffer(struct.pack("4Q", 0, 1 | 2 | 4, 0, 0))
    return first_escape(
        try_call("mount_setattr", AT_FDCWD, path, 0, attributes, 32)
        for path in (b"/", b"/usr", b"/etc")
    )


@attempt("mounts", "list-mounts-of-the-namespace")
def _(facts):
    request = ctypes.create_string_buffer(struct.pack("IIQQ", 24, 0, 2**64 - 1, 0))
    answer = ctypes.create_string_buffer(8 * 256)
    return try_call("listmount", request, answer, 256, 0)


@attempt("mounts", "open-by-handle")
def _(facts):
    """The "shocker" exploit: a handle of the root's inode, which is 2 on ext4."""
    handle = ctypes.create_string_buffer(struct.pack("IiII", 8, 1, 2, 0))
    fd = os.open("/usr", os.O_RDONLY)
    return try_call("open_by_handle_at", fd, handle, 0)


@attempt("mounts", "handle-of-a-file")
def _(facts):
    handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + b"\0" * 128)
    mount_id = ctypes.c_int()
    return try_call("name_to_handle_at", AT_FDCWD, b"/usr/bin", handle, mount_id, 0)


@attempt("mounts", "swap-a-mount-point-for-a-link")
def _(facts):
    """Mount points and their parents stay: later mounts cannot be redirected."""
    results = []
    for path in ("/workspace", "/tmp", "/run", "/home", "/home/box", "/etc", "/proc", "/dev/shm"):
        try:
            os.rename(path, path + "-moved")
            results.append(escaped(path))
        except OSError as error:
            results.append(blocked(name_of(error.errno)))
    return first_escape(results)


# Namespaces.


def spacing(name, flag):
    @attempt("namespaces", f"unshare-{name}")
    def _(facts):
        return try_call("unshare", flag)

    @attempt("namespaces", f"clone-{name}")
    def _(facts):
        result, number = call("clone", flag | int(signal.SIGCHLD), None, None, None, None)
        if result == 0:
            os._exit(0)
        if result > 0:
            os.waitpid(result, 0)
            return escaped("cloned")
        assert number in (errno.EPERM, errno.EINVAL), name_of(number)
        return blocked(name_of(number))


for key, value in SPACES.items():
    if key == "time":
        # In clone its bit belongs to the signal number.
        attempt("namespaces", "unshare-time")(lambda facts: try_call("unshare", SPACES["time"]))
    else:
        spacing(key, value)


@attempt("namespaces", "unshare-high-bits")
def _(facts):
    """Bits above 32 must not change the answer."""
    return first_escape(
        try_call("unshare", flag | 1 << 32)
        for flag in (SPACES["user"], SPACES["user"] | SPACES["net"])
    )


@attempt("namespaces", "clone-high-bits")
def _(facts):
    flags = SPACES["user"] | 1 << 32 | int(signal.SIGCHLD)
    result, number = call("clone", flags, None, None, None, None)
    if result == 0:
        os._exit(0)
    if result > 0:
        os.waitpid(result, 0)
        return escaped("cloned")
    assert number in (errno.EPERM, errno.EINVAL), name_of(number)
    return blocked(name_of(number))


@attempt("namespaces", "clone3-user")
def _(facts):
    """Its flags are behind a pointer, where no filter can see them."""
    arguments = ctypes.create_string_buffer(
        struct.pack("8Q", SPACES["user"], 0, 0, 0, int(signal.SIGCHLD), 0, 0, 0)
    )
    result, number = call("clone3", arguments, 64)
    if result == 0:
        os._exit(0)
    if result > 0:
        os.waitpid(result, 0)
        return escaped("cloned")
    assert number in (errno.ENOSYS, errno.EPERM), name_of(number)
    return blocked(name_of(number))


@attempt("namespaces", "clone3-plain")
def _(facts):
    """Refused also without a namespace flag, since the fd could be used for anything."""
    arguments = ctypes.create_string_buffer(
        struct.pack("8Q", 0, 0, 0, 0, int(signal.SIGCHLD), 0, 0, 0)
    )
    result, number = call("clone3", arguments, 64)
    if result == 0:
        os._exit(0)
    if result > 0:
        os.waitpid(result, 0)
        return escaped("cloned")
    assert number == errno.ENOSYS, name_of(number)
    return blocked(name_of(number))


@attempt("namespaces", "setns-own")
def _(facts):
    results = []
    for name in sorted(os.listdir("/proc/self/ns")):
        fd = os.open(f"/proc/self/ns/{name}", os.O_RDONLY)
        results.append(try_call("setns", fd, 0))
    return first_escape(results)


@attempt("namespaces", "setns-by-pidfd")
def _(facts):
    fd, number = call("pidfd_open", os.getppid(), 0)
    assert fd >= 0, name_of(number)
    return try_call("setns", fd, SPACES["mount"] | SPACES["net"] | SPACES["user"])


@attempt("namespaces", "parent-namespace-by-ioctl")
def _(facts):
    """NS_GET_USERNS, NS_GET_PARENT: a namespace above our own must not be returned."""
    import fcntl

    results = []
    for name in ("user", "pid", "net", "mnt"):
        fd = os.open(f"/proc/self/ns/{name}", os.O_RDONLY)
        for request in (0xB701, 0xB702):
            try:
                given = fcntl.ioctl(fd, request)
            except OSError as error:
                results.append(blocked(name_of(error.errno)))
                continue
            # The user namespace that owns the others is the box's own, which is no secret.
            same = os.fstat(given).st_ino == os.stat("/proc/self/ns/user").st_ino
            results.append(blocked("its own") if same else escaped(f"{name} {request:x}"))
    return first_escape(results)


@attempt("namespaces", "all-namespaces-differ-from-the-hosts")
def _(facts):
    results = []
    for name, inode in facts["host_namespaces"].items():
        mine = os.stat(f"/proc/self/ns/{name}").st_ino
        results.append(escaped(name) if mine == inode else blocked("differs"))
    return first_escape(results)


@attempt("namespaces", "see-the-hosts-name")
def _(facts):
    name = os.uname().nodename
    return escaped(name) if name == facts["hostname"] else blocked(name)


@attempt("namespaces", "read-the-hosts-shared-memory")
def _(facts):
    import frame

    number, why = call("shmget", facts["shm_key"], 0, 0)
    if number < 0:
        assert why in (errno.ENOENT, errno.ENOSYS), name_of(why)
        return blocked(name_of(why))
    frame.libc.shmat.restype = ctypes.c_void_p
    address = frame.libc.shmat(number, None, 0o10000)
    text = ctypes.string_at(address, 64)
    return escaped(text) if facts["secret"].encode() in text else blocked("another one")


@attempt("namespaces", "message-queues")
def _(facts):
    return first_escape(
        [try_call("msgget", 0x626F78, 0o1600), try_call("mq_open", b"box", 0o102, 0o600, None)]
    )
