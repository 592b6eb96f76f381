"""Peers that vanish silently are found within 60 s: idle ones, relays whose process does not read,
ones with unsent output, and RPC. The network between is removed.
"""

import ctypes
import socket
import subprocess
import threading
import time

import pytest

import boxdlib
import rawlib
import nativelib
from relaylib import V1, Bare, fill, info, shell, start

CLONE_NEWNET = 0x40000000
FOUND_SECONDS = 60
LATE_SECONDS = 5  # of timers that go once a second, on a machine that has other work
OWN_NETWORK = ("unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")
# Writes once the network is gone, and does not read.
TALKS = "while [ ! -e /tmp/gone ]; do sleep 0.1; done; while :; do echo x; sleep 1; done"


pytestmark = pytest.mark.usefixtures("nothing_left")


def inside(pid, make):
    """The result of `make` in that process's network namespace: its sockets stay there."""
    libc = ctypes.CDLL(None, use_errno=True)
    made = []

    def enter():
        with open(f"/proc/{pid}/ns/net") as space:
            assert libc.setns(space.fileno(), CLONE_NEWNET) == 0, ctypes.get_errno()
        made.append(make())

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join(20)
    assert made, "nothing was made there"
    return made[0]


def sockets_of(pid):
    return sum(name.startswith("socket:") for name in boxdlib.fd_names(pid).values())


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_peers_that_vanish():
    if not boxdlib.ROOT:
        pytest.skip("needs a network of its own")
    with nativelib.Place("root") as place:
        # The observing client does not use the network.
        with nativelib.dialled(place, "stdio", before=OWN_NETWORK) as client:
            boxd = client.boxd
            names = ["idle", "resumes", "full", "owed"]
            for name in names[:2]:
                start(client, "cat", process=name)
            start(client, "sleep", "1000", process="full")
            shell(client, TALKS, process="owed")
            before = sockets_of(boxd.worker)

            def dial():
                return socket.create_connection(("127.0.0.1", boxd.port), 20)

            def dial_all():
                rpc = rawlib.Ws(boxd.port, sock=dial())
                rpc.ping()
                return rpc, [
                    Bare(boxd.port, "idle", sock=dial()),
                    V1(boxd, process="resumes", sock=dial()),
                    Bare(boxd.port, "full", sock=dial()),
                    Bare(boxd.port, "owed", sock=dial()),
                ]

            # box-rpc stays where it is; boxd enters network namespaces for moments.
            rpc, relays = inside(boxd.worker, dial_all)
            fill(relays[2])
            fill(relays[3])
            assert all(info(client, name)["attached"] for name in names)
            assert sockets_of(boxd.worker) == before + 5
            subprocess.run(
                ["nsenter", "-t", str(boxd.worker), "-n", "ip", "link", "set", "lo", "down"],
                check=True,
            )
            begun = time.monotonic()
            client.exec("touch /tmp/gone")
            found = {}
            while len(found) < 5:
                passed = time.monotonic() - begun
                missing = [name for name in [*names, "rpc"] if name not in found]
                assert passed < FOUND_SECONDS + LATE_SECONDS, f"still there: {missing}"
                for name in names:
                    if name not in found and not info(client, name)["attached"]:
                        found[name] = round(passed)
                if "rpc" not in found and sockets_of(boxd.worker) <= before + 4 - len(found):
                    found["rpc"] = round(passed)
                time.sleep(0.5)
            print(f"found after {found} s")
            for one in [rpc, *relays]:
                one.sock.close()
