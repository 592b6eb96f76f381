"""What the system tests share: boxd as a child, and a small JSON client for both carriers.

`Boxd` starts boxd, collects its log and ends it. `Stdio` and `Web` are clients with one
interface (`Client`). Everything that waits has a timeout. Environment: see `build`.
"""

import collections
import contextlib
import http.client
import json
import os
import pathlib
import queue
import shutil
import signal
import socket
import subprocess
import threading
import time

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


def build(variable="BOX_BUILD"):
    """The build folder that a variable names: BOX_BUILD, BOX_RELEASE or BOX_RELEASE_FAKE."""
    folder = os.environ.get(variable)
    assert folder, f"{variable} must name a build folder"
    return pathlib.Path(folder)


def program(name="boxd", variable="BOX_BUILD"):
    path = build(variable) / name
    assert path.is_file(), f"{path} is not built"
    return path


def environment(**extra):
    """What a child gets: enough to run, and nothing of ours that changes its behaviour."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith("LANGBOT_BOX_")
    }
    # LeakSanitizer needs ptrace, which a process that is not dumpable forbids.
    return {**kept, "ASAN_OPTIONS": "detect_leaks=0", **extra}


def wait_until(condition, seconds=10.0, what="condition"):
    """Polls, for what has no event to wait for; gives what the condition gave."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"not within {seconds} s: {what}")


def is_alive(pid):
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


class Boxd:
    """boxd as a child. Use it as a context manager: it is ended and waited for at the end."""

    def __init__(
        self,
        *args,
        stdio=False,
        env=None,
        token=None,
        instance=None,
        config=None,
        variable="BOX_BUILD",
        cwd=None,
        log_level="info",
    ):
        extra = dict(env or {})
        if token:
            extra["LANGBOT_BOX_CONTROL_TOKEN"] = token
        if instance or stdio:
            extra["LANGBOT_BOX_TRUSTED_INSTANCE_UUID"] = instance or INSTANCE
        if config is not None:
            extra["LANGBOT_BOX_CONFIG"] = json.dumps(config)
        self.token = token
        self.lines = []
        self._changed = threading.Condition()
        command = [str(program("boxd", variable)), "--log-format=json", f"--log-level={log_level}"]
        if not any(arg.startswith("--ws-control-port") for arg in args):
            command.append("--ws-control-port=0")
        self.process = subprocess.Popen(
            [*command, *(["-s"] if stdio else []), *args],
            env=environment(**extra),
            cwd=cwd,
            stdin=subprocess.PIPE if stdio else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.pid = self.process.pid
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.stop(check=kind is None)

    def _read(self):
        for line in self.process.stderr:
            with self._changed:
                self.lines.append(line.decode(errors="replace").rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def events(self, name):
        """What was logged so far under this event name, as maps."""
        found = [json.loads(line) for line in list(self.lines) if line.startswith("{")]
        return [event for event in found if event["event"] == name]

    def wait_event(self, name, count=1, seconds=10.0):
        """Waits for the count-th event of this name and gives it."""
        end = time.monotonic() + seconds
        with self._changed:
            while len(self.events(name)) < count:
                left = end - time.monotonic()
                assert left > 0, f"no event {name} ({count}): {self.lines}"
                self._changed.wait(left)
        return self.events(name)[count - 1]

    @property
    def port(self):
        self.wait_event("serving")
        return self.wait_event("listening")["port"]

    @property
    def worker(self):
        """The pid of the box-rpc that was started last."""
        self.wait_event("worker.started")
        return self.events("worker.started")[-1]["pid"]

    @property
    def url(self):
        return f"ws://127.0.0.1:{self.port}/rpc/ws"

    def web(self, **options):
        """A WebSocket client of this boxd."""
        options.setdefault("token", self.token)
        return Web(self, **options)

    def http(self, path, method="GET", headers=None, body=None):
        """One HTTP request: (status, headers, body)."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        with contextlib.closing(connection):
            connection.request(method, path, headers=headers or {}, body=body)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()

    def wait(self, seconds=10.0):
        """Waits for the end; the exit code."""
        code = self.process.wait(seconds)
        self._reader.join(5)
        return code

    def stop(self, check=True):
        if self.process.stdin:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)
        self._reader.join(5)
        self.process.stdout.close()
        self.process.stderr.close()
        if check:
            self.check_log()

    def check_log(self):
        """No sanitizer spoke."""
        bad = [line for line in self.lines if "Sanitizer" in line or "runtime error:" in line]
        assert not bad, "\n".join(self.lines)


class Closed(Exception):
    """The connection ended; `code` is the WebSocket close code, where there is one."""

    def __init__(self, code=None, reason=""):
        super().__init__(f"closed {code} {reason}")
        self.code = code
        self.reason = reason


def how_closed(end):
    return Closed(end.rcvd.code, end.rcvd.reason) if end.rcvd else Closed()


class Client:
    """Requests and answers by seq_id. A thread reads, so answers may come in any order."""

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
        """The answer to a request; others are kept for later."""
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
        """Whether an answer to it has come by now; everything sent before a ping has."""
        self.call("__ping")
        return any(message.get("seq_id") == seq for message in self._kept)

    def closed(self, seconds=10.0):
        """Waits for the end of the connection; gives how it ended."""
        end = time.monotonic() + seconds
        try:
            while True:
                self._kept.append(self._pull(end - time.monotonic()))
        except Closed as how:
            return how

    # -- actions

    def start(self, action, data=None, **members):
        """Sends a request and gives its seq_id. `context=None` leaves the context out."""
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
        """box_init, with the fake backend unless told otherwise."""
        config.setdefault("backend", "fake")
        assert self.ask("box_init", config) == {"initialized": True}
        return self

    def exec(self, cmd, session="s", seconds=15.0, context=..., **spec):
        members = {} if context is ... else {"context": context}
        return self.ask(
            "box_exec", {"cmd": cmd, "session_id": session, **spec}, seconds, **members
        )


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


def chunk_lines(text):
    """The lines of the chunk form of a message."""
    yield {"type": "chunk_start", "total_size": len(text.encode())}
    offset = 0
    for at in range(0, len(text), 4096):
        piece = text[at : at + 4096]
        yield {"type": "chunk_data", "data": piece, "offset": offset}
        offset += len(piece.encode())
    yield {"type": "chunk_end"}


class LineReader:
    """stdout of boxd as messages; holds it to the rules of PROTOCOL.md for lines and chunks."""

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
    """Speaks to the stdin and stdout of a boxd that was started with stdio=True."""

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
        """One message: a line, or the chunk form."""
        if len(text.encode()) > CHUNK_BYTES:
            for line in chunk_lines(text):
                self.send_bytes(json.dumps(line).encode() + b"\n")
        else:
            self.send_bytes(text.encode() + b"\n")

    def close(self):
        with contextlib.suppress(BrokenPipeError):
            self.boxd.process.stdin.close()


class Web(Client):
    """Speaks WebSocket to a boxd."""

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
        """One binary message."""
        self.socket.send(data)

    def close(self):
        self.socket.close()
        self._reader.join(5)


@contextlib.contextmanager
def raw_websocket(boxd):
    """A socket behind a finished upgrade, for tests that write frames themselves."""
    head = (
        "GET /rpc/ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        f"X-LangBot-Instance-Id: {INSTANCE}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", boxd.port), timeout=10) as raw:
        raw.sendall(head.encode())
        answer = b""
        while b"\r\n\r\n" not in answer:
            piece = raw.recv(4096)
            assert piece, answer
            answer += piece
        assert answer.startswith(b"HTTP/1.1 101 "), answer
        yield raw


@contextlib.contextmanager
def dialled(carrier, **options):
    """A client on this carrier, and the boxd that it speaks to (`client.boxd`)."""
    with Boxd(stdio=carrier == "stdio", **options) as boxd:
        if carrier == "stdio":
            with Stdio(boxd) as client:
                yield client
        else:
            with boxd.web() as client:
                yield client


def copy_programs(target, variable="BOX_BUILD"):
    """boxd and box-rpc of a build, copied side by side into a folder."""
    target.mkdir(parents=True, exist_ok=True)
    for name in ("boxd", "box-rpc"):
        shutil.copy(program(name, variable), target / name)
    return target
