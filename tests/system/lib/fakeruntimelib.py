"""A fake runtime for tests of the `box` command: it plays live commands by a script.

The first word of `cmd` selects the scene, see `Play`. What the client sent is recorded: `requests`,
`specs`, `ttys`, `acks`, `signals`, `sizes`, `cancelled`, `deleted`. Violations of the protocol are
recorded in `broken`.
"""

import contextlib
import socket
import threading
import time

import msgpack
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import serve

WINDOW = 8
SESSION = {
    "session_id": "there",
    "status": "idle",
    "backend_name": "fake",
    "image": "some-image",
    "network": "on",
    "host_path": None,
    "host_path_mode": "rw",
    "mount_path": "/workspace",
    "persistent": True,
    "cpus": 0.5,
    "memory_mb": 64,
    "pids_limit": 9,
    "read_only_rootfs": False,
    "workspace_quota_mb": 0,
    "created_at": "2026-01-02T03:04:05.000000Z",
}


class Play:
    """One live command on one connection."""

    def __init__(self, server, socket, request):
        self.server, self.socket = server, socket
        self.seq = request["seq_id"]
        self.index = self.acknowledged = 0
        self.queue = []
        self.over = False
        self.wants_input = request["data"]["stdin"]
        name, *words = request["data"]["cmd"].removeprefix("exec ").split()
        if name != "never":
            self.event("started", exec_id="exec-7")
        getattr(self, f"play_{name}")(*words)
        self.pump()

    def event(self, event, **members):
        self.queue.append({"event": event, **members})

    def exit(self, code, status="completed", reason="exit", signal=None):
        self.event(
            "exit",
            status=status,
            exit_code=code,
            duration_ms=1,
            end={"reason": reason, "signal": signal},
        )
        self.over = True

    def pump(self):
        """Sends as much as the window allows; an empty piece at the end closes the stream."""
        while self.queue and self.index - self.acknowledged < WINDOW:
            self.index += 1
            self.server.answer(self.socket, self.seq, self.queue.pop(0), stream_index=self.index)
            self.server.sent.append(self.index)
        if self.over and not self.queue:
            self.server.answer(self.socket, self.seq, {}, chunk_status="end")
            self.over = False

    def ack(self, index):
        if not self.acknowledged < index <= self.index:
            self.server.broken.append(f"ack {index} of {self.index}")
        self.acknowledged = index
        self.pump()

    def input(self, data, eof):
        """How most scenes handle input."""

    def signal(self, number):
        """How most scenes handle a signal."""
        self.exit(128 + number, reason="signal", signal=number)
        self.pump()

    # -- the scenes

    def play_exit(self, code):
        self.exit(int(code))

    def play_both(self):
        self.event("stdout", data=b"out 1\n")
        self.event("stderr", data=b"err 1\n")
        self.event("stdout", data=b"\x00\xff no newline")
        self.exit(0)

    def play_never(self):
        """Fails to start."""

    def play_live(self):
        """Ends when the test says so."""
        self.event("stdout", data=b"first\n")
        self.server.live = self

    def play_many(self, count, size):
        for number in range(int(count)):
            self.event("stdout", data=bytes([number % 251]) * int(size))
        self.exit(0)

    def play_cat(self):
        self.input = self.cat_input
        if not self.wants_input:
            self.exit(0)

    def cat_input(self, data, eof):
        if data:
            self.event("stdout", data=data)
        if eof:
            self.exit(0)

    def play_deaf(self):
        """Ends while input is still being sent."""
        self.input = None
        self.event("stdout", data=b"deaf\n")

    def play_tough(self):
        """Ignores signals."""
        self.signal = lambda number: None
        self.event("stdout", data=b"first\n")

    def play_hang(self):
        self.server.hanging.set()

    def play_signal(self):
        self.exit(143, reason="signal", signal=15)

    def play_memory(self):
        self.event("stderr", data=b"Killed\n")
        self.exit(137, reason="memory")

    def play_timeout(self):
        self.event("stdout", data=b"so far")
        self.exit(None, status="timed_out", reason="timeout")

    def play_noexit(self):
        self.over = True

    def play_drop(self):
        self.event("stdout", data=b"partial")
        self.pump()
        self.socket.close(1001, "Box runtime\x1b[31m gone")


class StreamServer:
    """Use it as a context manager; `url` is for --endpoint."""

    def __init__(self):
        self.requests, self.specs, self.acks, self.sent = [], [], [], []
        self.cancelled, self.deleted, self.inputs, self.broken = [], [], [], []
        self.ttys, self.signals, self.sizes = [], [], []
        self.headers = None
        self.live = None
        self.hanging = threading.Event()
        self.hung = threading.Event()  # another one in its place: nothing is served until it is set
        self.hung.set()
        self.plays = {}
        self.connections = []

    def __enter__(self):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = "ws://127.0.0.1:%d" % self._listener.getsockname()[1]
        self._server = serve(
            self._handle, sock=self._listener, max_size=1 << 25, ping_interval=None
        )
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *ignored):
        self._server.shutdown()
        self._thread.join(10)
        assert not self.broken, self.broken

    def answer(self, socket, seq, data, code=0, message="success", **members):
        answer = {"seq_id": seq, "code": code, "message": message, "data": data}
        socket.send(msgpack.packb({**answer, "chunk_status": "continue", **members}))

    def _handle(self, socket):
        self.headers = socket.request.headers
        self.connections.append(socket)
        with contextlib.suppress(ConnectionClosed):
            for message in socket:
                self.hung.wait()
                if not isinstance(message, bytes):
                    self.broken.append("a text message")
                self._serve(socket, msgpack.unpackb(message))

    def _serve(self, socket, request):
        action, data, seq = request["action"], request["data"], request["seq_id"]
        self.requests.append(action)
        if action == "box_exec_stream":
            if request.get("stream_flow_control") != 1:
                self.broken.append("no flow control")
            self.ttys.append(data.pop("tty"))
            self.specs.append(data)
            self.plays[seq] = Play(self, socket, request)
        elif action == "box_exec_input":
            self._input(socket, seq, data)
        elif action == "box_exec_signal":
            self.signals.append(data["signal"])
            self.answer(socket, seq, {})
            list(self.plays.values())[-1].signal(data["signal"])
        elif action == "box_exec_resize":
            self.sizes.append((data["rows"], data["cols"]))
            self.answer(socket, seq, {})
        elif action == "__stream_ack":
            self.acks.append(data["index"])
            self.plays[data["seq_id"]].ack(data["index"])
            self.answer(socket, seq, {"accepted": True})
        elif action == "__cancel_action":
            self.cancelled.append(data["seq_id"])
            self.answer(socket, seq, {"cancelled": data["seq_id"] in self.plays})
        elif action == "box_delete_session":
            self.deleted.append(data["session_id"])
            self.answer(socket, seq, {"deleted": data["session_id"]})
        elif action == "box_get_session":
            self.answer(socket, seq, SESSION)
        elif action == "box_exec":
            self.hanging.set()  # and no answer comes
        elif action == "__ping":
            self.answer(socket, seq, {})
        else:
            self.broken.append(action)

    def _input(self, socket, seq, data):
        play = list(self.plays.values())[-1]
        if data["exec_id"] != "exec-7" or not isinstance(data["data"], bytes):
            self.broken.append(f"input {data}")
        self.inputs.append((data["data"], data["eof"]))
        if play.input is None:
            play.exit(5)
            play.pump()
            why = "BoxValidationError: the command has ended"
            self.answer(socket, seq, {}, code=1, message=why)
            return
        time.sleep(0.001)  # the client must wait for the answer before it sends the next
        self.answer(socket, seq, {})
        play.input(data["data"], data["eof"])
        play.pump()
