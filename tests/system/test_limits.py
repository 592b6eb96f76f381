"""What a client that asks for too much costs the others: nothing that they notice.

Times and sizes of memory are taken from the build BOX_RELEASE_FAKE.
"""

import json
import select
import struct
import threading
import time

import pytest
from faultlib import (
    BINARY,
    CLOSE,
    MESSAGE_MAX,
    PING,
    PING_FRAME,
    PONG,
    Boxd,
    Closed,
    Crowd,
    Refused,
    Stdio,
    Ws,
    chunks,
    context,
    dial,
    exec_data,
    fast_build,
    frame,
    head_of,
    padded_ping,
    peak_kb,
    percentile,
    raise_open_files,
    request,
    rss_kb,
    wait_until,
)

CONNECTIONS_MAX = 1024
PENDING_PER_PEER_MAX = 256
TOO_LARGE, INVALID_TEXT, PROTOCOL_ERROR, POLICY = 1009, 1007, 1002, 1008


@pytest.fixture
def boxd(tmp_path):
    """With sanitizers."""
    with Boxd(tmp_path) as started:
        yield started


@pytest.fixture
def fast(tmp_path):
    with Boxd(tmp_path, programs=fast_build()) as started:
        yield started


# 1. Half-open handshakes.


def crowded_p99(boxd, count):
    """p99 of a client's pings in microseconds: alone, and with a crowd at the door."""
    with Ws(boxd.port) as ws:
        ws.times(1000)
        alone = percentile(ws.times(4000), 0.99)
        with Crowd(boxd.port, count) as crowd:
            came = time.monotonic()
            beside = percentile(ws.times(4000), 0.99)
            with Ws(boxd.port) as newcomer:
                newcomer.ping()
            assert time.monotonic() - came < 4.5, "the crowd was gone before the end"
            wait_until(lambda: pending(boxd) == 0, 7, "an empty door")
            assert time.monotonic() - came < 6.5
            wait_until(lambda: crowd.gone() == count, 1, "the end of every socket")
    return alone, beside


def metric(boxd, name):
    with dial(boxd.port) as sock:
        sock.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        text = b"".join(iter(lambda: sock.recv(65536), b"")).decode()
    rows = [line.split() for line in text.splitlines() if line.startswith((name + " ", name + "{"))]
    assert rows, f"no metric {name}"
    return sum(float(row[-1]) for row in rows)


def pending(boxd):
    """Sockets at the door, without the one that asks."""
    return metric(boxd, "box_pending_connections") - 1


@pytest.mark.timeout(180)
def test_crowd_at_the_door(fast):
    """5,000 sockets that say nothing or half a head, from 20 addresses."""
    raise_open_files()
    with Ws(fast.port) as ws:
        ws.burst(2000)
    before = rss_kb(fast.worker)
    tries = []
    for _ in range(3):
        tries.append(crowded_p99(fast, 5000))
        if tries[-1][1] < 2 * tries[-1][0]:
            break
    grown = peak_kb(fast.worker) - before
    print(f"p99 alone, beside the crowd (us): {tries}; memory {before} kB, then +{grown} kB")
    assert any(beside < 2 * alone for alone, beside in tries), tries
    assert grown < 16 * 1024
    assert len(fast.workers()) == 1


@pytest.mark.timeout(60)
def test_slow_head(fast):
    """A head that comes byte by byte has its five seconds in all, not for each byte."""
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
        assert 4.5 < time.monotonic() - started < 6.5


# 2. The size of a message.


@pytest.mark.timeout(120)
def test_largest_message(boxd):
    message = padded_ping(MESSAGE_MAX)
    assert len(message) == 16777216
    with Ws(boxd.port) as ws:
        ws.send(message)
        assert json.loads(ws.recv())["code"] == 0
        ws.send(message[:1], fin=False)
        for at in range(1, MESSAGE_MAX, 65536):
            ws.send(message[at : at + 65536], opcode=0, fin=at + 65536 >= MESSAGE_MAX)
        assert json.loads(ws.recv())["code"] == 0
        ws.ping()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("form", ["whole", "header only", "fragments", "last fragment's header"])
def test_message_too_large(boxd, form):
    message = padded_ping(MESSAGE_MAX + 1)
    with Ws(boxd.port) as other, Ws(boxd.port) as ws:
        try:
            if form == "whole":
                ws.send(message)
            elif form == "header only":
                ws.send_raw(frame(declared=MESSAGE_MAX + 1))
            elif form == "fragments":
                ws.send(message[:1], fin=False)
                for at in range(1, MESSAGE_MAX + 1, 65536):
                    ws.send(message[at : at + 65536], opcode=0, fin=False)
                ws.send(b"", opcode=0)
            else:
                ws.send(message[: MESSAGE_MAX // 2], fin=False)
                ws.send_raw(frame(opcode=0, declared=MESSAGE_MAX // 2 + 1))
        except ConnectionError:
            pass
        assert ws.wait_closed(5).code == TOO_LARGE
        other.ping()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("declared", [1 << 62, (1 << 63) - 1, 1 << 32, MESSAGE_MAX * 4])
@pytest.mark.parametrize("payload", [b"", b"x", b"x" * 1000], ids=len)
def test_declared_size_costs_nothing(fast, declared, payload):
    with Ws(fast.port) as other, Ws(fast.port) as ws:
        other.burst(500)
        ws.ping()
        before = rss_kb(fast.worker)
        started = time.monotonic()
        ws.send_raw(frame(payload, declared=declared))
        assert ws.wait_closed(5).code == TOO_LARGE
        # libwebsockets does not tell of a header alone: that is noticed at the next tick.
        assert time.monotonic() - started < (1 if payload else 2)
        assert peak_kb(fast.worker) - before < 1024
        other.ping()


@pytest.mark.timeout(60)
def test_size_with_the_top_bit(boxd):
    """Not a size at all by the standard: any end will do, but not a crash."""
    with Ws(boxd.port) as other, Ws(boxd.port) as ws:
        ws.send_raw(b"\x81\xff\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0abc")
        assert ws.wait_closed(5).code in (TOO_LARGE, PROTOCOL_ERROR, None)
        other.ping()
        assert len(boxd.workers()) == 1


@pytest.mark.timeout(120)
def test_largest_message_on_stdio(tmp_path):
    message = padded_ping(MESSAGE_MAX)
    with Stdio(tmp_path) as stdio:
        for form in (message, chunks(message)):
            stdio.send(form)
            assert stdio.recv()["code"] == 0
        stdio.call("__ping")


@pytest.mark.timeout(120)
@pytest.mark.parametrize("form", ["line", "line without end", "chunks", "msgpack"])
def test_message_too_large_on_stdio(tmp_path, form):
    message = padded_ping(MESSAGE_MAX + 1)
    with Stdio(tmp_path) as stdio:
        try:
            if form == "line":
                stdio.send(message)
            elif form == "line without end":
                for _ in range(300):
                    stdio.stdin.write(b" " * 65536)
            elif form == "chunks":
                stdio.send(chunks(message))
            else:
                head = b"\x82\xa6seq_id\x07\xa4data\xdb" + struct.pack("!I", MESSAGE_MAX)
                stdio.stdin.write(head)
        except BrokenPipeError:
            pass
        assert stdio.boxd.wait(5) > 0
        assert stdio.boxd.wait_event("stdio.broken")["why"]


# 3. Fragments.

FRAGMENTS = 1_000_000


def send_fragments(ws, data):
    """In the background: the server need not read as fast as we write."""
    sender = threading.Thread(target=lambda: ws.sock.sendall(data), daemon=True)
    sender.start()
    return sender


def check_fragments(boxd, data):
    with Ws(boxd.port, timeout=60) as ws, Ws(boxd.port) as other:
        ws.burst(500)
        other.ping()
        before = rss_kb(boxd.worker)
        sender = send_fragments(ws, data)
        worst = 0.0
        while sender.is_alive():
            started = time.monotonic()
            other.ping()
            worst = max(worst, time.monotonic() - started)
        assert json.loads(ws.recv())["code"] == 0
        sender.join()
        grown = peak_kb(boxd.worker) - before
        print(f"{FRAGMENTS} fragments: memory +{grown} kB, others waited {worst:.3f} s at most")
        assert grown < 4096
        assert worst < 0.5
        ws.ping()


@pytest.mark.timeout(180)
def test_fragments_of_one_byte(fast):
    message = padded_ping(FRAGMENTS)
    middle = b"".join(
        b"\x00\x81\0\0\0\0" + message[at : at + 1] for at in range(1, FRAGMENTS - 1)
    )
    first = frame(message[:1], fin=False)
    check_fragments(fast, first + middle + frame(message[-1:], opcode=0))


@pytest.mark.timeout(180)
def test_empty_fragments(fast):
    first = frame(PING[:10], fin=False)
    middle = frame(opcode=0, fin=False) * FRAGMENTS
    check_fragments(fast, first + middle + frame(PING[10:], opcode=0))


@pytest.mark.timeout(180)
def test_empty_first_fragment(fast):
    first = frame(b"", fin=False)
    middle = frame(opcode=0, fin=False) * FRAGMENTS
    check_fragments(fast, first + middle + frame(PING, opcode=0))


@pytest.mark.timeout(60)
def test_codec_of_fragments(boxd):
    """The first fragment says text or binary, even when it is empty; a ping may come between."""
    with Ws(boxd.port) as ws:
        ping = b"\x83\xa6seq_id\x09\xa6action\xa6__ping\xa4data\x80"
        ws.send(b"", opcode=BINARY, fin=False)
        ws.send(ping[:5], opcode=0, fin=False)
        ws.send(b"are you there", opcode=PING_FRAME)
        ws.send(b"", opcode=0, fin=False)
        ws.send(ping[5:], opcode=0, fin=False)
        ws.send(b"", opcode=0)
        frames = [ws.recv_frame(), ws.recv_frame()]
        assert (PONG, True, b"are you there") in frames
        answer = next(payload for opcode, _, payload in frames if opcode == BINARY)
        assert b"success" in answer
        ws.ping()


@pytest.mark.timeout(60)
def test_masked_as_real_clients_do(boxd):
    with Ws(boxd.port) as ws:
        ws.send(PING, mask=b"\x12\x34\x56\x78")
        assert json.loads(ws.recv())["code"] == 0


# 4. Answers that nobody reads.


def big_requests(count, first=0, size=1000000):
    """Each answer is a little larger than `size`."""
    return [
        request("box_exec", exec_data(f"print {size}"), seq, context())
        for seq in range(first, first + count)
    ]


def check_answers(recv, count):
    seqs = set()
    for _ in range(count):
        answer = recv()
        assert answer["code"] == 0 and len(answer["data"]["stdout"]) == 1000000
        seqs.add(answer["seq_id"])
    assert len(seqs) == count


@pytest.mark.timeout(120)
def test_unread_large_answers(fast):
    """40 large answers wait in memory, and arrive."""
    with Ws(fast.port) as ws, Ws(fast.port) as other:
        before = rss_kb(fast.worker)
        ws.send_raw(b"".join(frame(one) for one in big_requests(40)))
        wait_until(lambda: metric(fast, "box_requests_under_way") == 0, 10, "all execs to end")
        assert percentile(other.times(300), 0.5) < 20000
        grown = peak_kb(fast.worker) - before
        print(f"40 answers of 1 MB unread: memory +{grown} kB")
        assert grown < 64 * 1024 + 16 * 1024
        check_answers(lambda: json.loads(ws.recv()), 40)
        ws.ping()


class Sender(threading.Thread):
    """Sends requests, whose answers are twice as long, until told to stop or blocked."""

    def __init__(self, write):
        super().__init__(daemon=True)
        self.write = write
        self.ended = threading.Event()
        self.sent = 0
        self.moved = time.monotonic()

    def run(self):
        while not self.ended.is_set():
            self.write(request("__ping", seq=self.sent))
            self.sent += 1
            self.moved = time.monotonic()

    def blocked(self):
        return time.monotonic() - self.moved > 0.5


def check_back_pressure(boxd, write, recv):
    worker = boxd.worker
    with Ws(boxd.port) as other:
        other.burst(500)
        before = rss_kb(worker)
        sender = Sender(write)
        sender.start()
        wait_until(sender.blocked, 30, "the sender to be blocked")
        queued = rss_kb(worker) - before
        assert sender.sent > 10000
        sent = sender.sent
        assert percentile(other.times(300), 0.5) < 20000
        assert sender.sent == sent, "it goes on reading"
        print(f"{sent} requests until blocked: memory +{queued} kB")
        assert peak_kb(worker) - before < 16 * 1024
        sender.ended.set()
        for seq in range(sent):
            answer = recv()
            assert (answer["seq_id"], answer["code"]) == (seq, 0)
        sender.join(20)
        for seq in range(sent, sender.sent):
            assert recv()["seq_id"] == seq


@pytest.mark.timeout(120)
def test_back_pressure(fast):
    with Ws(fast.port, timeout=60) as ws:
        check_back_pressure(fast, ws.send, lambda: json.loads(ws.recv()))
        ws.ping()


@pytest.mark.timeout(120)
def test_back_pressure_on_stdio(tmp_path):
    with Stdio(tmp_path, programs=fast_build()) as stdio:
        check_back_pressure(stdio.boxd, stdio.send, stdio.recv)
        stdio.call("__ping")


@pytest.mark.timeout(120)
def test_unread_large_answers_on_stdio(tmp_path):
    with Stdio(tmp_path, programs=fast_build()) as stdio, Ws(stdio.boxd.port) as other:
        other.ping()
        before = rss_kb(stdio.boxd.worker)
        for one in big_requests(40):
            stdio.send(one)
        wait_until(lambda: select.select([stdio.stdout], [], [], 0)[0], 5, "output")
        assert percentile(other.times(300), 0.5) < 20000
        grown = peak_kb(stdio.boxd.worker) - before
        print(f"40 answers of 1 MB unread on stdio: memory +{grown} kB")
        assert grown < 64 * 1024 + 16 * 1024
        check_answers(stdio.recv, 40)
        stdio.call("__ping")


@pytest.mark.timeout(120)
def test_more_unread_than_the_limit(fast):
    """Over 256 MiB in the queue: the client is given up, its memory comes back."""
    with Ws(fast.port) as ws, Ws(fast.port) as other:
        other.burst(500)
        before = rss_kb(fast.worker)
        ws.send_raw(b"".join(frame(one) for one in big_requests(110, size=3000000)))
        fast.wait_event("connection.given_up")
        other.ping()
        assert peak_kb(fast.worker) - before < 256 * 1024 + 16 * 1024
        # What is on the way already may still come, then the end.
        assert ws.wait_closed(10).code in (POLICY, None)
        wait_until(lambda: rss_kb(fast.worker) - before < 16 * 1024, 5, "memory to come back")
        assert other.call("box_exec", exec_data("echo hi"), context())["stdout"] == "hi"


# 5. Frames that are none.

BAD_FRAMES = {
    "rsv1": (frame(PING, rsv=4), (PROTOCOL_ERROR, None)),
    "rsv2": (frame(PING, rsv=2), (PROTOCOL_ERROR, None)),
    "rsv3": (frame(PING, rsv=1), (PROTOCOL_ERROR, None)),
    "opcode 3": (frame(PING, opcode=3), (PROTOCOL_ERROR, None)),
    "opcode 7": (frame(PING, opcode=7), (PROTOCOL_ERROR, None)),
    "opcode 11": (frame(b"", opcode=11), (PROTOCOL_ERROR, None)),
    "opcode 15": (frame(b"", opcode=15), (PROTOCOL_ERROR, None)),
    "long ping": (frame(b"x" * 126, opcode=PING_FRAME), (PROTOCOL_ERROR, None)),
    "long pong": (frame(b"x" * 126, opcode=PONG), (PROTOCOL_ERROR, None)),
    "huge ping": (frame(opcode=PING_FRAME, declared=1 << 40), (PROTOCOL_ERROR, None)),
    "long close": (frame(b"\x03\xe8" + b"x" * 124, opcode=CLOSE), (PROTOCOL_ERROR, None)),
    "ping in pieces": (
        frame(b"a", opcode=PING_FRAME, fin=False) + frame(b"b", opcode=0),
        (PROTOCOL_ERROR, None),
    ),
    "continuation of nothing": (frame(PING, opcode=0), (PROTOCOL_ERROR, None)),
    "start within a message": (frame(b"{", fin=False) + frame(PING), (PROTOCOL_ERROR, None)),
    "close 1000": (frame(b"\x03\xe8bye", opcode=CLOSE), (1000,)),
    "close without a code": (frame(b"", opcode=CLOSE), (1000, 1005, None)),
    "close of one byte": (frame(b"\x03", opcode=CLOSE), (PROTOCOL_ERROR, 1005, None)),
    "close 1005": (frame(struct.pack("!H", 1005), opcode=CLOSE), (PROTOCOL_ERROR, None)),
    "close 999": (frame(struct.pack("!H", 999), opcode=CLOSE), (PROTOCOL_ERROR, None)),
    # libwebsockets gives this one back.
    "close 65535": (frame(struct.pack("!H", 65535), opcode=CLOSE), (PROTOCOL_ERROR, 65535)),
    "close 4000": (frame(struct.pack("!H", 4000), opcode=CLOSE), (4000, 1000)),
    "text that is none": (frame(b'{"a":"\xff"}'), (INVALID_TEXT,)),
    "text that is cut": (frame(b'{"a":"\xe2\x82'), (INVALID_TEXT,)),
    "surrogate": (frame(b'{"a":"\xed\xa0\x80"}'), (INVALID_TEXT,)),
    "overlong": (frame(b'{"a":"\xc0\x80"}'), (INVALID_TEXT,)),
    "above unicode": (frame(b'{"a":"\xf4\x90\x80\x80"}'), (INVALID_TEXT,)),
}


@pytest.fixture(scope="module")
def lasting(tmp_path_factory):
    """One boxd for all bad frames, and a client that is there all the time."""
    with Boxd(tmp_path_factory.mktemp("lasting")) as started:
        with Ws(started.port) as ws:
            ws.ping()
            yield started, ws


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", BAD_FRAMES)
def test_bad_frame(lasting, name):
    started, other = lasting
    data, codes = BAD_FRAMES[name]
    with Ws(started.port) as ws:
        ws.ping()
        ws.send_raw(data)
        end = ws.wait_closed(5)
        print(f"{name}: {end}")
        assert end.code in codes
    other.ping()
    assert other.call("box_exec", exec_data("echo hi"), context())["stdout"] == "hi"
    with Ws(started.port) as ws:
        ws.ping()
    assert len(started.workers()) == 1


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", BAD_FRAMES)
def test_bad_frame_with_the_head(lasting, name):
    """The same bytes together with the upgrade, so that another path takes them in."""
    started, other = lasting
    with dial(started.port) as sock:
        sock.sendall(head_of() + frame(PING) + BAD_FRAMES[name][0])
        sock.settimeout(5)
        answer = b"".join(iter(lambda: read_or_end(sock), b""))
    assert answer.startswith(b"HTTP/1.1 101")
    other.ping()
    assert len(started.workers()) == 1


def read_or_end(sock):
    try:
        return sock.recv(65536)
    except ConnectionError:
        return b""


@pytest.mark.timeout(60)
def test_unmasked_frame(lasting):
    """The standard wants an end here. libwebsockets takes it, and that harms nobody."""
    started, other = lasting
    with Ws(started.port) as ws:
        ws.send(PING, mask=None)
        try:
            assert json.loads(ws.recv())["code"] == 0
            print("unmasked: answered")
        except Closed as end:
            print(f"unmasked: {end}")
    other.ping()
    assert len(started.workers()) == 1


@pytest.mark.timeout(60)
def test_harmless_frames(lasting):
    """What must not end a connection."""
    started, _ = lasting
    with Ws(started.port) as ws:
        ws.send(b"x" * 125, opcode=PING_FRAME)
        assert ws.recv_frame() == (PONG, True, b"x" * 125)
        ws.send(b"", opcode=PONG)
        ws.send(b"unasked", opcode=PONG)
        ws.send(b"")
        ws.send(b"no json")
        ws.send(b"[]")
        ws.send(b"{}")
        ws.send(b"\xc1", opcode=BINARY)
        ws.send(b"", opcode=BINARY)
        ws.ping()


# 6. Time.


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
    """One that answers no ping goes, one that does stays."""
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


# 7. Counts of connections.


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
    """The one that waits longest makes room, never the newcomer, never another's."""
    with dial(fast.port, "127.0.0.3") as other:
        guests = [dial(fast.port, "127.0.0.2") for _ in range(PENDING_PER_PEER_MAX)]
        wait_until(lambda: pending(fast) == PENDING_PER_PEER_MAX + 1, 3, "all at the door")
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


# 8. Memory over time.


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
