"""Attempts to take from the host what no cgroup counts: what root and a neighbour have left tells.

Each takes all it can in a box of its own, and holds it while that is asked for.
"""

import ctypes
import os
import pathlib
import re

from frame import blocked, escaped
from outside import attempt

PYTHON = "/usr/bin/python3 -s -E"
MIB = 1 << 20
INOTIFY_LOST = 32  # more than others on this host may take meanwhile
INOTIFY_NEEDED = 16  # that a session is promised
TIMERS_MOST = 60000
TIMERS_LOST = 5000
BUFFERS_MIB = 32  # above the memory of the box

INOTIFY = """
import ctypes
libc, count = ctypes.CDLL(None), 0
while libc.inotify_init() >= 0: count += 1
"""
TIMERS = """
import ctypes
libc, count, timer = ctypes.CDLL(None), 0, ctypes.c_int()
while count < 60000 and libc.timer_create(1, None, ctypes.byref(timer)) == 0: count += 1
"""
UDP = """
import socket
held = []
for count in range(80):
    taker, giver = (socket.socket(2, 2) for _ in "ab")
    taker.setsockopt(1, 8, 1 << 22)
    taker.bind(("127.0.0.1", 0))
    giver.setblocking(False)
    held.append(taker)
    try:
        for _ in range(3000): giver.sendto(bytes(1400), taker.getsockname())
    except OSError: pass
"""
TCP = """
import socket
held, door = [], socket.socket()
door.bind(("127.0.0.1", 0))
door.listen(100)
for count in range(120):
    giver = socket.create_connection(door.getsockname())
    taker = door.accept()[0]
    held += [giver, taker]
    giver.setblocking(False)
    giver.setsockopt(1, 7, 1 << 22)
    taker.setsockopt(1, 8, 1 << 22)
    try:
        while True: giver.send(bytes(65536))
    except OSError: pass
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


def take(world, session, text):
    """How much it got. A child of it goes on in the box, and holds it."""
    end_of_it = "print(count, flush=True)\ntime.sleep(60)"
    cmd = f"{PYTHON} - <<'END'\n{HELD}{text}\n{end_of_it}\nEND"
    answer = world.run(cmd, session=session, seconds=100)
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


@attempt("resources", "inotify-instances-of-others")
def _(world):
    before = left_of_inotify()
    taken = take(world, "r1", INOTIFY)
    lost = before - left_of_inotify()
    neighbour = take(world, "r2", INOTIFY)
    end(world, "r1", "r2")
    return judge(taken, lost, INOTIFY_LOST, neighbour, INOTIFY_NEEDED)


@attempt("resources", "timers-of-others")
def _(world):
    before = left_of_timers()
    taken = take(world, "r1", TIMERS)
    lost = before - left_of_timers()
    neighbour = take(world, "r2", TIMERS)
    end(world, "r1", "r2")
    return judge(taken, lost, TIMERS_LOST, neighbour, 1000)


def pages_of(kind):
    text = pathlib.Path("/proc/net/sockstat").read_text()
    return int(re.search(rf"^{kind}: .*mem (\d+)", text, re.M)[1])


def buffers(world, kind, text):
    """The sum that the host's kernel has for all."""
    before = pages_of(kind)
    take(world, "r1", text)
    held = (pages_of(kind) - before) * 4096 // MIB
    end(world, "r1")
    told = f"{held} MiB of {kind} buffers in a box of {world.spec()['memory_mb']} MiB"
    more = held > world.spec()["memory_mb"] + BUFFERS_MIB
    return escaped(told) if more else blocked(told)


@attempt("resources", "memory-by-udp-buffers")
def _(world):
    return buffers(world, "UDP", UDP)


@attempt("resources", "memory-by-tcp-buffers")
def _(world):
    return buffers(world, "TCP", TCP)
