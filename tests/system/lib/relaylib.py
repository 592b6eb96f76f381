"""Relays of managed processes: by Python's `websockets` as LangBot connects to them, by a plain
socket that can break off at any byte, and by clients of the subprotocol `box.v1`, which resume.
"""

import contextlib
import json
import socket
import struct
import time

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

import rawlib
from clientlib import INSTANCE, MESSAGE_BYTES_MAX, how_closed, physical

DATA, DONE, BEGIN, END = 1, 2, 3, 4
UNCONFIRMED = 2**64 - 1
ENDED = "the managed process has ended"


def path(process=None, session="s", **placement):
    named = "" if process is None else f"/{process}"
    return f"/v1/sessions/{physical(session, **placement)}/managed-process{named}/ws"


def narrow(boxd):
    """A socket with a small receive buffer."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.settimeout(20)
    made.connect(("127.0.0.1", boxd.port))
    return made


def headers(workspace="ws1", generation=1, instance=INSTANCE):
    return {
        "X-LangBot-Instance-Id": instance,
        "X-LangBot-Workspace-Id": workspace,
        "X-LangBot-Placement-Generation": str(generation),
    }


# -- processes


def start(client, command, *args, process="default", session="s", context=..., **spec):
    """Starts a process in its session, which is created if needed; returns its info."""
    members = {} if context is ... else {"context": context}
    client.ask("box_create_session", {"session_id": session}, **members)
    data = {"process_id": process, "command": command, "args": list(args), **spec}
    asked = {"session_id": session, "spec": data}
    return client.ask("box_start_managed_process", asked, **members)


def shell(client, script, **options):
    return start(client, "sh", "-c", script, **options)


def shell_in(client, script, process="default", session="s"):
    """As shell, in an existing session, whatever it was created with."""
    data = {"process_id": process, "command": "sh", "args": ["-c", script]}
    return client.ask("box_start_managed_process", {"session_id": session, "spec": data})


def info(client, process="default", session="s"):
    return client.ask("box_get_managed_process", {"session_id": session, "process_id": process})


def peek(client, process="default", session="s"):
    """How much a process has written so far."""
    data = {"session_id": session, "process_id": process, "length": 0}
    return client.ask("box_get_process_output", data)["end"]


def stop(client, process="default", session="s"):
    data = {"session_id": session, "process_id": process}
    assert client.ask("box_stop_managed_process", data) == {"stopped": process}


def exited(client, process="default", session="s", seconds=10.0):
    """Waits for the end of a process; its info then."""
    end = time.monotonic() + seconds
    while (found := info(client, process, session))["status"] != "exited":
        assert time.monotonic() < end, found
        time.sleep(0.01)
    return found


# -- relays


class Relay:
    """A relay with Python's `websockets`; protocol None: no subprotocol is offered."""

    def __init__(self, boxd, process=None, session="s", protocol="mcp", placement=None, **options):
        placement = placement or {}
        options.setdefault("max_size", MESSAGE_BYTES_MAX)
        self.socket = connect(
            f"ws://127.0.0.1:{boxd.port}{path(process, session, **placement)}",
            additional_headers=headers(**placement),
            subprotocols=[protocol] if protocol else None,
            open_timeout=10,
            close_timeout=5,
            proxy=None,
            legacy=True,
            **options,
        )
        assert self.socket.subprotocol == protocol

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        self.socket.close()

    def send(self, message):
        self.socket.send(message)

    def recv(self, seconds=10.0):
        try:
            return self.socket.recv(timeout=seconds)
        except ConnectionClosed as end:
            raise how_closed(end) from None

    def take(self, count, seconds=10.0):
        return [self.recv(seconds) for _ in range(count)]

    def rest(self, seconds=10.0):
        """Messages until it is closed, and (code, reason) of the close."""
        found = []
        try:
            while True:
                found.append(self.socket.recv(timeout=seconds))
        except ConnectionClosed as end:
            closed = how_closed(end)
            return found, (closed.code, closed.reason)

    def is_silent(self, seconds=0.3):
        try:
            self.socket.recv(timeout=seconds)
        except TimeoutError:
            return True
        return False


class Bare(rawlib.Ws):
    """A relay on a plain socket."""

    def __init__(self, port, process=None, session="s", protocol="mcp", timeout=20, sock=None):
        rawlib.Caller.__init__(self)
        self.pings = 0
        self.sock = sock or rawlib.dial(port, timeout=timeout)
        fields = {**rawlib.UPGRADE, **headers()}
        if protocol:
            fields["Sec-WebSocket-Protocol"] = protocol
        lines = [f"GET {path(process, session)} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in fields.items()]
        try:
            self.sock.sendall("\r\n".join(lines).encode() + b"\r\n\r\n")
            self.status = self._read_head()
        except BaseException:
            self.sock.close()
            raise
        if self.status != 101:
            self.body = json.loads(self.buffer) if self.buffer.startswith(b"{") else None
            self.sock.close()
            raise rawlib.Refused(self.status)

    def break_off(self):
        """Drops the connection silently; unread data is discarded."""
        linger = struct.pack("ii", 1, 0)
        with contextlib.suppress(OSError):
            self.sock.setsockopt(rawlib.socket.SOL_SOCKET, rawlib.socket.SO_LINGER, linger)
        self.sock.close()


def fill(bare):
    """Sends until it would block: from now on nobody reads."""
    line = rawlib.frame(b"f" * 65535)
    bare.sock.settimeout(1)
    with contextlib.suppress(TimeoutError):
        for _ in range(1024):
            bare.sock.sendall(line)
        raise AssertionError("it takes whatever it is sent")


def pack(kind, offset, data=b""):
    return struct.pack("!BQ", kind, offset) + data


def unpack(message):
    kind, offset = struct.unpack("!BQ", message[:9])
    return kind, offset, message[9:]


class V1(Bare):
    """One established connection; `first` is the offset where its output begins, `next` that of its
    input."""

    def __init__(self, boxd, begin=UNCONFIRMED, turn=True, **options):
        super().__init__(boxd.port, protocol="box.v1", **options)
        self.done = 0
        if begin is not None:
            self.say(BEGIN, begin)
        if begin is not None and turn:
            self.wait_turn()

    def say(self, kind, offset, data=b""):
        self.send(pack(kind, offset, data), opcode=rawlib.BINARY)

    def wait_turn(self):
        kind, self.first, data = unpack(self.recv())
        assert kind == BEGIN
        self.next = struct.unpack("!Q", data)[0]

    def output(self, size):
        """The next so many bytes of output."""
        found = b""
        at = self.first
        while len(found) < size:
            kind, offset, data = unpack(self.recv())
            if kind == DATA:
                assert offset == at
                at += len(data)
                found += data
            else:
                assert kind == DONE
                self.done = offset
        self.first = at
        return found

    def until(self, wanted):
        """Reads messages up to one of this kind: returns its offset."""
        while True:
            kind, offset, _ = unpack(self.recv())
            if kind == wanted:
                return offset

    def taken(self, offset):
        """Waits until the process has taken its input up to this offset."""
        while self.done < offset:
            self.done = self.until(DONE)

    def closed(self):
        end = self.wait_closed()
        return end.code, end.reason


class Resuming:
    """Everything a process wrote, over as many connections as needed: nothing may be missing and
    nothing may come twice."""

    def __init__(self):
        self.end = 0  # output is here up to this offset
        self.confirmed = 0
        self.lines = []
        self.rest = b""
        self.exit_code = None

    def dial(self, port, process=None, session="s"):
        bare = Bare(port, process, session, "box.v1")
        bare.send(pack(BEGIN, self.end), opcode=rawlib.BINARY)
        return bare

    def take(self, bare):
        """Reads one message: its kind and offset."""
        kind, offset, data = unpack(bare.recv())
        if kind == BEGIN:
            assert offset == self.end, f"it begins at {offset}, not at {self.end}"
            assert len(data) == 8
        elif kind == DATA:
            assert offset == self.end and data, f"output at {offset}, not at {self.end}"
            self.end += len(data)
            *lines, self.rest = (self.rest + data).split(b"\n")
            self.lines += lines
        elif kind == END:
            self.exit_code = struct.unpack("!q", struct.pack("!Q", offset))[0]
        else:
            assert kind == DONE, kind
        return kind, offset

    def confirm(self, bare):
        bare.send(pack(DONE, self.end), opcode=rawlib.BINARY)
        self.confirmed = self.end
