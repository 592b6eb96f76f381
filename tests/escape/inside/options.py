"""Attempts by options of setsockopt, prctl, fcntl and ioctl, by huge pages and by filters.

Each has arguments that the kernel would accept from anyone who may make the call.
"""

import ctypes
import errno
import fcntl
import os
import socket
import struct

from frame import attempt, blocked, call, doing, escaped, first_escape, try_call

NO_OPTION = (errno.ENOPROTOOPT,)
RETURN = struct.pack("HBBI", 6, 0, 0, 0xFFFF)  # a program of BPF that takes the whole packet


def setting(kind, level, option, value, family=socket.AF_INET):
    sock = socket.socket(family, kind)
    return doing(sock.setsockopt, level, option, value, refusals=NO_OPTION)


def program(count=1):
    """A struct sock_fprog, and what it points to."""
    text = ctypes.create_string_buffer(RETURN * count)
    return struct.pack("HxxxxxxQ", count, ctypes.addressof(text)), text


# Sockets.


@attempt("sockets", "attach-a-packet-filter")
def _(facts):
    value, text = program()
    return first_escape(
        setting(kind, 1, 26, value) for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM)
    )


@attempt("sockets", "attach-a-packet-filter-with-high-bits")
def _(facts):
    """The kernel uses 32 bits only, so the filter must, too."""
    value, text = program()
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    buffer = ctypes.create_string_buffer(value, len(value))
    number = 54
    return try_call(
        number, sock.fileno(), 1 | 1 << 32, 26 | 1 << 32, buffer, len(value), refusals=NO_OPTION
    )


@attempt("sockets", "choose-listeners-by-a-packet-filter")
def _(facts):
    """SO_ATTACH_REUSEPORT_CBPF."""
    value, text = program()
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    sock.bind(("127.0.0.1", 0))
    return doing(sock.setsockopt, 1, 51, value, refusals=NO_OPTION)


@attempt("sockets", "udp-encapsulation")
def _(facts):
    """UDP_ENCAP: ESP in both forms, L2TP, GTP, RxRPC, ESP in TCP."""
    return first_escape(setting(socket.SOCK_DGRAM, 17, 100, kind) for kind in range(1, 8))


@attempt("sockets", "udp-in-large-pieces")
def _(facts):
    """UDP_SEGMENT and UDP_GRO."""
    return first_escape(setting(socket.SOCK_DGRAM, 17, option, 1) for option in (103, 104))


@attempt("sockets", "tcp-md5-signatures")
def _(facts):
    address = struct.pack("=HH4s120x", socket.AF_INET, 0, socket.inet_aton("127.0.0.1"))
    key = address + struct.pack("=BBHI80s", 0, 0, 3, 0, b"key")
    return first_escape(setting(socket.SOCK_STREAM, 6, option, key) for option in (14, 32))


@attempt("sockets", "tcp-authentication-option")
def _(facts):
    keys = bytes(288)
    return first_escape(setting(socket.SOCK_STREAM, 6, option, keys) for option in (38, 39, 40))


@attempt("sockets", "busy-poll")
def _(facts):
    return first_escape(setting(socket.SOCK_DGRAM, 1, option, 0) for option in (46, 69))


@attempt("sockets", "timestamps-of-all-packets-of-the-host")
def _(facts):
    options = ((29, 1), (35, 1), (37, 1 << 3))
    return first_escape(setting(socket.SOCK_DGRAM, 1, *option) for option in options)


@attempt("sockets", "send-pages-from-where-they-lie")
def _(facts):
    return setting(socket.SOCK_STREAM, 1, 60, 1)


@attempt("sockets", "netlink-with-the-network-off")
def _(facts):
    """Its buffers are memory that is charged to no cgroup."""
    return first_escape(
        try_call("socket", 16, kind, 0, refusals=(errno.EAFNOSUPPORT,)) for kind in (2, 3)
    )


# Our own filters: memory with one limit for the whole host.


@attempt("resources", "filters-by-the-hundred")
def _(facts):
    """With the call and with prctl; no_new_privs is set for commands."""
    text = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7FFF0000) * 4096)
    value = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 4096, ctypes.addressof(text)))
    return first_escape(
        [
            try_call(317, 1, 0, value, refusals=(errno.EINVAL,)),
            try_call("prctl", 22, 2, value, refusals=(errno.EINVAL,)),
        ]
    )


# Huge pages: a pool of the host's. None is touched, so the pool may be empty.

HUGE = 2 << 20


@attempt("resources", "huge-pages-by-mmap")
def _(facts):
    return first_escape(
        try_call(9, 0, HUGE, 3, flags, -1, 0, refusals=(errno.ENOMEM,))
        for flags in (0x44022, 0x44022 | 21 << 26, 1 << 32 | 0x44022)
    )


@attempt("resources", "huge-pages-by-memfd")
def _(facts):
    return first_escape(
        try_call(319, b"huge", flags, refusals=(errno.EINVAL,)) for flags in (4, 5, 4 | 21 << 26)
    )


@attempt("resources", "huge-pages-by-shared-memory")
def _(facts):
    result, number = call("shmget", 0, HUGE, 0o1600 | 0o4000 | 0o10000)
    if result < 0:
        assert number in (errno.ENOMEM, errno.ENOSYS, errno.EPERM), number
        return blocked(errno.errorcode[number])
    call(31, result, 0, None)  # removed
    return escaped("a segment of huge pages")


# prctl.


def option(name, *arguments):
    @attempt("syscalls", f"prctl-{name}")
    def _(facts):
        return try_call("prctl", *arguments, refusals=(errno.EINVAL,))


option("answer-calls-by-oneself", 59, 0, 0, 0, 0)
option("hash-table-of-futexes", 78, 2, 0, 0, 0)
option("merge-pages-with-those-of-others", 67, 0, 0, 0, 0)
option("timestamp-counter", 26, 1, 0, 0, 0)
option("core-scheduling", 62, 1, 0, 0, 0)
option("let-others-trace", 0x59616D61, 0, 0, 0, 0)


@attempt("syscalls", "prctl-names-of-mappings")
def _(facts):
    """Memory that is charged to no cgroup, for each mapping."""
    address, _ = call(9, 0, 4096, 3, 0x22, -1, 0)
    return try_call("prctl", 0x53564D41, 0, address, 4096, b"box-escape", refusals=(errno.EINVAL,))


# fcntl.


def own_file(name):
    fd = os.open(f"/workspace/{name}", os.O_RDWR | os.O_CREAT, 0o644)
    os.unlink(f"/workspace/{name}")
    return fd


@attempt("files", "lease-on-a-file-of-a-host-folder")
def _(facts):
    """Any process of the host that opens the file would wait for us, including boxd."""
    fd = own_file("leased")
    return first_escape(
        doing(fcntl.fcntl, fd, 1024, kind, refusals=(errno.EINVAL,)) for kind in (fcntl.F_WRLCK, 0)
    )


@attempt("files", "notice-of-changes-by-fcntl")
def _(facts):
    fd = os.open("/workspace", os.O_RDONLY | os.O_DIRECTORY)
    return doing(fcntl.fcntl, fd, 1026, 0x1, refusals=(errno.EINVAL,))


# ioctl.

NO_REQUEST = (errno.ENOTTY,)


@attempt("syscalls", "ioctl-flags-of-files")
def _(facts):
    """FS_IOC_GETFLAGS, _SETFLAGS and the older pair of XFS."""
    fd = own_file("flags")
    requests = ((0x80086601, 8), (0x40086602, 8), (0x801C581F, 28))
    return first_escape(
        doing(fcntl.ioctl, fd, request, bytes(size), refusals=NO_REQUEST)
        for request, size in requests
    )


@attempt("syscalls", "ioctl-where-files-lie-on-the-disk")
def _(facts):
    return doing(fcntl.ioctl, own_file("extents"), 0xC020660B, bytes(56), refusals=NO_REQUEST)


@attempt("syscalls", "ioctl-namespaces-by-pidfd")
def _(facts):
    pidfd, number = call("pidfd_open", os.getpid(), 0)
    if pidfd < 0:
        return blocked(errno.errorcode[number])
    return first_escape(
        try_call("ioctl", pidfd, 0xFF00 | which, 0, refusals=NO_REQUEST) for which in range(1, 11)
    )


@attempt("syscalls", "ioctl-owners-of-namespaces")
def _(facts):
    """NS_GET_USERNS, NS_GET_NSTYPE, NS_GET_OWNER_UID."""
    owner = ctypes.c_uint32()
    fd = os.open("/proc/self/ns/user", os.O_RDONLY)
    return first_escape(
        try_call("ioctl", fd, request, owner, refusals=NO_REQUEST) for request in (0xB703, 0xB704)
    )


@attempt("syscalls", "ioctl-of-drivers-of-interfaces")
def _(facts):
    """SIOCETHTOOL, which asks the driver for its name."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    answer = ctypes.create_string_buffer(struct.pack("I", 3), 256)
    request = struct.pack("16sQ16x", b"lo", ctypes.addressof(answer))
    return doing(fcntl.ioctl, sock, 0x8946, request, refusals=(errno.EOPNOTSUPP,))
