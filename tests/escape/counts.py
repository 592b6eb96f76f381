"""Attempts to use up host resources that no cgroup counts, judged by what root and a neighbour have
left.

Each takes all it can in a box of its own, and holds it while that is measured.
"""

import ctypes
import os
import pathlib
import re

from frame import blocked, escaped
from outside import attempt

PYTHON = "/usr/bin/python3 -s -E"
MIB = 1 << 20
INOTIFY_LOST = 32  # more than other programs of this host may take meanwhile
INOTIFY_NEEDED = 16  # a session's guaranteed minimum
WATCHES_LOST = 5000
WATCHED_FILES = 5000
WATCHED_BY = 40  # our own instances: more than the host allows, given enough files
TIMERS_MOST = 60000
TIMERS_LOST = 5000
BUFFERS_MIB = 32  # above the memory of the box

INOTIFY = """
import ctypes
libc, count = ctypes.CDLL(None), 0
while libc.inotify_init() >= 0: count += 1
"""
WATCHES = """
import ctypes, os
libc, count = ctypes.CDLL(None), 0
os.makedirs("/tmp/watched", exist_ok=True)
names = [f"/tmp/watched/{number}" for number in range(600)]
for name in names: open(name, "w").close()
while (fd := libc.inotify_init()) >= 0:
    for name in names: count += libc.inotify_add_watch(fd, name.encode(), 2) >= 0
"""
SIGNALS = """
import ctypes, os, signal
libc, count = ctypes.CDLL(None), 0
signal.pthread_sigmask(signal.SIG_BLOCK, [40])
while count < 60000 and libc.sigqueue(os.getpid(), 40, None) == 0: count += 1
"""
TIMERS = """
import ctypes
libc, count, timer = ctypes.CDLL(None), 0, ctypes.c_int()
while count < 60000 and libc.timer_create(1, None, ctypes.byref(timer)) == 0: count += 1
"""
UDP = """
import socket
held = []
for count in range(900):
    taker, giver = (socket.socket(2, 2) for _ in "ab")
    taker.setsockopt(1, 8, 1 << 22)
    taker.bind(("127.0.0.1", 0))
    giver.setblocking(False)
    held.append(taker)
    try:
        for _ in range(300): giver.sendto(bytes(1400), taker.getsockname())
    except OSError: pass
"""
TCP = """
import socket
held, listener = [], socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen(100)
for count in range(120):
    giver = socket.create_connection(listener.getsockname())
    taker = listener.accept()[0]
    held += [giver, taker]
    giver.setblocking(False)
    giver.setsockopt(1, 7, 1 << 22)
    taker.setsockopt(1, 8, 1 << 22)
    try:
        while True: giver.send(bytes(65536))
    except OSError: pass
"""
# Datagrams to a closed port come back into the error queue of the sender, and so does every packet
# with a requested send timestamp. The last lines print what is queued, in MiB.
ERRORS = """
import socket, struct
held, asked = [], [(1, 37, struct.pack("I", 2))]
sink = socket.socket(2, 2)
sink.bind(("127.0.0.1", 0))
sink.setsockopt(1, 8, 1)
for number in range(950):
    one = socket.socket(2, 2)
    one.setsockopt(1, 8, 1 << 22)
    one.setsockopt(0, 11, 1)
    one.setblocking(False)
    held.append(one)
    for _ in range(400):
        try:
            if number % 8: one.sendmsg([bytes(900)], asked, 0, sink.getsockname())
            else: one.sendto(b"", ("127.0.0.1", 9))
        except OSError: pass
lines = open("/proc/net/udp").read().splitlines()[1:]
count = sum(int(line.split()[4].split(":")[1], 16) for line in lines) >> 20
"""
# The same in TCP, where no list shows it. The second variant disconnects, so that no list has these
# sockets; the third releases its ports. The sums come from the sockets themselves (SO_MEMINFO).
TCP_ERRORS = """
import ctypes, socket, struct
held, asked, libc = [], [(1, 37, struct.pack("I", 2))], ctypes.CDLL(None)
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen(10)
count = 0
for _ in range(480):
    giver = socket.create_connection(listener.getsockname())
    taker = listener.accept()[0]
    giver.setsockopt(1, 8, 1 << 22)
    giver.setsockopt(1, 18, 1 << 30)
    giver.setsockopt(6, 1, 1)
    giver.setblocking(False)
    taker.setblocking(False)
    held += [giver, taker]
    for _ in range(400):
        try: giver.sendmsg([bytes(900)], asked)
        except OSError: pass
        try: taker.recv(1 << 20)
        except OSError: pass
    if HIDE:
        libc.connect(giver.fileno(), bytes(16), 16)
        taker.close()
    count += struct.unpack("9I", giver.getsockopt(1, 55, 36))[0]
count >>= 20
"""
UNLISTED_UDP = """
import ctypes, socket, struct
held, asked, libc = [], [(1, 37, struct.pack("I", 2))], ctypes.CDLL(None)
sink = socket.socket(2, 2)
sink.bind(("127.0.0.1", 0))
sink.setsockopt(1, 8, 1)
count = 0
for _ in range(900):
    one = socket.socket(2, 2)
    one.setsockopt(1, 8, 1 << 22)
    one.setblocking(False)
    held.append(one)
    for _ in range(300):
        try: one.sendmsg([bytes(900)], asked, 0, sink.getsockname())
        except OSError: pass
    libc.connect(one.fileno(), bytes(16), 16)
    count += struct.unpack("9I", one.getsockopt(1, 55, 36))[0]
count >>= 20
"""
NETLINK = """
import socket, struct
ask, held = struct.pack("IHHII", 20, 18, 0x301, 1, 0) + bytes(4), []
for _ in range(900):
    one = socket.socket(16, 3, 0)
    one.setblocking(False)
    held.append(one)
    try:
        for _ in range(400): one.send(ask)
    except OSError: pass
lines = open("/proc/net/netlink").read().splitlines()[1:]
count = sum(int(line.split()[4]) for line in lines) >> 20
"""

libc = ctypes.CDLL(None, use_errno=True)


HELD = """
import os, time
ends = os.pipe()
if os.fork():
    os.close(ends[1])
    print(os.read(ends[0], 100).decode(), flush=True)
    os._exit(0)
os.dup2(ends[1], 1)
os.close(ends[0])
"""


def taking(world, session, text, **spec):
    """A child in the box continues to hold what was taken."""
    end_of_it = "print(count, flush=True)\ntime.sleep(60)"
    cmd = f"{PYTHON} - <<'END'\n{HELD}{text}\n{end_of_it}\nEND"
    return world.run(cmd, session=session, seconds=100, **spec)


def take(world, session, text):
    """How much was taken."""
    answer = taking(world, session, text)
    if answer["code"] != 0:
        raise RuntimeError(answer["message"])
    return int(answer["data"]["stdout"] or 0)


def end(world, *sessions):
    for session in sessions:
        world.client.call("box_delete_session", {"session_id": session})


def left_of_inotify():
    fds = []
    while (fd := libc.inotify_init1(os.O_CLOEXEC)) >= 0:
        fds.append(fd)
    for fd in fds:
        os.close(fd)
    return len(fds)


def left_of_watches(world):
    folder = world.host.folder / "watched"
    if not folder.exists():
        folder.mkdir()
        for number in range(WATCHED_FILES):
            (folder / str(number)).touch()
    fds = [libc.inotify_init1(os.O_CLOEXEC) for _ in range(WATCHED_BY)]
    names = [str(folder / str(number)).encode() for number in range(WATCHED_FILES)]
    left = sum(libc.inotify_add_watch(fd, name, 2) >= 0 for fd in fds for name in names)
    for fd in fds:
        if fd >= 0:
            os.close(fd)
    return left


def left_of_timers():
    timer, timers = ctypes.c_void_p(), []
    while len(timers) < TIMERS_MOST and libc.timer_create(1, None, ctypes.byref(timer)) == 0:
        timers.append(timer.value)
    for one in timers:
        libc.timer_delete(ctypes.c_void_p(one))
    return len(timers)


def judge(taken, lost, most_lost, neighbour, needed):
    if lost > most_lost:
        return escaped(f"root has {lost} fewer, of which a box has {taken}")
    if neighbour < needed:
        return escaped(f"a neighbour gets {neighbour}, because a box has {taken}")
    return blocked(f"a box has {taken}; root lost {max(lost, 0)}, a neighbour gets {neighbour}")


@attempt("resources", "inotify-instances-of-others", measured=True)
def _(world):
    before = left_of_inotify()
    taken = take(world, "r1", INOTIFY)
    lost = before - left_of_inotify()
    neighbour = take(world, "r2", INOTIFY)
    end(world, "r1", "r2")
    return judge(taken, lost, INOTIFY_LOST, neighbour, INOTIFY_NEEDED)


@attempt("resources", "inotify-watches-of-others", measured=True)
def _(world):
    before = left_of_watches(world)
    taken = take(world, "r1", WATCHES)
    lost = before - left_of_watches(world)
    neighbour = take(world, "r2", WATCHES)
    end(world, "r1", "r2")
    return judge(taken, lost, WATCHES_LOST, neighbour, 1000)


def pending(world, text):
    """Queued signals and timers share one limit."""
    before = left_of_timers()
    taken = take(world, "r1", text)
    lost = before - left_of_timers()
    neighbour = take(world, "r2", text)
    end(world, "r1", "r2")
    return judge(taken, lost, TIMERS_LOST, neighbour, 1000)


@attempt("resources", "timers-of-others", measured=True)
def _(world):
    return pending(world, TIMERS)


@attempt("resources", "queued-signals-of-others", measured=True)
def _(world):
    return pending(world, SIGNALS)


def pages_of(kind):
    text = pathlib.Path("/proc/net/sockstat").read_text()
    return int(re.search(rf"^{kind}: .*mem (\d+)", text, re.M)[1])


def buffers(world, kind, text):
    """The host kernel's total."""
    before = pages_of(kind)
    take(world, "r1", text)
    held = (pages_of(kind) - before) * 4096 // MIB
    end(world, "r1")
    told = f"{held} MiB of {kind} buffers in a box of {world.spec()['memory_mb']} MiB"
    more = held > world.spec()["memory_mb"] + BUFFERS_MIB
    return escaped(told) if more else blocked(told)


@attempt("resources", "memory-by-udp-buffers", measured=True)
def _(world):
    return buffers(world, "UDP", UDP)


@attempt("resources", "memory-by-tcp-buffers", measured=True)
def _(world):
    return buffers(world, "TCP", TCP)


def uncharged(world, text, **spec):
    """No cgroup counts it: boxd checks it, and ends the box."""
    answer = taking(world, "r1", text, **spec)
    end(world, "r1")
    if answer["code"] == 0:
        held = int(answer["data"]["stdout"] or 0)
        assert held > world.spec()["memory_mb"] + BUFFERS_MIB, f"only {held} MiB were taken"
        return escaped(f"{held} MiB that nobody is charged for")
    if "its sockets held more" not in answer["message"]:
        raise RuntimeError(answer["message"])
    return blocked("the box was ended")


@attempt("resources", "memory-by-udp-error-queues", measured=True)
def _(world):
    return uncharged(world, ERRORS)


@attempt("resources", "memory-by-tcp-error-queues", measured=True)
def _(world):
    return uncharged(world, TCP_ERRORS.replace("HIDE", "0"))


@attempt("resources", "memory-by-error-queues-of-dead-connections", measured=True)
def _(world):
    return uncharged(world, TCP_ERRORS.replace("HIDE", "1"))


@attempt("resources", "memory-by-error-queues-without-a-port", measured=True)
def _(world):
    return uncharged(world, UNLISTED_UDP)


@attempt("resources", "memory-by-netlink-buffers", measured=True)
def _(world):
    answer = world.run("true", session="r1", network="on")
    if answer["code"] != 0:
        end(world, "r1")
        return "SKIPPED", f"boxes have no network here: {answer['message']}"
    return uncharged(world, NETLINK, network="on")
