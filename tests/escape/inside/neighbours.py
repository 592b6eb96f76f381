"""Attempts on other boxes: of the same tenant ("boxes") and of another one ("tenants")."""

import errno
import os
import socket

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
)
from proc import foreign_pids
from sockets import says

GONE = (*FILE_REFUSALS, errno.ESRCH)


def for_both(name):
    """Registers an attempt in both classes, with the facts about that neighbour."""

    def put(function):
        for kind, member in (("boxes", "neighbour"), ("tenants", "stranger")):
            title = f"{name}-of-a-{'box' if kind == 'boxes' else 'tenant'}"
            attempt(kind, title)(lambda facts, m=member: function(facts[m], facts))

    return put


@for_both("secret-in-tmp")
def _(other, facts):
    return first_escape(
        reading(f"{folder}/{other['name']}", other["secret"], refusals=GONE)
        for folder in ("/tmp", "/var/tmp", "/dev/shm", "/run", "/home/box", "/workspace")
    )


@for_both("host-folder")
def _(other, facts):
    return first_escape(
        reading(f"{way}{other['workspace']}/{other['name']}", other["secret"], refusals=GONE)
        for way in ("", "/proc/self/root", "/workspace/..")
    )


@for_both("processes")
def _(other, facts):
    return first_escape(
        reading(f"/proc/{pid}/cmdline", other["secret"], refusals=GONE)
        for pid in foreign_pids(other["pids"])
    )


@for_both("signals")
def _(other, facts):
    pids = foreign_pids(other["pids"])
    return first_escape(doing(os.kill, pid, 0, refusals=GONE) for pid in pids)


@for_both("memory-by-mem-file")
def _(other, facts):
    return first_escape(
        doing(os.open, f"/proc/{pid}/mem", os.O_RDONLY, refusals=GONE)
        for pid in foreign_pids(other["pids"])
    )


@for_both("root-by-proc")
def _(other, facts):
    return first_escape(
        reading(f"/proc/{pid}/root/tmp/{other['name']}", other["secret"], refusals=GONE)
        for pid in other["pids"]
    )


@for_both("abstract-socket")
def _(other, facts):
    return says("\0" + other["abstract"], socket.AF_UNIX, None, other["secret"])


@for_both("tcp-server")
def _(other, facts):
    return first_escape(
        says((address, other["port"]), text=None, wanted=other["secret"])
        for address in ("127.0.0.1", "0.0.0.0", "localhost", *facts["addresses"])
    )


@for_both("shared-memory")
def _(other, facts):
    number, why = call("shmget", other["shm_key"], 0, 0)
    if number >= 0:
        return escaped("the segment is seen")
    assert why in (errno.ENOENT, errno.ENOSYS), name_of(why)
    return blocked(name_of(why))


@for_both("same-host-ids")
def _(other, facts):
    """No id of another box is mapped here: its files belong to nobody."""
    with open("/proc/self/uid_map") as file:
        first, outside, count = (int(word) for word in file.readline().split())
    theirs = other["first_id"]
    overlap = outside < theirs + other["id_count"] and theirs < outside + count
    return escaped(f"{outside} and {theirs}") if overlap else blocked("apart")


@for_both("locks-and-pids")
def _(other, facts):
    """Lock owners in /proc/locks are pids: those of others are not shown."""
    pids = {str(pid) for pid in other["pids"]}
    with open("/proc/locks") as file:
        told = [line for line in file if pids & set(line.split()[4:6])]
    return escaped(told) if told else blocked("none")
