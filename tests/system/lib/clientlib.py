"""RPC clients for both transports and codecs, with one interface (`Client`).

Every wait has a timeout. Clients that control every byte are in rawlib.py.
"""

import collections
import contextlib
import hashlib
import json
import queue
import threading
import time

import msgpack
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect as websocket_connect

INSTANCE = "test-instance"
TOKEN = "secret-of-the-tests-" * 2
CHUNK_BYTES = 16 * 1024
MESSAGE_BYTES_MAX = 16 * 1024 * 1024
LINE_BYTES_MAX = 65535

ERROR_NAMES = (
    "BoxAdmissionError",
    "BoxReadinessError",
    "BoxCapacityExceededError",
    "BoxValidationError",
    "BoxSessionNotFoundError",
    "BoxSessionConflictError",
    "BoxManagedProcessNotFoundError",
    "BoxManagedProcessConflictError",
    "BoxBackendUnavailableError",
    "BoxRuntimeUnavailableError",
    "BoxError",
    "PermissionError",
    "ValueError",
    "ValidationError",
    "KeyError",
    "OSError",
)

# name -> its minimum, maximum and default
LIMITS = {
    "max_sessions": (0, 5000, 64),
    "max_managed_processes": (0, 1024, 64),
    "max_completed_processes": (0, 10000, 256),
    "max_admission_records": (1, 250000, 100000),
    "max_rpc_file_bytes": (1, 100 << 20, 20 << 20),
    "completed_process_retention_sec": (0, 86400, 300),
}


class Closed(Exception):
    """The connection ended; `code` is the WebSocket close code, where there is one."""

    def __init__(self, code=None, reason=""):
        super().__init__(f"closed {code} {reason}")
        self.code = code
        self.reason = reason


def how_closed(end):
    return Closed(end.rcvd.code, end.rcvd.reason) if end.rcvd else Closed()


class Client:
    """Requests and answers, matched by seq_id. A thread reads, so answers may come in any order."""

    carrier = "?"

    def __init__(self):
        self._queue = queue.Queue()
        self._kept = []
        self._closed = None
        self._seq = 0
        self.context = context()

    def _start(self):
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        self.close()

    # -- messages

    def next_seq(self):
        self._seq += 1
        return self._seq

    def send(self, message):
        self.send_text(json.dumps(message))

    def _pull(self, left):
        if self._closed:
            raise self._closed
        try:
            item = self._queue.get(timeout=max(left, 0.001))
        except queue.Empty:
            raise TimeoutError("no message") from None
        if isinstance(item, Closed):
            self._closed = item
            raise item
        return item

    def receive(self, seconds=10.0):
        """The next message, whatever it answers."""
        if self._kept:
            return self._kept.pop(0)
        return self._pull(seconds)

    def wait(self, seq, seconds=15.0):
        """The answer to a request; other answers are stored for later."""
        for index, message in enumerate(self._kept):
            if message.get("seq_id") == seq:
                return self._kept.pop(index)
        end = time.monotonic() + seconds
        while True:
            message = self._pull(end - time.monotonic())
            if message.get("seq_id") == seq:
                return message
            self._kept.append(message)

    def has_answer(self, seq):
        """Whether it has been answered yet. After the answer to a ping, everything sent before the
        ping has."""
        self.call("__ping")
        return any(message.get("seq_id") == seq for message in self._kept)

    def closed(self, seconds=10.0):
        """Waits for the end of the connection; returns how it ended."""
        end = time.monotonic() + seconds
        try:
            while True:
                self._kept.append(self._pull(end - time.monotonic()))
        except Closed as how:
            return how

    # -- actions

    def start(self, action, data=None, **members):
        """Sends a request and returns its seq_id. `context=None` leaves the context out."""
        message = {"seq_id": self.next_seq(), "action": action, "data": data or {}}
        message["context"] = members.pop("context", self.context)
        if message["context"] is None:
            del message["context"]
        message.update(members)
        self.send(message)
        return message["seq_id"]

    def call(self, action, data=None, seconds=15.0, **members):
        """The whole answer."""
        return self.wait(self.start(action, data, **members), seconds)

    def ask(self, action, data=None, seconds=15.0, **members):
        """The data of an answer that must be a success."""
        answer = self.call(action, data, seconds, **members)
        return success(answer)

    def fail(self, action, data=None, seconds=15.0, **members):
        """The message of an answer that must be an error."""
        return failure(self.call(action, data, seconds, **members))

    def init(self, **config):
        """box_init, by default with the fake backend."""
        config.setdefault("backend", "fake")
        assert self.ask("box_init", config) == {"initialized": True}
        return self

    def exec(self, cmd, session="s", seconds=15.0, context=..., **spec):
        members = {} if context is ... else {"context": context}
        return self.ask("box_exec", {"cmd": cmd, "session_id": session, **spec}, seconds, **members)


def success(answer):
    seq, data = answer.get("seq_id"), answer.get("data")
    assert answer == {
        "seq_id": seq,
        "code": 0,
        "message": "success",
        "data": data,
        "chunk_status": "continue",
    }, answer
    return data


def failure(answer):
    seq, text = answer.get("seq_id"), answer.get("message")
    assert answer == {
        "seq_id": seq,
        "code": 1,
        "message": text,
        "data": {},
        "chunk_status": "continue",
    }, answer
    return text


def context(workspace="ws1", generation=1, instance=INSTANCE, **more):
    return {
        "instance_uuid": instance,
        "workspace_uuid": workspace,
        "placement_generation": generation,
        **more,
    }


def physical(session, workspace="ws1", generation=1):
    """The name of a session in the backend."""
    digest = hashlib.sha256(f"{INSTANCE}\0{workspace}".encode()).hexdigest()[:24]
    return f"ws-{digest}-g{generation}-{session}"


def chunk_lines(text, piece=4096):
    """The lines of a message in chunked form."""
    yield {"type": "chunk_start", "total_size": len(text.encode())}
    offset = 0
    for at in range(0, len(text), piece):
        data = text[at : at + piece]
        yield {"type": "chunk_data", "data": data, "offset": offset}
        offset += len(data.encode())
    yield {"type": "chunk_end"}


class LineReader:
    """stdout of boxd as messages; checks the rules for lines and chunks."""

    def __init__(self, file):
        self.file = file
        self.lines_seen = collections.Counter()

    def _line(self):
        line = self.file.readline()
        if not line:
            raise EOFError
        assert len(line) <= LINE_BYTES_MAX and line.endswith(b"\n"), f"a line of {len(line)} bytes"
        return json.loads(line)

    def read(self):
        message = self._line()
        self.lines_seen[message.get("type", "plain")] += 1
        if message.get("type") != "chunk_start":
            return message
        total, text = message["total_size"], []
        size = 0
        assert total > CHUNK_BYTES
        while (message := self._line())["type"] == "chunk_data":
            piece = message["data"]
            assert message["offset"] == size and len(piece.encode()) <= CHUNK_BYTES
            size += len(piece.encode())
            text.append(piece)
        assert message == {"type": "chunk_end"} and size == total
        return json.loads("".join(text))


class Stdio(Client):
    """A client on the stdin and stdout of a boxd that was started with stdio=True."""

    carrier = "stdio"

    def __init__(self, boxd):
        super().__init__()
        self.boxd = boxd
        self.lines = LineReader(boxd.process.stdout)
        self._start()

    def _read(self):
        try:
            while True:
                self._queue.put(self.lines.read())
        except (EOFError, ValueError, OSError) as why:
            self._queue.put(Closed(reason=repr(why)))
        except AssertionError as why:
            self._queue.put(Closed(reason=f"BROKEN RULE: {why}"))

    def send_bytes(self, data):
        try:
            self.boxd.process.stdin.write(data)
            self.boxd.process.stdin.flush()
        except BrokenPipeError:
            raise Closed(reason="stdin is closed") from None

    def send_text(self, text):
        """Sends one message: as a line, or in chunked form."""
        if len(text.encode()) > CHUNK_BYTES:
            for line in chunk_lines(text):
                self.send_bytes(json.dumps(line).encode() + b"\n")
        else:
            self.send_bytes(text.encode() + b"\n")

    def close(self):
        with contextlib.suppress(BrokenPipeError):
            self.boxd.process.stdin.close()


class Web(Client):
    """A WebSocket client of a boxd."""

    carrier = "websocket"

    def __init__(self, boxd, token=None, instance=INSTANCE, headers=None, **options):
        super().__init__()
        self.boxd = boxd
        sent = {"X-LangBot-Instance-Id": instance} if instance else {}
        if token:
            sent["X-LangBot-Box-Control-Token"] = token
        options.setdefault("max_size", MESSAGE_BYTES_MAX)
        self.socket = websocket_connect(
            boxd.url,
            additional_headers={**sent, **(headers or {})},
            open_timeout=10,
            close_timeout=5,
            proxy=None,
            legacy=True,
            **options,
        )
        self._start()

    def _read(self):
        try:
            while True:
                message = self.socket.recv()
                self._queue.put(self._decode(message))
        except ConnectionClosed as end:
            self._queue.put(how_closed(end))

    def _decode(self, message):
        assert isinstance(message, str), "a binary answer to a text message"
        return json.loads(message)

    def send_text(self, text):
        try:
            self.socket.send(text)
        except ConnectionClosed as end:
            raise how_closed(end) from None

    def send_bytes(self, data):
        """Sends one binary message."""
        self.socket.send(data)

    def close(self):
        self.socket.close()
        self._reader.join(5)


class MsgpackStdio(Stdio):
    """One msgpack map after the other over the pipe; the first byte selects the codec."""

    def _read(self):
        unpacker = msgpack.Unpacker(max_buffer_size=2 * MESSAGE_BYTES_MAX)
        while data := self.boxd.process.stdout.read1(65536):
            unpacker.feed(data)
            for message in unpacker:
                self._queue.put(message)
        self._queue.put(Closed())

    def send(self, message):
        self.send_bytes(msgpack.packb(message))


class MsgpackWeb(Web):
    """Sends binary messages; `codec` tells whether an answer came as text or binary."""

    def _decode(self, message):
        if isinstance(message, str):
            return {"codec": "json", **super()._decode(message)}
        return {"codec": "msgpack", **msgpack.unpackb(message)}

    def _pull(self, left):
        message = super()._pull(left)
        if not getattr(self, "mixed", False):
            assert message.pop("codec") == "msgpack"
        return message

    def send(self, message):
        self.send_bytes(msgpack.packb(message))
