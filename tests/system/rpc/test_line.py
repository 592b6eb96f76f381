"""libbox's line (a connection that reconnects) on real runtimes over both transports: a lost
connection is reported and made again, one attempt at a time with growing pauses, and no step
blocks. Driven by tests/drivers/line_driver.c.
"""

import base64
import contextlib
import hashlib
import json
import os
import pathlib
import queue
import signal
import socket
import subprocess
import threading
import time

import pytest

import parallellib
from boxdlib import FAKE, Boxd, build, environment, is_alive, wait_until
from clientlib import INSTANCE

SECONDS = 30
TIMES = {"pause_ms": 100, "pause_max_ms": 400}
UNAVAILABLE = "BoxRuntimeUnavailableError: "
SLOW_US = 500_000  # of a step, on a busy machine and under sanitizers
JITTER = 0.11


class Line:
    """line_driver as a child: `lines` are its output so far."""

    def __init__(self, **told):
        env = environment(LANGBOT_BOX_TRUSTED_INSTANCE_UUID=INSTANCE)
        self.process = subprocess.Popen(
            [build() / "tests/drivers/line_driver", json.dumps({"config": FAKE, **TIMES, **told})],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=env,
        )
        self.pid = self.process.pid
        self.ids = 0
        self.said = []
        self.queue = queue.Queue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.queue.put((time.monotonic(), json.loads(line)))

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.process.stdin.close()
        code = self.process.wait(SECONDS)
        self.reader.join(SECONDS)
        self.process.stdout.close()
        if kind is None:
            over = self.expect("over")
            assert code == 0
            assert over["slowest_us"] < SLOW_US

    def next(self):
        at, said = self.queue.get(timeout=SECONDS)
        said["at"] = at
        self.said.append(said)
        return said

    def expect(self, event, **members):
        """The next one of this kind; earlier ones are stored in `said`."""
        while True:
            said = self.next()
            if said["event"] == event and members.items() <= said.items():
                return said

    def send(self, **message):
        self.ids += 1
        self.process.stdin.write(json.dumps({"id": self.ids, **message}).encode() + b"\n")
        self.process.stdin.flush()
        return self.ids

    def submit(self, action, **data):
        return self.send(action=action, data=data)

    def ask(self, action, **data):
        """The answer's data, or the text of the error."""
        asked = self.submit(action, **data)
        while True:
            said = self.next()
            if said.get("id") == asked:
                return said.get("data", said.get("error"))

    def children(self):
        return [int(pid) for pid in child_pids(self.pid)]


def child_pids(pid):
    return pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Runtime:
    """A runtime that can be killed and restarted, over either transport."""

    def __init__(self, carrier, folder):
        self.folder = folder
        self.port = free_port()
        self.boxd = None
        self.carrier = carrier
        self.start()

    def options(self):
        if self.carrier == "stdio":
            return {"boxd": str(build() / "boxd")}
        return {"endpoint": f"ws://127.0.0.1:{self.port}"}

    def start(self):
        """Over stdio the line restarts it."""
        if self.carrier == "websocket":
            self.boxd = Boxd(f"--ws-control-port={self.port}", cwd=self.folder)
            self.boxd.wait_served()

    def pids(self, line):
        boxd = self.boxd.pid if self.boxd else line.children()[0]
        return [boxd, *map(int, child_pids(boxd))]

    def worker(self, line):
        """box-rpc, which is not boxd's only child."""
        names = {int(pid): pathlib.Path(f"/proc/{pid}/comm").read_text() for pid in self.pids(line)}
        return next(pid for pid, name in names.items() if name == "box-rpc\n")

    def kill(self, line):
        """kill -9 of boxd; its box-rpc ends with it."""
        pids = self.pids(line)
        os.kill(pids[0], signal.SIGKILL)
        if self.boxd:
            self.boxd.process.wait(SECONDS)
            self.boxd.stop(check=False)
            self.boxd = None
        return pids

    def close(self):
        if self.boxd:
            self.boxd.stop()


@pytest.fixture(scope="module")
def scenes(request):
    with parallellib.begun(request) as made:
        yield made


@pytest.fixture
def runtime(carrier, tmp_path):
    with contextlib.closing(Runtime(carrier, tmp_path)) as made:
        yield made


def echo(line, text="x"):
    """Answered by the fake backend of the configuration, which was sent before the first request."""
    answer = line.ask("box_exec", session_id="s", cmd=f"echo {text}")
    assert answer["backend_name"] == "fake"
    return answer


@pytest.mark.usefixtures("scenes")  # it waits while others work
def test_killed_and_started_again_while_calls_are_under_way(runtime):
    with Line(**runtime.options()) as line:
        line.expect("up")
        assert echo(line, "one")["stdout"] == "one"
        asked = {line.submit("box_exec", session_id="s", cmd="sleep 20000") for _ in range(20)}
        assert line.ask("__ping") == {}
        pids = runtime.kill(line)
        lost = [line.expect("error") for _ in asked]
        assert {one["id"] for one in lost} == asked
        assert all(one["error"].startswith(UNAVAILABLE) for one in lost)
        down = line.expect("down")
        if runtime.carrier == "stdio":
            assert down["why"] == "boxd ended by signal 9"
        assert 100 * (1 - JITTER) <= down["pause_ms"] <= 100 * (1 + JITTER)
        # Immediately, and with the reason. Over stdio it may already be up again.
        if runtime.carrier == "websocket":
            refused = line.ask("box_status")
            assert refused.startswith(UNAVAILABLE + "the runtime is not reachable: ")
        runtime.start()
        line.expect("up")
        assert echo(line, "two")["stdout"] == "two"
        wait_until(lambda: not any(map(is_alive, pids)), what="the old ones are gone")
        if runtime.carrier == "stdio":
            assert len(line.children()) == 1


def test_killed_again_and_again(runtime):
    with Line(**runtime.options(), ping_interval_ms=50) as line:
        for turn in range(5):
            line.expect("up")
            assert echo(line, str(turn))["stdout"] == str(turn)
            runtime.kill(line)
            line.expect("down")
            runtime.start()
        line.expect("up")


def test_a_runtime_that_stands_still_is_given_up_and_found_again(runtime):
    with Line(**runtime.options(), ping_interval_ms=100, ping_wait_ms=200, connect_ms=2000) as line:
        line.expect("up")
        assert echo(line)["stdout"] == "x"
        stopped = runtime.worker(line)
        time.sleep(1)
        assert [one["event"] for one in line.said if one["event"] == "down"] == []
        asked = line.submit("box_exec", session_id="s", cmd="sleep 20000")
        os.kill(stopped, signal.SIGSTOP)
        try:
            lost = line.expect("error", id=asked)
            why = "the runtime does not answer: 3 pings in a row failed"
            assert lost["error"] == UNAVAILABLE + why
            assert line.expect("down")["why"] == why
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(stopped, signal.SIGCONT)
        line.expect("up")
        assert echo(line)["stdout"] == "x"


def test_every_kind_of_call(runtime):
    """Actions by name; what they send is checked by the unit tests."""
    with Line(**runtime.options()) as line:
        line.expect("up")
        assert echo(line)["exit_code"] == 0
        assert line.ask("box_file_read", session_id="s", path="a")["offset"] == 0
        assert "features" in line.ask("box_status")
        watch = line.send(
            action="box_file_watch", data={"session_id": "s", "path": "short"}, stream=True
        )
        assert line.expect("answer", id=watch)["data"]["event"] == "started"
        # A file is checked once all of it has arrived: zeros are not a ZIP. One that is too large
        # is not sent.
        asked = line.send(zip=200_000)
        assert line.expect("error", id=asked)["error"].startswith("Box")
        asked = line.send(zip=21 << 20)
        too_large = "ValueError: File transfer exceeds the configured size limit"
        assert line.expect("error", id=asked)["error"] == too_large


# --- broken servers


class Silent:
    """Accepts and sends nothing, or only the WebSocket handshake. Counts simultaneous connections."""

    def __init__(self, upgrades=False):
        self.upgrades = upgrades
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.accepted = []
        self.open = 0
        self.most = 0
        self.lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self.listener.accept()
                self.accepted.append(time.monotonic())
                threading.Thread(target=self._hold, args=(peer,), daemon=True).start()

    def _hold(self, peer):
        with self.lock:
            self.open += 1
            self.most = max(self.most, self.open)
        with contextlib.suppress(OSError), peer:
            head = b""
            while data := peer.recv(65536):
                head += data
                if self.upgrades and b"\r\n\r\n" in head:
                    peer.sendall(upgrade_for(head))
                    head = b""
        with self.lock:
            self.open -= 1

    def close(self):
        self.listener.close()


def upgrade_for(head):
    if not head.startswith(b"GET "):
        return b""
    key = next(
        line.split(b":", 1)[1].strip()
        for line in head.split(b"\r\n")
        if line.lower().startswith(b"sec-websocket-key:")
    )
    proof = hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()
    return (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: " + base64.b64encode(proof) + b"\r\n\r\n"
    )


def assert_growing(line, expected, why):
    for pause in expected:
        down = line.expect("down")
        assert down["why"] == why
        assert pause * (1 - JITTER) <= down["pause_ms"] <= pause * (1 + JITTER)


@pytest.mark.parametrize("upgrades", [False, True])
def test_a_server_that_says_nothing(upgrades):
    """One attempt at a time, each with a timeout, after growing pauses."""
    with contextlib.closing(Silent(upgrades)) as server:
        options = {"endpoint": f"ws://127.0.0.1:{server.port}", "connect_ms": 300}
        with Line(**options) as line:
            began = time.monotonic()
            why = "the runtime was not ready within 300 ms"
            assert_growing(line, [100, 200, 400, 400], why)
            assert time.monotonic() - began >= 4 * 0.3 + (0.1 + 0.2 + 0.4) * (1 - JITTER)
            refused = line.ask("box_status")
            assert refused == f"{UNAVAILABLE}the runtime is not reachable: {why}"
        assert len(server.accepted) in (4, 5)
        assert server.most == 1
        gaps = [b - a for a, b in zip(server.accepted, server.accepted[1:])]
        assert gaps[0] < gaps[1] < gaps[2]


def test_nobody_listens():
    port = free_port()
    with Line(endpoint=f"ws://127.0.0.1:{port}") as line:
        assert_growing(line, [100, 200, 400, 400], f"127.0.0.1:{port}: Connection refused")


def test_a_name_that_nobody_has():
    """A lookup does not block the loop, however long it takes."""
    with Line(endpoint="ws://no-such-host.invalid", connect_ms=3000) as line:
        assert line.expect("down")["why"]


def test_a_wrong_token(tmp_path):
    with Boxd(instance=INSTANCE, token="t" * 40, cwd=tmp_path) as boxd:
        with Line(endpoint=f"ws://127.0.0.1:{boxd.port}") as line:
            down = line.expect("down")
            assert "denied access (401)" in down["why"]
            assert line.ask("box_status").startswith(UNAVAILABLE)


# --- broken children


def script(folder, text):
    path = folder / "boxd"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_a_child_that_dies_at_once(tmp_path):
    with Line(boxd=script(tmp_path, "exit 3")) as line:
        assert_growing(line, [100, 200, 400, 400], "boxd ended with code 3")
        assert len(line.children()) <= 1


@parallellib.scene
def test_a_child_that_does_not_end(tmp_path):
    """It is killed before another one is started; meanwhile nothing blocks."""
    pids = tmp_path / "pids"
    # It reads nothing, and ignores SIGTERM.
    endless = script(tmp_path, f"echo $$ >>{pids}; trap '' TERM; while :; do sleep 0.2; done")
    with Line(boxd=endless, connect_ms=300) as line:
        line.expect("down")
        first = int(pids.read_text())
        assert is_alive(first)
        assert line.ask("box_status").startswith(UNAVAILABLE)
        line.expect("down")
        assert not is_alive(first)
        started = pids.read_text().split()
        assert len(started) == 2
    wait_until(lambda: not is_alive(int(started[1])), what="the second is gone")
