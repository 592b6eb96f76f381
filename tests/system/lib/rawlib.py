"""Bare clients on plain sockets and pipes, for tests that control every byte.

They add little time of their own to a measurement.
"""

import errno
import itertools
import json
import socket
import struct
import time

import boxdlib
from clientlib import INSTANCE, Closed, chunk_lines

PING = b'{"seq_id":1,"action":"__ping","data":{}}'
KEY = "dGhlIHNhbXBsZSBub25jZQ=="
UPGRADE = {
    "Host": "127.0.0.1",
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": KEY,
    "X-LangBot-Instance-Id": INSTANCE,
}
TEXT, BINARY, CLOSE, PING_FRAME, PONG = 1, 2, 8, 9, 10


class Refused(Exception):
    """The handshake was answered with this status, not with 101."""

    def __init__(self, status):
        super().__init__(str(status))
        self.status = status


# Messages.


def exec_data(cmd, session="s", timeout_sec=30):
    return {"cmd": cmd, "session_id": session, "timeout_sec": timeout_sec}


def request(action, data=None, seq=1, ctx=None):
    message = {"seq_id": seq, "action": action, "data": data or {}}
    if ctx:
        message["context"] = ctx
    return json.dumps(message).encode()


def padded_ping(size):
    """A ping of exactly `size` bytes."""
    head, tail = b'{"seq_id":7,"action":"__ping","data":{"pad":"', b'"}}'
    return head + b"x" * (size - len(head) - len(tail)) + tail


def chunks(message):
    """An ASCII message in chunked form."""
    lines = chunk_lines(message.decode(), 16384)
    return "\n".join(map(json.dumps, lines)).encode()


# Bytes.


def frame(payload=b"", opcode=TEXT, fin=True, rsv=0, mask=b"\0\0\0\0", declared=None):
    """A client's frame. A mask of zeros leaves the payload unchanged; None omits the mask."""
    size = len(payload) if declared is None else declared
    bit = 0 if mask is None else 0x80
    head = bytes([(0x80 if fin else 0) | rsv << 4 | opcode])
    if size < 126:
        head += bytes([bit | size])
    elif size < 65536:
        head += bytes([bit | 126]) + struct.pack("!H", size)
    else:
        head += bytes([bit | 127]) + struct.pack("!Q", size)
    if mask and any(mask):
        payload = bytes(byte ^ mask[i % 4] for i, byte in enumerate(payload))
    return head + (mask or b"") + payload


def head_of(instance=INSTANCE, path="/rpc/ws"):
    """The head of an upgrade request."""
    fields = {**UPGRADE, "X-LangBot-Instance-Id": instance}
    lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def dial(port, source="127.0.0.1", timeout=10):
    made = socket.create_connection(("127.0.0.1", port), timeout, (source, 0))
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def refuses(port):
    """Whether nobody listens."""
    try:
        dial(port, timeout=5).close()
        return False
    except OSError as error:
        return error.errno == errno.ECONNREFUSED


# Clients.


class Caller:
    """Requests one at a time, over an object that can `send` and read an `answer`."""

    def __init__(self):
        self.seqs = itertools.count(100)
        self.buffer = bytearray()

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        self.close()

    def ask(self, action, data=None, ctx=None):
        """The whole answer."""
        seq = next(self.seqs)
        self.send(request(action, data, seq, ctx))
        while True:
            answer = self.answer()
            if answer["seq_id"] == seq:
                return answer

    def call(self, action, data=None, ctx=None):
        """The data of an answer that must be a success."""
        answer = self.ask(action, data, ctx)
        assert answer["code"] == 0, answer
        return answer["data"]


class Ws(Caller):
    """A WebSocket client on a plain socket."""

    def __init__(self, port, instance=INSTANCE, source="127.0.0.1", timeout=20, sock=None):
        super().__init__()
        self.sock = sock or dial(port, source, timeout)
        self.pings = 0
        try:
            self.sock.sendall(head_of(instance))
            status = self._read_head()
        except OSError as error:
            self.sock.close()
            raise Closed(reason=str(error)) from error
        except Closed:
            self.sock.close()
            raise
        if status != 101:
            self.sock.close()
            raise Refused(status)

    def close(self):
        self.sock.close()

    def _fill(self):
        try:
            got = self.sock.recv(1 << 20)
        except ConnectionError as error:
            raise Closed(reason=str(error)) from error
        if not got:
            raise Closed(reason="end of file")
        self.buffer += got

    def _read_head(self):
        while b"\r\n\r\n" not in self.buffer:
            self._fill()
        head, _, rest = bytes(self.buffer).partition(b"\r\n\r\n")
        self.buffer = bytearray(rest)
        return int(head.split(None, 2)[1])

    def _take(self, count):
        while len(self.buffer) < count:
            self._fill()
        taken = bytes(self.buffer[:count])
        del self.buffer[:count]
        return taken

    def send(self, payload, **options):
        self.sock.sendall(frame(payload, **options))

    def send_raw(self, data):
        self.sock.sendall(data)

    def recv_frame(self):
        """(opcode, fin, payload)"""
        first, second = self._take(2)
        size = second & 0x7F
        if size == 126:
            size = struct.unpack("!H", self._take(2))[0]
        elif size == 127:
            size = struct.unpack("!Q", self._take(8))[0]
        assert second & 0x80 == 0, "a server does not mask"
        return first & 15, bool(first & 0x80), self._take(size)

    def recv(self):
        """The next whole message. Pings are answered; a close raises Closed."""
        parts = []
        while True:
            opcode, fin, payload = self.recv_frame()
            if opcode == CLOSE:
                code = struct.unpack("!H", payload[:2])[0] if len(payload) >= 2 else 1005
                raise Closed(code, payload[2:].decode())
            if opcode == PING_FRAME:
                self.pings += 1
                self.send(payload, opcode=PONG)
            elif opcode != PONG:
                parts.append(payload)
                if fin:
                    return b"".join(parts)

    def answer(self):
        return json.loads(self.recv())

    def ping(self):
        self.call("__ping")

    def wait_closed(self, seconds=10):
        """Waits for the Closed that ends this connection."""
        self.sock.settimeout(seconds)
        try:
            while True:
                self.recv()
        except Closed as end:
            return end

    def times(self, count):
        """Round trips in microseconds."""
        data, sock, clock = frame(PING), self.sock, time.perf_counter_ns
        found = []
        for _ in range(count):
            start = clock()
            sock.sendall(data)
            got = sock.recv(4096)
            found.append((clock() - start) / 1000)
            assert got.endswith(b"}")
        return found

    def burst(self, count, at_once=64):
        """Many pings, pipelined."""
        self.send(PING)
        answer = len(frame(self.recv(), mask=None))
        for done in range(0, count, at_once):
            pings = min(at_once, count - done)
            self.sock.sendall(frame(PING) * pings)
            self._take(pings * answer)


class Pipes(Caller):
    """boxd -s with the fake backend, and the parent's end of its pipes."""

    def __init__(self, folder, *args, **options):
        super().__init__()
        self.boxd = boxdlib.fake_boxd(folder, *args, stdio=True, bufsize=0, **options)
        self.stdin = self.boxd.process.stdin
        self.stdout = self.boxd.process.stdout

    def __exit__(self, *stopped):
        self.boxd.__exit__(*stopped)

    def send(self, line):
        data = memoryview(line + b"\n")
        while data:
            data = data[self.stdin.write(data) :]

    def line(self):
        while b"\n" not in self.buffer:
            got = self.stdout.read(1 << 16)
            if not got:
                raise Closed(reason="end of file")
            self.buffer += got
        line, _, rest = self.buffer.partition(b"\n")
        self.buffer = rest
        return bytes(line)

    def answer(self):
        message = json.loads(self.line())
        if message.get("type") != "chunk_start":
            return message
        parts = []
        while True:
            piece = json.loads(self.line())
            if piece["type"] == "chunk_end":
                return json.loads("".join(parts))
            parts.append(piece["data"])
