"""Attempts with sockets: families, options, sockets of the host, and boxd's own port."""

import errno
import os
import socket
import struct

from frame import attempt, blocked, doing, escaped, first_escape, try_call, name_of

FAMILIES = {
    "packet": (17, 3, 0x0300),
    "packet-dgram": (17, 2, 0x0300),
    "alg": (38, 5, 0),
    "vsock": (40, 1, 0),
    "key": (15, 3, 2),
    "bluetooth": (31, 3, 1),
    "can": (29, 3, 1),
    "tipc": (30, 2, 0),
    "rds": (21, 5, 0),
    "rxrpc": (33, 2, 2),
    "xdp": (44, 3, 0),
    "smc": (43, 1, 0),
    "nfc": (39, 1, 0),
    "ax25": (3, 2, 0),
    "x25": (9, 5, 0),
    "appletalk": (5, 2, 0),
    "raw-icmp": (2, 3, 1),
    "raw-ip": (2, 3, 255),
    "raw-icmpv6": (10, 3, 58),
    "ping": (2, 2, 1),
    "sctp": (2, 1, 132),
    "dccp": (2, 6, 33),
    "mptcp": (2, 1, 262),
    "udplite": (2, 2, 136),
    "l2tp": (2, 2, 115),
    "packet-of-old": (2, 10, 0x0300),
}
NETLINK = {
    "netfilter": 12,
    "audit": 9,
    "uevent": 15,
    "generic": 16,
    "xfrm": 6,
    "crypto": 21,
    "sock-diag": 4,
    "connector": 11,
    "selinux": 7,
    "iscsi": 8,
    "fib-lookup": 10,
    "rdma": 20,
}
REFUSALS = (errno.EAFNOSUPPORT, errno.EPERM)


def family(name, arguments):
    @attempt("sockets", f"family-{name}")
    def _(facts):
        return try_call("socket", *arguments, refusals=REFUSALS)


for key, value in FAMILIES.items():
    family(key, value)
for key, value in NETLINK.items():
    family(f"netlink-{key}", (16, 3, value))


@attempt("sockets", "family-with-high-bits")
def _(facts):
    """The kernel uses 32 bits only, so the filter must, too."""
    return first_escape(
        try_call("socket", family | 1 << 32, kind | 1 << 32, protocol | 1 << 32, refusals=REFUSALS)
        for family, kind, protocol in ((38, 5, 0), (40, 1, 0), (16, 3, 12), (17, 3, 0x0300))
    )


@attempt("sockets", "socketpair-of-other-families")
def _(facts):
    import ctypes

    pair = (ctypes.c_int * 2)()
    return first_escape(
        try_call(53, family, kind, 0, pair, refusals=REFUSALS)
        for family, kind in ((30, 2), (30, 5), (2, 1), (16, 3))
    )


def connected():
    server = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(server.getsockname(), 5)
    return client, server


@attempt("sockets", "kernel-tls")
def _(facts):
    client, server = connected()
    refusals = (errno.ENOPROTOOPT,)
    return first_escape(
        [
            doing(client.setsockopt, 6, 31, b"tls", refusals=refusals),
            doing(client.setsockopt, 6, 31, b"espintcp", refusals=refusals),
            doing(client.setsockopt, 6, 31, b"smc", refusals=refusals),
        ]
    )


@attempt("sockets", "kernel-tls-with-high-bits")
def _(facts):
    client, server = connected()
    refusals = (errno.ENOPROTOOPT,)
    return try_call(54, client.fileno(), 6 | 1 << 32, 31 | 1 << 32, b"tls", 3, refusals=refusals)


@attempt("sockets", "attach-a-packet-filter-of-bpf")
def _(facts):
    """SO_ATTACH_BPF needs a BPF program, which cannot be loaded."""
    own = socket.socketpair()[0]
    return doing(own.setsockopt, 1, 50, struct.pack("i", 0), refusals=(errno.ENOPROTOOPT,))


@attempt("sockets", "mark-packets")
def _(facts):
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    refusals = (errno.EPERM, errno.ENOPROTOOPT)
    results = [doing(sock.setsockopt, 1, 36, 1, refusals=refusals)]  # SO_MARK
    results.append(doing(sock.setsockopt, 1, 33, 1 << 30, refusals=refusals))  # RCVBUFFORCE
    results.append(doing(sock.setsockopt, 0, 19, 1, refusals=refusals))  # IP_TRANSPARENT
    return first_escape(results)


@attempt("sockets", "iptables-of-the-namespace")
def _(facts):
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    refusals = (errno.EPERM, errno.ENOPROTOOPT)
    return first_escape(
        doing(sock.getsockopt, 0, option, 84, refusals=refusals) for option in (64, 65)
    )


@attempt("sockets", "change-interfaces-by-netlink")
def _(facts):
    """Reading routes is allowed, changing them is not: this sets lo down."""
    try:
        sock = socket.socket(16, 3, 0)
    except OSError as error:
        assert error.errno == errno.EAFNOSUPPORT, error
        return blocked("no netlink")
    body = struct.pack("BxHiII", 0, 0, 1, 0, 1)
    sock.send(struct.pack("IHHII", 16 + len(body), 16, 5, 1, 0) + body)
    answer = sock.recv(4096)
    number = -struct.unpack_from("i", answer, 16)[0]
    return escaped("lo is down") if number == 0 else blocked(name_of(number))


@attempt("sockets", "change-interfaces-by-ioctl")
def _(facts):
    import fcntl

    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    request = struct.pack("16sH14x", b"lo", 0)
    return doing(fcntl.ioctl, sock, 0x8914, request, refusals=(errno.EPERM, errno.ENOTTY))


@attempt("sockets", "interfaces-of-the-host")
def _(facts):
    with open("/proc/net/dev") as file:
        names = {line.split(":")[0].strip() for line in file if ":" in line}
    strange = names & set(facts["interfaces"]) - {"lo"}
    return escaped(sorted(strange)) if strange else blocked(", ".join(sorted(names)))


@attempt("sockets", "low-ports")
def _(facts):
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    return doing(sock.bind, ("0.0.0.0", 80), refusals=(errno.EACCES,))


UNREACHED = (
    errno.ECONNREFUSED,
    errno.ENETUNREACH,
    errno.EHOSTUNREACH,
    errno.ENOENT,
    errno.EACCES,
    errno.EPERM,
    errno.EADDRNOTAVAIL,
    errno.EAFNOSUPPORT,
    errno.EINVAL,
)


def says(address, family=socket.AF_INET, text=b"GET / HTTP/1.0\r\n\r\n", wanted=None):
    """Connects and reads: an escape if something answers (`wanted`, if given)."""
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.settimeout(1.5)
    try:
        sock.connect(address)
        if text:
            sock.sendall(text)
        heard = sock.recv(200)
    except TimeoutError:
        return blocked("timeout")
    except OSError as error:
        if error.errno not in (*UNREACHED, errno.ECONNRESET):
            raise
        return blocked(name_of(error.errno))
    if wanted is not None and wanted.encode() not in heard:
        return blocked(f"somebody else: {heard[:20]!r}")
    return escaped(f"heard {heard[:40]!r}")


@attempt("sockets", "abstract-socket-of-the-host")
def _(facts):
    return says("\0" + facts["abstract"], socket.AF_UNIX, None, facts["secret"])


@attempt("sockets", "socket-file-of-the-host")
def _(facts):
    return says(facts["socket_file"], socket.AF_UNIX, None, facts["secret"])


@attempt("sockets", "control-sockets-of-others")
def _(facts):
    paths = (
        "/run/docker.sock",
        "/var/run/docker.sock",
        "/run/containerd/containerd.sock",
        "/run/dbus/system_bus_socket",
        "/run/systemd/private",
        "/run/podman/podman.sock",
        "/run/user/0/bus",
        "/tmp/.X11-unix/X0",
    )
    return first_escape(says(path, socket.AF_UNIX) for path in paths)


@attempt("sockets", "udp-to-the-hosts-loopback")
def _(facts):
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.settimeout(1)
    try:
        sock.connect(("127.0.0.1", facts["udp_port"]))
        sock.send(b"hello")
        heard = sock.recv(200)
    except OSError as error:
        return blocked(name_of(error.errno) if error.errno else "timeout")
    return escaped(heard) if facts["secret"].encode() in heard else blocked("somebody else")


# Our own port.

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"


def own_port(name, *addresses, family=socket.AF_INET):
    @attempt("port", name)
    def _(facts):
        return first_escape(says((address, facts["port"]), family, HEALTH) for address in addresses)


own_port("127.0.0.1", "127.0.0.1")
own_port("127.8.9.10", "127.8.9.10", "127.255.255.254")
own_port("0.0.0.0", "0.0.0.0")
own_port("localhost-by-name", "localhost")
own_port("old-forms-of-loopback", "127.1", "2130706433", "0x7f000001")
own_port("ipv6-loopback", "::1", family=socket.AF_INET6)
own_port("ipv6-any", "::", family=socket.AF_INET6)
own_port("ipv4-mapped-loopback", "::ffff:127.0.0.1", family=socket.AF_INET6)
own_port("ipv4-mapped-any", "::ffff:0.0.0.0", family=socket.AF_INET6)
own_port("nat64-loopback", "64:ff9b::7f00:1", family=socket.AF_INET6)
own_port("gateways-of-user-networks", "10.0.2.2", "192.168.127.1", "172.17.0.1")
own_port("metadata", "169.254.169.254", "100.100.100.200")


@attempt("port", "addresses-of-the-host")
def _(facts):
    return first_escape(
        says((address, facts["port"]), text=HEALTH) for address in facts["addresses"]
    )


@attempt("port", "ipv4-mapped-addresses-of-the-host")
def _(facts):
    return first_escape(
        says((f"::ffff:{address}", facts["port"]), socket.AF_INET6, HEALTH)
        for address in facts["addresses"]
    )


@attempt("port", "wait-where-boxd-listens")
def _(facts):
    """Binding the port inside affects nothing outside: only clients in the box connect to it."""
    server = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    server.bind(("0.0.0.0", facts["port"]))
    server.listen()
    server.settimeout(0.5)
    os.close(os.open("/workspace/listening", os.O_CREAT | os.O_WRONLY))
    try:
        _, peer = server.accept()
        return escaped(peer)
    except TimeoutError:
        return blocked("nobody came")
    finally:
        os.unlink("/workspace/listening")
