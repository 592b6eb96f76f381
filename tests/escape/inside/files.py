"""Attempts on files: those of the host, outside of the workspace, the system's folders, device
files.
"""

import errno
import os
import stat

from frame import (
    FILE_REFUSALS,
    attempt,
    blocked,
    call,
    doing,
    escaped,
    first_escape,
    name_of,
    reading,
    writing,
)

WORKSPACE = "/workspace"
PROOF = "box-escape-proof"


@attempt("files", "read-by-absolute-path")
def _(facts):
    return reading(facts["secret_file"], facts["secret"])


@attempt("files", "read-by-symlink-in-workspace")
def _(facts):
    link = f"{WORKSPACE}/link-to-secret"
    os.symlink(facts["secret_file"], link)
    try:
        return reading(link, facts["secret"])
    finally:
        os.unlink(link)


@attempt("files", "read-by-symlink-that-the-host-made")
def _(facts):
    return reading(f"{WORKSPACE}/host-made-link", facts["secret"])


@attempt("files", "read-by-dot-dot-from-workspace")
def _(facts):
    up = "../" * 40
    relative = os.path.relpath(facts["secret_file"], facts["workspace"])
    return first_escape(
        reading(f"{WORKSPACE}/{way}", facts["secret"])
        for way in (relative, up + facts["secret_file"].lstrip("/"))
    )


@attempt("files", "dot-dot-by-open-folder")
def _(facts):
    """The way up from an open folder ends at the root of the box."""
    fd = os.open(WORKSPACE, os.O_RDONLY)
    for _ in range(60):
        above = os.open("..", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = above
    names = set(os.listdir(fd))
    path = facts["secret_file"].lstrip("/")
    try:
        with open(os.open(path, os.O_RDONLY, dir_fd=fd)) as file:
            return escaped(f"read {file.read(40)!r}")
    except OSError as error:
        assert "workspace" in names and "proc" in names, names
        return blocked(name_of(error.errno))


@attempt("files", "rename-workspace-folder-while-inside")
def _(facts):
    """The classic way out of a chroot: be in a folder that is moved out of the root."""
    top = f"{WORKSPACE}/moved-{os.getpid()}"
    os.makedirs(f"{top}/a/b")
    fd = os.open(f"{top}/a/b", os.O_RDONLY)
    os.rename(f"{top}/a/b", f"{WORKSPACE}/b-{os.getpid()}")
    os.fchdir(fd)
    try:
        os.chdir("../" * 50)
        return reading(facts["secret_file"].lstrip("/"), facts["secret"])
    finally:
        os.chdir("/")
        os.rmdir(f"{WORKSPACE}/b-{os.getpid()}")
        os.removedirs(f"{top}/a")


@attempt("files", "hardlink-out-of-workspace")
def _(facts):
    link = f"{WORKSPACE}/hard"
    result = first_escape(
        doing(os.link, path, link, refusals=(*FILE_REFUSALS, errno.EXDEV))
        for path in (facts["secret_file"], "/usr/bin/env", "/etc/passwd", "/proc/self/exe")
    )
    return result


@attempt("files", "rename-into-workspace-from-usr")
def _(facts):
    return doing(
        os.rename,
        "/usr/bin/env",
        f"{WORKSPACE}/env",
        refusals=(*FILE_REFUSALS, errno.EXDEV),
    )


@attempt("files", "read-host-shadow")
def _(facts):
    return first_escape(reading(path) for path in ("/etc/shadow", "/etc/gshadow", "/etc/sudoers"))


@attempt("files", "read-private-keys")
def _(facts):
    """The box's own /etc has nothing that only root may read."""
    found = []
    for folder, _, names in os.walk("/etc"):
        for name in names:
            if name.endswith((".key", "-key.pem", ".p12")) or "private" in folder:
                found.append(reading(f"{folder}/{name}"))
    return first_escape(found) if found else blocked("there is none")


@attempt("files", "read-roots-home")
def _(facts):
    return doing(os.listdir, "/root")


@attempt("files", "list-homes-of-the-host")
def _(facts):
    names = os.listdir("/home")
    return blocked("only box") if names == ["box"] else escaped(names)


@attempt("files", "list-the-hosts-tmp")
def _(facts):
    name = os.path.basename(facts["folder"])
    return escaped("there") if name in os.listdir("/tmp") else blocked("not there")


@attempt("files", "list-the-hosts-var-and-run")
def _(facts):
    strange = set(os.listdir("/var/lib")) | set(os.listdir("/var/log")) | set(os.listdir("/run"))
    strange -= {"lock"}
    return escaped(sorted(strange)[:5]) if strange else blocked("empty")


@attempt("files", "see-boot-or-media-or-sys")
def _(facts):
    return first_escape(doing(os.listdir, path) for path in ("/boot", "/media", "/sys"))


def create(path):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    os.write(fd, b"x")
    os.close(fd)
    return path


@attempt("files", "write-to-the-root")
def _(facts):
    return doing(create, f"/{PROOF}")


@attempt("files", "write-to-usr")
def _(facts):
    return first_escape(
        doing(create, f"{folder}/{PROOF}")
        for folder in ("/usr", "/usr/bin", "/usr/local", "/usr/local/bin", "/usr/lib", "/usr/share")
    )


@attempt("files", "overwrite-a-program-of-the-host")
def _(facts):
    return first_escape(
        writing(path, b"", flags=os.O_APPEND) for path in ("/usr/bin/env", "/bin/sh", "/usr/bin/id")
    )


@attempt("files", "write-to-etc")
def _(facts):
    return first_escape(
        [doing(create, f"/etc/{PROOF}")]
        + [writing(f"/etc/{name}", b"x") for name in ("passwd", "hosts", "resolv.conf", "profile")]
    )


@attempt("files", "truncate-a-file-of-etc")
def _(facts):
    return doing(os.truncate, "/etc/hosts", 0)


@attempt("files", "chmod-and-touch-the-system")
def _(facts):
    results = []
    for path in ("/", "/usr", "/etc", "/usr/bin/env", "/dev/null"):
        results.append(doing(os.chmod, path, 0o777))
        results.append(doing(os.utime, path, (0, 0)))
    return first_escape(results)


@attempt("files", "give-a-file-to-the-hosts-root")
def _(facts):
    owner_refusals = (errno.EPERM, errno.EINVAL, errno.EOVERFLOW)
    path = f"{WORKSPACE}/gift"
    create(path)
    try:
        return first_escape(
            doing(os.chown, path, owner, owner, refusals=owner_refusals)
            for owner in (0, 1, 1001, 65534, 2**31)
        )
    finally:
        os.unlink(path)


def set_id(name, action):
    path = f"{WORKSPACE}/{name}"
    create(path)
    try:
        result = doing(action, path, refusals=(errno.EPERM,))
        mode = os.stat(path).st_mode
        return escaped(oct(mode)) if mode & (stat.S_ISUID | stat.S_ISGID) else result
    finally:
        os.unlink(path)


@attempt("files", "make-a-setuid-file-by-chmod")
def _(facts):
    return set_id("by-chmod", lambda path: os.chmod(path, 0o4755))


@attempt("files", "make-a-setgid-file-by-fchmod")
def _(facts):
    def change(path):
        fd = os.open(path, os.O_RDWR)
        os.fchmod(fd, 0o2755)

    return set_id("by-fchmod", change)


@attempt("files", "make-a-setuid-file-by-fchmodat2")
def _(facts):
    def change(path):
        result, number = call("fchmodat2", -100, path.encode(), 0o4755, 0)
        if result < 0:
            raise OSError(number, "fchmodat2")

    return set_id("by-fchmodat2", change)


@attempt("files", "make-a-setuid-file-by-open")
def _(facts):
    def make(path):
        os.unlink(path)
        os.umask(0)
        try:
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o4755))
        except OSError:
            create(path)
            raise

    return set_id("by-open", make)


@attempt("files", "make-a-setuid-file-by-mknod")
def _(facts):
    def make(path):
        os.unlink(path)
        os.umask(0)
        try:
            os.mknod(path, stat.S_IFREG | 0o4755)
        except OSError:
            create(path)
            raise

    return set_id("by-mknod", make)


@attempt("files", "make-a-setgid-folder")
def _(facts):
    path = f"{WORKSPACE}/set-gid-folder"
    os.umask(0)
    os.mkdir(path, 0o2777)  # mkdir itself has never set this bit
    try:
        result = doing(os.chmod, path, 0o2777, refusals=(errno.EPERM,))
        return escaped("set") if os.stat(path).st_mode & stat.S_ISGID else result
    finally:
        os.rmdir(path)


@attempt("files", "give-a-file-capabilities")
def _(facts):
    path = f"{WORKSPACE}/capable"
    create(path)
    # version 2, effective, CAP_SYS_ADMIN permitted
    value = bytes.fromhex("0100000200002000000000000000000000000000")
    try:
        return doing(os.setxattr, path, "security.capability", value, refusals=(errno.EPERM,))
    finally:
        os.unlink(path)


@attempt("files", "write-trusted-attributes")
def _(facts):
    path = f"{WORKSPACE}/trusted"
    create(path)
    refusals = (errno.EPERM, errno.EOPNOTSUPP)
    try:
        return first_escape(
            doing(os.setxattr, path, name, b"x", refusals=refusals)
            for name in ("trusted.box", "trusted.overlay.opaque", "security.box")
        )
    finally:
        os.unlink(path)


@attempt("files", "make-a-file-immutable")
def _(facts):
    import array
    import fcntl

    path = f"{WORKSPACE}/immutable"
    create(path)
    fd = os.open(path, os.O_RDONLY)
    flags = array.array("L", [0x10])
    refusals = (errno.EPERM, errno.EACCES, errno.ENOTTY, errno.EOPNOTSUPP)
    try:
        return doing(fcntl.ioctl, fd, 0x40086602, flags, refusals=refusals)
    finally:
        os.unlink(path)


# Devices.


@attempt("devices", "mknod-of-every-kind")
def _(facts):
    kinds = [
        (stat.S_IFCHR, 1, 1),  # mem
        (stat.S_IFCHR, 1, 11),  # kmsg
        (stat.S_IFCHR, 1, 5),  # zero
        (stat.S_IFCHR, 10, 200),  # tun
        (stat.S_IFCHR, 10, 232),  # kvm
        (stat.S_IFBLK, 8, 0),
        (stat.S_IFBLK, 254, 0),
    ]
    results = []
    for kind, major, minor in kinds:
        for folder in (WORKSPACE, "/tmp", "/dev/shm"):
            path = f"{folder}/node"
            results.append(doing(os.mknod, path, kind | 0o666, os.makedev(major, minor)))
    return first_escape(results)


@attempt("devices", "mknod-of-a-whiteout")
def _(facts):
    return doing(os.mknod, f"{WORKSPACE}/whiteout", stat.S_IFCHR | 0o666, 0)


@attempt("devices", "open-a-device-that-the-host-left-in-the-folder")
def _(facts):
    return first_escape(
        reading(f"{WORKSPACE}/{name}", size=16) for name in ("host-zero", "host-random")
    )


@attempt("devices", "open-disks")
def _(facts):
    names = facts["disks"]
    return first_escape(reading(f"/dev/{name}", size=512) for name in (*names, "sda", "loop0"))


@attempt("devices", "open-memory-and-ports")
def _(facts):
    names = ("mem", "kmem", "port", "kmsg", "nvram", "cpu/0/msr", "core")
    return first_escape(reading(f"/dev/{name}", size=16) for name in names)


@attempt("devices", "open-kvm-tun-fuse")
def _(facts):
    names = ("kvm", "net/tun", "fuse", "vhost-net", "vhost-vsock", "loop-control", "userfaultfd")
    return first_escape(
        doing(os.open, f"/dev/{name}", os.O_RDWR, refusals=FILE_REFUSALS) for name in names
    )


@attempt("devices", "open-consoles")
def _(facts):
    names = ("console", "tty0", "tty1", "ttyS0", "vcs", "vcsa", "input/event0", "hvc0")
    return first_escape(doing(os.open, f"/dev/{name}", os.O_RDWR) for name in names)


@attempt("devices", "only-the-devices-that-are-declared")
def _(facts):
    declared = {"null", "zero", "full", "random", "urandom", "tty", "pts", "shm"}
    declared |= {"empty", "fd", "stdin", "stdout", "stderr", "ptmx"}
    strange = set(os.listdir("/dev")) - declared
    return escaped(sorted(strange)) if strange else blocked("none other")


@attempt("devices", "make-files-in-dev")
def _(facts):
    return doing(create, f"/dev/{PROOF}")


@attempt("devices", "replace-dev-null")
def _(facts):
    return first_escape(
        [doing(os.unlink, "/dev/null", refusals=(*FILE_REFUSALS, errno.EBUSY))]
        + [doing(os.rename, "/dev/zero", "/dev/null", refusals=(*FILE_REFUSALS, errno.EBUSY))]
        + [doing(os.chmod, "/dev/null", 0o600)]
    )


@attempt("devices", "add-entropy-to-the-hosts-pool")
def _(facts):
    import fcntl

    results = []
    for name in ("random", "urandom"):
        fd = os.open(f"/dev/{name}", os.O_RDWR)
        for request in (0x40085203, 0x5204, 0x5206, 0x5207):  # add, zap, clear, reseed
            refusals = (errno.EPERM, errno.EACCES, errno.EINVAL, errno.ENOTTY)
            results.append(doing(fcntl.ioctl, fd, request, b"\0" * 8, refusals=refusals))
    return first_escape(results)
