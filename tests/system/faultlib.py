"""Helpers of test_faults, test_limits and test_fence: boxd under watch, and bare clients.

The clients speak over plain sockets and pipes, so that a test decides about every byte, and adds
little time of its own to what it measures.
"""

import base64
import errno
import itertools
import json
import os
import pathlib
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

ROOT = os.geteuid() == 0
INSTANCE = "fault-instance"
MESSAGE_MAX = 16 * 1024 * 1024
PING = b'{"seq_id":1,"action":"__ping","data":{}}'
CONFIG = {"LANGBOT_BOX_CONFIG": '{"backend":"fake"}'}


def build():
    """The build with sanitizers."""
    return pathlib.Path(os.environ["BOX_BUILD"])


def fast_build():
    """The one with release speed: for times and sizes of memory."""
    return pathlib.Path(os.environ.get("BOX_RELEASE_FAKE") or os.environ["BOX_BUILD"])


def raise_open_files():
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most


def wait_until(condition, seconds=5.0, what="condition"):
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what() if callable(what) else what}")
        time.sleep(0.005)


def is_alive(pid):
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rsplit(")", 1)[1].split()[0] not in "ZX"


def status_of(pid):
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def rss_kb(pid):
    return int(status_of(pid)["VmRSS"].split()[0])


def peak_kb(pid):
    """The most memory that was resident at once since the start of the process."""
    return int(status_of(pid)["VmHWM"].split()[0])


def fd_names(pid):
    """Of processes that are not dumpable, as both of ours are, only root may see them."""
    names = {}
    for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            names[int(entry.name)] = os.readlink(entry)
        except FileNotFoundError:
            pass
    return names


def fd_count(pid):
    return len(fd_names(pid))


def percentile(values, part):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


def context(generation=1, workspace="ws1"):
    return {
        "instance_uuid": INSTANCE,
        "workspace_uuid": workspace,
        "placement_generation": generation,
    }


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


class Boxd:
    """A boxd of one's own, its log, and the pids of every box-rpc that it had."""

    def __init__(self, folder, *args, programs=None, env=None, before=(), port=0, **popen):
        self.folder = pathlib.Path(folder)
        environment = {
            "PATH": os.environ["PATH"],
            # The leak checker wants ptrace, which a process that is not dumpable forbids.
            "ASAN_OPTIONS": "detect_leaks=0",
            "UBSAN_OPTIONS": "print_stacktrace=1",
            **CONFIG,
            **(env or {}),
        }
        program = str((programs or build()) / "boxd")
        self.lines = []
        self.process = subprocess.Popen(
            [*before, program, "--log-format=json", f"--ws-control-port={port}", *args],
            env=environment,
            cwd=self.folder,
            stderr=subprocess.PIPE,
            **{"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, **popen},
        )
        self.pid = self.process.pid
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.stop(check=kind is None)

    def _read(self):
        for line in self.process.stderr:
            self.lines.append(line.decode(errors="replace").rstrip("\n"))

    def events(self, name, program=None):
        found = (json.loads(line) for line in list(self.lines) if line.startswith("{"))
        return [
            event
            for event in found
            if event["event"] == name and program in (None, event.get("program"))
        ]

    def wait_event(self, name, count=1, seconds=10.0):
        def arrived():
            return self.events(name)[count - 1 : count]

        return wait_until(arrived, seconds, lambda: f"event {count} {name}: {self.tail()}")[0]

    def tail(self):
        return "\n".join(self.lines[-20:])

    @property
    def port(self):
        return self.wait_event("listening")["port"]

    def workers(self):
        return [event["pid"] for event in self.events("worker.started")]

    @property
    def worker(self):
        self.wait_event("worker.started")
        return self.workers()[-1]

    def wait_served(self, count=1):
        self.wait_event("serving", count)
        return self

    def kill_worker(self):
        os.kill(self.worker, signal.SIGKILL)

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, seconds):
        """Waits for the end, and that nothing of it is left. The exit code."""
        code = self.process.wait(seconds)
        self.reader.join(5)
        assert not self.reader.is_alive(), "someone still holds boxd's stderr"
        self.check_gone()
        return code

    def check_gone(self):
        pids = [self.pid, *self.workers()]
        wait_until(
            lambda: not any(map(is_alive, pids)), 2, lambda: f"processes are left of {pids}"
        )

    def stop(self, check=True):
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                for pid in (*self.workers(), self.pid):
                    if is_alive(pid):
                        os.kill(pid, signal.SIGKILL)
                self.process.wait()
                assert not check, f"boxd did not end: {self.tail()}"
        self.reader.join(5)
        for stream in (self.process.stdin, self.process.stdout):
            if stream:
                try:
                    stream.close()
                except BrokenPipeError:
                    pass
        wrong = [line for line in self.lines if "Sanitizer" in line or "runtime error" in line]
        if check:
            assert not wrong, "\n".join(self.lines[-60:])
            self.check_gone()


class Closed(Exception):
    """The connection has ended: a close frame with this code, None without one."""

    def __init__(self, code=None, reason=""):
        super().__init__(f"{code} {reason}")
        self.code = code
        self.reason = reason


class Refused(Exception):
    """The handshake was answered with this status instead of 101."""

    def __init__(self, status):
        super().__init__(str(status))
        self.status = status


TEXT, BINARY, CLOSE, PING_FRAME, PONG = 1, 2, 8, 9, 10


def frame(payload=b"", opcode=TEXT, fin=True, rsv=0, mask=b"\0\0\0\0", declared=None):
    """A client's frame. The mask of zeros leaves the payload as it is; None leaves it out."""
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


def head_of(instance=INSTANCE, path="/rpc/ws", extra=()):
    lines = [
        f"GET {path} HTTP/1.1",
        "Host: localhost",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: " + base64.b64encode(b"0123456789abcdef").decode(),
        f"X-LangBot-Instance-Id: {instance}",
        *extra,
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def dial(port, source="127.0.0.1", timeout=10):
    made = socket.create_connection(("127.0.0.1", port), timeout, (source, 0))
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


class Ws:
    """A WebSocket client on a plain socket."""

    def __init__(self, port, instance=INSTANCE, source="127.0.0.1", timeout=20, sock=None):
        self.sock = sock or dial(port, source, timeout)
        self.seqs = itertools.count(100)
        self.buffer = bytearray()
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

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        self.close()

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
        """The next whole message. Pings are answered, a close is raised."""
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

    def ask(self, action, data=None, ctx=None):
        seq = next(self.seqs)
        self.send(request(action, data, seq, ctx))
        while True:
            answer = json.loads(self.recv())
            if answer["seq_id"] == seq:
                return answer

    def call(self, action, data=None, ctx=None):
        answer = self.ask(action, data, ctx)
        assert answer["code"] == 0, answer
        return answer["data"]

    def ping(self):
        self.call("__ping")

    def wait_closed(self, seconds=10):
        """The Closed that ends this connection."""
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
        """Many pings, not one by one."""
        self.send(PING)
        answer = len(frame(self.recv(), mask=None))
        for done in range(0, count, at_once):
            pings = min(at_once, count - done)
            self.sock.sendall(frame(PING) * pings)
            self._take(pings * answer)


class Stdio:
    """boxd -s and the parent's end of its pipes."""

    def __init__(self, folder, *args, env=None, **options):
        environment = {"LANGBOT_BOX_TRUSTED_INSTANCE_UUID": INSTANCE, **(env or {})}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, **options}
        self.boxd = Boxd(folder, "-s", *args, env=environment, bufsize=0, **pipes)
        self.stdin = self.boxd.process.stdin
        self.stdout = self.boxd.process.stdout
        self.buffer = bytearray()
        self.seqs = itertools.count(100)

    def __enter__(self):
        return self

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

    def recv(self):
        message = json.loads(self.line())
        if message.get("type") != "chunk_start":
            return message
        parts = []
        while True:
            piece = json.loads(self.line())
            if piece["type"] == "chunk_end":
                return json.loads("".join(parts))
            parts.append(piece["data"])

    def ask(self, action, data=None, ctx=None):
        seq = next(self.seqs)
        self.send(request(action, data, seq, ctx))
        while True:
            answer = self.recv()
            if answer["seq_id"] == seq:
                return answer

    def call(self, action, data=None, ctx=None):
        answer = self.ask(action, data, ctx)
        assert answer["code"] == 0, answer
        return answer["data"]


def chunks(message, piece=16384):
    """An ASCII message in the chunk form."""
    lines = [json.dumps({"type": "chunk_start", "total_size": len(message)})]
    for offset in range(0, len(message), piece):
        data = message[offset : offset + piece].decode()
        lines.append(json.dumps({"type": "chunk_data", "data": data, "offset": offset}))
    return "\n".join([*lines, '{"type":"chunk_end"}']).encode()


CROWD = """
import resource, select, socket, sys
port, count, addresses = (int(text) for text in sys.argv[1:4])
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
socks = []
for i in range(count):
    one = socket.create_connection(("127.0.0.1", port), 20, ("127.0.0.%d" % (2 + i % addresses), 0))
    if i % 2:
        try:
            one.sendall(b"GET /rpc/ws HTTP/1.1\\r\\nHost: loc")
        except OSError:
            pass
    socks.append(one)
print("there", flush=True)
poll = select.poll()
for one in socks:
    poll.register(one, select.POLLIN | select.POLLRDHUP)
while sys.stdin.readline():
    print(len(poll.poll(0)), flush=True)
"""


class Crowd:
    """Sockets, held by a process of their own, that say nothing or half a head."""

    def __init__(self, port, count, addresses=20):
        self.count = count
        self.process = subprocess.Popen(
            [sys.executable, "-c", CROWD, str(port), str(count), str(addresses)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self):
        assert self.process.stdout.readline() == "there\n"
        return self

    def __exit__(self, *ignored):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def gone(self):
        """How many the server has closed."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())


def refuses(port):
    """Whether nobody listens."""
    try:
        dial(port, timeout=5).close()
        return False
    except OSError as error:
        return error.errno == errno.ECONNREFUSED
