"""Host resources besides memory, processes and processor time that a box can use up.

Each test takes all it can in one box, then checks what is left for root on the host and for another
tenant's box.
"""

import contextlib
import ctypes
import os
import pathlib
import re
import signal
import time

import pytest

import boxdlib
import nativelib
from boxdlib import is_alive, wait_until
from leftoverlib import network_possible

libc = ctypes.CDLL(None, use_errno=True)
PYTHON = "/usr/bin/python3 -s -E"
MIB = 1 << 20
GONE_SECONDS = 2.0

TAKE_INOTIFY = """
import ctypes, os, time
libc, count = ctypes.CDLL(None), 0
while libc.inotify_init() >= 0: count += 1
print(count, flush=True)
"""
TAKE_TIMERS = """
import ctypes, time
libc, count, timer = ctypes.CDLL(None), 0, ctypes.c_int()
while count < 80000 and libc.timer_create(1, None, ctypes.byref(timer)) == 0: count += 1
print(count, flush=True)
"""
TAKE_UDP = """
import socket, time
held = []
for _ in range(900):
    taker, giver = (socket.socket(2, 2) for _ in "ab")
    taker.setsockopt(1, 8, 1 << 22)
    taker.bind(("127.0.0.1", 0))
    giver.setblocking(False)
    held.append(taker)
    try:
        for _ in range(300): giver.sendto(b"x" * 1400, taker.getsockname())
    except OSError: pass
print(len(held), flush=True)
"""
TAKE_TCP = """
import socket
held, listener = [], socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen(100)
for _ in range(80):
    giver = socket.create_connection(listener.getsockname())
    taker = listener.accept()[0]
    held += [giver, taker]
    giver.setblocking(False)
    giver.setsockopt(1, 7, 1 << 22)
    taker.setsockopt(1, 8, 1 << 22)
    try:
        while True: giver.send(b"x" * 65536)
    except OSError: pass
print(len(held), flush=True)
"""
TAKE_NETLINK = """
import socket, struct
ask = struct.pack("IHHII", 20, 18, 0x301, 1, 0) + bytes(4)
held = []
while len(held) < 900:
    one = socket.socket(16, 3, 0)
    one.setblocking(False)
    held.append(one)
    try:
        for _ in range(400): one.send(ask)
    except OSError: pass
import time
time.sleep(20)
"""


# Fills the sender's error queue: ICMP errors, and packets with requested send timestamps.
TAKE_ERRORS = """
import socket, struct
asked, held = [(1, 37, struct.pack("I", 2))], []
sink = socket.socket(2, 2)
sink.bind(("127.0.0.1", 0))
sink.setsockopt(1, 8, 1)
while len(held) < 600:
    one = socket.socket(2, 2)
    one.setsockopt(1, 8, 1 << 22)
    one.setsockopt(0, 11, 1)
    one.setblocking(False)
    held.append(one)
    for _ in range(400):
        try:
            if WAY: one.sendmsg([bytes(900)], asked, 0, sink.getsockname())
            else: one.sendto(b"", ("127.0.0.1", 9))
        except OSError: pass
import time
time.sleep(20)
"""

# The same in TCP, and in sockets that are in no list any more after a connect to AF_UNSPEC.
TAKE_TCP_ERRORS = """
import ctypes, socket, struct, time
asked, held, libc = [(1, 37, struct.pack("I", 2))], [], ctypes.CDLL(None)
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen(10)
while len(held) < 960:
    giver = socket.create_connection(listener.getsockname())
    taker = listener.accept()[0]
    giver.setsockopt(1, 8, 1 << 22)
    giver.setsockopt(1, 18, 1 << 30)
    giver.setsockopt(6, 1, 1)
    giver.setblocking(False)
    taker.setblocking(False)
    held += [giver, taker]
    for _ in range(300):
        try: giver.sendmsg([bytes(900)], asked)
        except OSError: pass
        try: taker.recv(1 << 20)
        except OSError: pass
    if HIDE:
        taker.close()
        libc.connect(giver.fileno(), bytes(16), 16)
time.sleep(20)
"""
TAKE_UNLISTED_UDP = """
import ctypes, socket, struct, time
asked, held, libc = [(1, 37, struct.pack("I", 2))], [], ctypes.CDLL(None)
sink = socket.socket(2, 2)
sink.bind(("127.0.0.1", 0))
sink.setsockopt(1, 8, 1)
while len(held) < 900:
    one = socket.socket(2, 2)
    one.setsockopt(1, 8, 1 << 22)
    one.setblocking(False)
    held.append(one)
    for _ in range(300):
        try: one.sendmsg([bytes(900)], asked, 0, sink.getsockname())
        except OSError: pass
    libc.connect(one.fileno(), bytes(16), 16)
time.sleep(20)
"""
# What servers have: many open connections, and many that are dead but not closed yet.
BUSY = """
import os, socket, time
child = os.fork()
listener, held = socket.socket(), []
listener.bind(("127.0.0.1", 0))
listener.listen(100)
for _ in range(500):
    held.append(socket.create_connection(listener.getsockname()))
    held.append(listener.accept()[0])
begun = time.monotonic()
while time.monotonic() - begun < 2:
    for giver, taker in zip(held[::2], held[1::2]):
        giver.send(bytes(1000))
        taker.recv(1000)
if child and os.waitpid(child, 0)[1] == 0: print("well")
"""
DEAD = """
import socket, struct, time
listener, held = socket.socket(), []
listener.bind(("127.0.0.1", 0))
listener.listen(100)
for _ in range(300):
    held.append(socket.create_connection(listener.getsockname()))
    one = listener.accept()[0]
    one.setsockopt(1, 13, struct.pack("ii", 1, 0))
    one.close()
time.sleep(2)
print("well")
"""


def left_of_inotify():
    fds = []
    while (fd := libc.inotify_init1(0o2000000)) >= 0:
        fds.append(fd)
    for fd in fds:
        os.close(fd)
    return len(fds)


def left_of_timers(most):
    timer, timers = ctypes.c_void_p(), []
    while len(timers) < most and libc.timer_create(1, None, ctypes.byref(timer)) == 0:
        timers.append(timer.value)
    for one in timers:
        libc.timer_delete(ctypes.c_void_p(one))
    return len(timers)


def pages_of(kind):
    text = pathlib.Path("/proc/net/sockstat").read_text()
    return int(re.search(rf"^{kind}: .*mem (\d+)", text, re.M)[1])


pytestmark = pytest.mark.skipif(not boxdlib.ROOT, reason="what root has left is asked for")


@pytest.fixture(scope="module")
def place():
    with nativelib.Place("root") as made:
        yield made


@contextlib.contextmanager
def dialled(place):
    """A client that knows its boxd."""
    with place.start() as boxd, boxd.web() as client:
        client.boxd = boxd
        yield client.init(backend="local")


@pytest.fixture(scope="module")
def client(place):
    with dialled(place) as made:
        yield made


def take(client, session, text, **more):
    """The output of a program that takes all it can. A child in the box keeps what was taken."""
    held = (
        "import os, time\nends = os.pipe()\nif os.fork():\n"
        "    os.close(ends[1])\n    print(os.read(ends[0], 100).decode(), flush=True)\n    os._exit(0)\n"
        "os.dup2(ends[1], 1)\nos.close(ends[0])\n"
    )
    cmd = f"{PYTHON} - <<'END'\n{held}{text}\ntime.sleep(60)\nEND"
    data = {"cmd": cmd, "session_id": session, "timeout_sec": 60, **more}
    return client.ask("box_exec", data, 100)["stdout"].strip()


def end(client, *sessions):
    for session in sessions:
        client.call("box_delete_session", {"session_id": session})


def test_inotify_of_a_box_is_its_own(client):
    """The kernel also charges the owner of the namespace: that is the box, not root."""
    before = left_of_inotify()
    assert int(take(client, "greedy", TAKE_INOTIFY)) >= 100
    assert left_of_inotify() >= before - 2
    assert int(take(client, "neighbour", TAKE_INOTIFY)) >= 100
    end(client, "greedy", "neighbour")


def test_timers_and_queued_signals_of_a_box_are_its_own(client):
    before = left_of_timers(20000)
    assert int(take(client, "greedy", TAKE_TIMERS)) == 4096
    assert left_of_timers(20000) >= before - 100
    assert int(take(client, "neighbour", TAKE_TIMERS)) == 4096
    end(client, "greedy", "neighbour")


@pytest.mark.parametrize("text, kind", [(TAKE_UDP, "UDP"), (TAKE_TCP, "TCP")], ids=["udp", "tcp"])
def test_socket_buffers_are_the_box_s_memory(client, text, kind):
    """The total of the host is checked, on both versions of cgroups."""
    before = pages_of(kind)
    take(client, "buffers", text, memory_mb=64)
    held = (pages_of(kind) - before) * 4096
    end(client, "buffers")
    assert held < 100 * MIB, f"{held // MIB} MiB"


def test_open_files_of_a_box_are_a_share(client):
    most = int(pathlib.Path("/proc/sys/fs/file-max").read_text())
    found = int(client.exec("ulimit -Hn", "files", pids_limit=128)["stdout"])
    end(client, "files")
    assert found == min(4096, max(1024, most // 16 // 128))


@pytest.mark.parametrize("way", ["0", "1"], ids=["icmp", "times"])
def test_error_queues_of_udp_end_a_box_that_holds_too_much(client, way):
    """Also with the network off: no cgroup is charged for them."""
    cmd = f"{PYTHON} - <<'END'\n{TAKE_ERRORS.replace('WAY', way)}\nEND"
    error = client.fail("box_exec", {"cmd": cmd, "session_id": "e", "memory_mb": 64})
    assert "its sockets held more of the host's memory than the box may have" in error
    assert client.exec("echo well", "e", memory_mb=64)["stdout"] == "well"
    end(client, "e")


def test_receive_buffers_in_a_box_stay_as_they_are(client):
    """SO_RCVBUF is answered and ignored; TCP does not grow its buffers beyond this, either."""
    text = """
import socket
for kind in (1, 2):
    one = socket.socket(2, kind)
    before = one.getsockopt(1, 8)
    one.setsockopt(1, 8, 1 << 22)
    assert one.getsockopt(1, 8) == before
print(open("/proc/sys/net/ipv4/tcp_rmem").read())
"""
    answer = client.exec(f"{PYTHON} - <<'END'\n{text}\nEND", "buffers")
    assert answer["stdout"].split() == ["4096", "131072", "425984"], answer
    end(client, "buffers")


# A connection is charged to the cgroup that accepts it.
TAKE_UNACCEPTED = """
import socket, time
listeners = [socket.create_server(("127.0.0.1", 0), backlog=4096) for _ in range(40)]
for listener in listeners:
    for _ in range(3000):
        one = socket.socket()
        one.setblocking(False)
        try: one.connect(listener.getsockname())
        except BlockingIOError: pass
        except OSError: break
        try: one.send(bytes(BYTES))
        except OSError: pass
        one.close()
time.sleep(20)
"""
WAYS = {
    "tcp": TAKE_TCP_ERRORS.replace("HIDE", "0"),
    "unaccepted": TAKE_UNACCEPTED.replace("BYTES", "20000"),
    "unaccepted-empty": TAKE_UNACCEPTED.replace("BYTES", "0"),
    "unlisted-tcp": TAKE_TCP_ERRORS.replace("HIDE", "1"),
    "unlisted-udp": TAKE_UNLISTED_UDP,
}


@pytest.mark.parametrize("text", WAYS.values(), ids=WAYS)
def test_error_queues_of_tcp_and_of_unlisted_sockets_end_a_box(client, text):
    cmd = f"{PYTHON} - <<'END'\n{text}\nEND"
    error = client.fail("box_exec", {"cmd": cmd, "session_id": "t", "memory_mb": 64})
    assert "its sockets held more of the host's memory than the box may have" in error
    assert client.exec("echo well", "t", memory_mb=64)["stdout"] == "well"
    end(client, "t")


@pytest.mark.parametrize("text", [BUSY, DEAD], ids=["busy", "dead"])
def test_servers_with_many_connections_live(client, text):
    cmd = f"{PYTHON} - <<'END'\n{text}\nEND"
    assert client.exec(cmd, "many")["stdout"] == "well"
    end(client, "many")


def test_netlink_sockets_end_a_box_that_holds_too_much(client):
    if not network_possible(client.boxd):
        pytest.skip("boxes can have no network here")
    cmd = f"{PYTHON} - <<'END'\n{TAKE_NETLINK}\nEND"
    spec = {"network": "on", "memory_mb": 64}
    error = client.fail("box_exec", {"cmd": cmd, "session_id": "n", **spec})
    assert "its sockets held more of the host's memory than the box may have" in error
    assert client.exec("echo well", "n", network="on", memory_mb=64)["stdout"] == "well"
    end(client, "n")


# The watcher.


def cgroup_parents_of(boxd):
    """The cgroup parents of a boxd, one in each hierarchy: the cgroups of its boxes are below."""
    links = set()
    for fd in os.listdir(f"/proc/{boxd}/fd"):
        with contextlib.suppress(FileNotFoundError):
            links.add(os.readlink(f"/proc/{boxd}/fd/{fd}"))
    return [pathlib.Path(link) for link in links if re.search(r"/box-[0-9a-f]{16}$", link)]


def watcher_of(boxd):
    pids = pathlib.Path(f"/proc/{boxd}/task/{boxd}/children").read_text().split()
    return [
        int(pid)
        for pid in pids
        if pathlib.Path(f"/proc/{pid}/comm").read_text() == "box-watcher\n"
    ]


def status_of(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return dict(line.split(":", 1) for line in text.splitlines())


def start(place):
    """A boxd with a box in which a command runs."""
    client = dialled(place)
    made = client.__enter__()
    made.exec("sleep 86400 & exit 0", "stays")
    return client, made


def test_a_kill_of_boxd_leaves_no_cgroup(place):
    with dialled(place) as other:
        others = cgroup_parents_of(other.boxd.pid)
        scope, made = start(place)
        boxd = made.boxd.pid
        parents = cgroup_parents_of(boxd)
        assert parents and all(any(parent.glob("b*")) for parent in parents)
        os.kill(boxd, signal.SIGKILL)
        begun = time.monotonic()
        wait_until(
            lambda: not any(parent.exists() for parent in parents), 10, "the end of its cgroups"
        )
        assert time.monotonic() - begun < GONE_SECONDS
        assert all(parent.exists() for parent in others)
        assert other.exec("echo well", "there")["stdout"] == "well"
        with contextlib.suppress(Exception):
            scope.__exit__(None, None, None)


def test_the_watcher_is_small_and_confined(client):
    (pid,) = watcher_of(client.boxd.pid)
    status = status_of(pid)
    assert int(status["CapEff"], 16) & ~(1 << 5 | 1 << 1) == 0
    assert (status["Seccomp"].strip(), status["NoNewPrivs"].strip()) == ("2", "1")
    assert pathlib.Path(f"/proc/{pid}/cmdline").read_text().strip("\0") == "box-watcher"
    assert os.getsid(pid) == pid
    links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    assert not [link for link in links if re.search(r"/box-[0-9a-f]{16}", link)], "it holds locks"
    kinds = {link for link in links if "cgroup" not in link}
    assert kinds == {"/dev/null", "anon_inode:[pidfd]"}


def test_a_watcher_that_died_is_started_again(client):
    (first,) = watcher_of(client.boxd.pid)
    os.kill(first, signal.SIGKILL)
    wait_until(
        lambda: watcher_of(client.boxd.pid) not in ([], [first]), 10, "another watcher"
    )


def test_the_watcher_ends_with_boxd(place):
    scope, made = start(place)
    (pid,) = watcher_of(made.boxd.pid)
    parents = cgroup_parents_of(made.boxd.pid)
    scope.__exit__(None, None, None)
    wait_until(lambda: not is_alive(pid), 5, "the end of the watcher")
    assert not any(parent.exists() for parent in parents)
