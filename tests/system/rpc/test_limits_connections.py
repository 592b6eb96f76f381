"""How pending connections, idle peers and many connections affect other clients.

Times and sizes of memory are measured on the build BOX_RELEASE_FAKE.
"""

import select
import time

import pytest

from boxdlib import STALL_SECONDS, peak_kb, rss_kb, wait_until
from rawlib import PING_FRAME, PONG, Refused, Ws, dial, head_of
from crowdlib import Crowd, metric, pending, percentile, raise_open_files, read_or_end

CONNECTIONS_MAX = 1024
PENDING_PER_PEER_MAX = 256


# Half-open handshakes.


def crowded_p99(boxd, count):
    """p99 of a client's pings in microseconds: alone, and with a crowd of pending connections; None
    if the crowd was closed before the end, after its five seconds."""
    with Ws(boxd.port) as ws:
        ws.times(1000)
        alone = percentile(ws.times(4000), 0.99)
        with Crowd(boxd.port, count) as crowd:
            came = time.monotonic()
            beside = percentile(ws.times(4000), 0.99)
            with Ws(boxd.port) as newcomer:
                newcomer.ping()
            was_there = time.monotonic() - came < 4.5
            wait_until(lambda: pending(boxd) == 0, 15, "an empty door")
            assert time.monotonic() - came < 6.5 + STALL_SECONDS
            wait_until(lambda: crowd.gone() == count, what="the end of every socket")
    return (alone, beside) if was_there else None


@pytest.mark.timeout(180)
def test_crowd_at_the_door(fast):
    """5,000 sockets that send nothing or half a request head, from 20 addresses."""
    raise_open_files()
    with Ws(fast.port) as ws:
        ws.burst(2000)
    before = rss_kb(fast.worker)
    tries = []
    for _ in range(5):
        tries += filter(None, [crowded_p99(fast, 5000)])
        if tries and tries[-1][1] < 2 * tries[-1][0]:
            break
    grown = peak_kb(fast.worker) - before
    print(f"p99 alone, beside the crowd (us): {tries}; memory {before} kB, then +{grown} kB")
    assert any(beside < 2 * alone for alone, beside in tries), tries
    assert grown < 16 * 1024
    assert len(fast.workers()) == 1


@pytest.mark.timeout(60)
def test_slow_head(fast):
    """A head that arrives byte by byte has five seconds in all, not for each byte."""
    with dial(fast.port) as slow:
        slow.settimeout(0.2)
        started = time.monotonic()
        with pytest.raises(OSError):
            for byte in head_of() * 10:
                slow.sendall(bytes([byte]))
                try:
                    if slow.recv(1) == b"":
                        raise ConnectionError
                except TimeoutError:
                    pass
        assert 4.5 < time.monotonic() - started < 6.5 + STALL_SECONDS


# Timeouts.


@pytest.mark.soak
@pytest.mark.timeout(120)
def test_ping_when_idle(fast):
    with Ws(fast.port) as ws:
        ws.ping()
        started = time.monotonic()
        ws.sock.settimeout(45)
        assert ws.recv_frame()[0] == PING_FRAME
        took = time.monotonic() - started
        print(f"pinged after {took:.1f} s")
        assert 25 < took < 40
        ws.send(b"", opcode=PONG)
        ws.ping()


@pytest.mark.soak
@pytest.mark.timeout(180)
def test_silent_peer_is_given_up(fast):
    """A client that answers no ping is closed, one that does stays."""
    with Ws(fast.port) as silent, Ws(fast.port) as lively:
        silent.ping()
        lively.ping()
        started = time.monotonic()
        lively.sock.settimeout(1)
        while metric(fast, "box_connections") == 2:
            assert time.monotonic() - started < 90, "it is still there"
            try:
                lively.recv()
            except TimeoutError:
                pass
        took = time.monotonic() - started
        print(f"given up after {took:.1f} s")
        assert 50 < took < 75
        assert lively.pings >= 1
        lively.sock.settimeout(5)
        lively.ping()


# Number of connections.


@pytest.mark.timeout(120)
def test_connections_max(fast):
    raise_open_files()
    clients = [Ws(fast.port) for _ in range(CONNECTIONS_MAX)]
    try:
        with pytest.raises(Refused) as refused:
            Ws(fast.port)
        assert refused.value.status == 503
        clients[0].ping()
        clients[-1].ping()
        clients.pop().close()

        def dial_again():
            try:
                clients.append(Ws(fast.port))
                return True
            except Refused:
                return False

        wait_until(dial_again, 5, "room for one")
        clients[-1].ping()
    finally:
        for client in clients:
            client.close()


@pytest.mark.timeout(60)
def test_pending_max_of_one_peer(fast):
    """The oldest pending connection of the same peer is closed, never the new one, never another
    peer's."""
    with dial(fast.port, "127.0.0.3") as other:
        guests = [dial(fast.port, "127.0.0.2") for _ in range(PENDING_PER_PEER_MAX)]
        wait_until(lambda: pending(fast) == PENDING_PER_PEER_MAX + 1, 4, "all at the door")
        guests += [dial(fast.port, "127.0.0.2") for _ in range(3)]
        try:
            for guest in guests[:3]:
                guest.settimeout(2)
                assert read_or_end(guest) == b""
            assert select.select([other, *guests[3:]], [], [], 0.2)[0] == []
            for sock in (guests[-1], guests[3], other):
                with Ws(fast.port, sock=sock) as ws:
                    ws.ping()
        finally:
            for guest in guests:
                guest.close()


# Memory over time.


def check_creep(boxd, times):
    with Ws(boxd.port) as ws:
        ws.burst(20000)
    for _ in range(200):
        with Ws(boxd.port) as ws:
            ws.ping()
    before = rss_kb(boxd.worker), rss_kb(boxd.pid)
    with Ws(boxd.port) as ws:
        ws.burst(200_000 * times)
    for _ in range(2_000 * times):
        with Ws(boxd.port) as ws:
            ws.ping()
    grown = rss_kb(boxd.worker) - before[0], rss_kb(boxd.pid) - before[1]
    print(f"memory {before} kB, then +{grown} kB")
    assert max(grown) < 2048


@pytest.mark.timeout(180)
def test_memory_does_not_creep(fast):
    check_creep(fast, 1)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_memory_does_not_creep_long(fast):
    check_creep(fast, 10)
