"""What clients see, and what is left behind, when processes are killed, stopped or reloaded."""

import signal
import socket
import subprocess
import threading
import time

import pytest

import parallellib
from boxdlib import (
    ROOT,
    STALL_SECONDS,
    build,
    fake_boxd,
    fast_build,
    fd_count,
    is_alive,
    settled_fd_count,
    wait_until,
)
from clientlib import Closed, context
from rawlib import Pipes, Refused, Ws, dial, exec_data, head_of, refuses, request
from crowdlib import percentile, raise_open_files

CLIENTS = 8
SERVED_AGAIN = 1.0  # mostly; no longer than a stall more
GRACE_SECONDS = 5  # BOX_SHUTDOWN_GRACE_MS
ROOT_SEES = "the fds of a process that is not dumpable are root's to see"
GOING_AWAY = (1001, "Box runtime shutting down")


@pytest.fixture(scope="module")
def scenes(request):
    with parallellib.begun(request) as made:
        yield made


# kill -9 of box-rpc.


class Client(threading.Thread):
    """Pings all the time, and reconnects whenever the connection ends."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port = port
        self.ended = threading.Event()
        self.answered = 0.0  # when, and
        self.dialled = 0.0  # on a connection from when
        self.wrong = []

    def run(self):
        while not self.ended.is_set():
            dialled = time.monotonic()
            try:
                with Ws(self.port) as ws:
                    while not self.ended.is_set():
                        ws.ping()
                        self.answered, self.dialled = time.monotonic(), dialled
                        self.ended.wait(0.002)
            except (Closed, ConnectionError):
                pass
            except Exception as error:  # pylint: disable=broad-except
                self.wrong.append(repr(error))
                return

    def served_since(self, moment):
        return self.answered if self.answered > moment and self.dialled > moment else None


class Connector(threading.Thread):
    """Connects all the time, and records failures."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port = port
        self.ended = threading.Event()
        self.wrong = []
        self.count = 0

    def run(self):
        while not self.ended.is_set():
            try:
                socket.create_connection(("127.0.0.1", self.port), 10).close()
                self.count += 1
            except OSError as error:
                self.wrong.append(repr(error))
            self.ended.wait(0.002)


def kill_again_and_again(boxd, kills, gap):
    """The seconds from each kill until all clients are served again."""
    found = []
    threads = [Connector(boxd.port), *(Client(boxd.port) for _ in range(CLIENTS))]
    clients = threads[1:]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: all(client.answered for client in clients), 10, "the first pings")
        for number in range(kills):
            killed = time.monotonic()
            boxd.kill_worker()
            wait_until(
                lambda moment=killed: all(client.served_since(moment) for client in clients),
                10,
                lambda: f"pings after kill {number + 1}: {boxd.tail()}",
            )
            boxd.wait_served(number + 2)
            found.append(max(client.served_since(killed) for client in clients) - killed)
            time.sleep(gap)
    finally:
        for thread in threads:
            thread.ended.set()
        for thread in threads:
            thread.join(25)
    assert threads[0].count > kills
    assert [thread.wrong for thread in threads] == [[]] * len(threads)
    return found


def check_killed(tmp_path, kills, gap, programs):
    with fake_boxd(tmp_path, programs=programs) as boxd:
        with Ws(boxd.port) as ws:
            ws.call("box_init", {"backend": "fake", "limits": {"max_sessions": 7}})
            ws.call("box_status", ctx=context(generation=5))
        fds = ROOT and settled_fd_count(boxd.pid)
        found = kill_again_and_again(boxd, kills, gap)
        print(f"served again after {max(found):.3f} s at worst, {kills} kills")
        with pytest.raises(Refused) as refused:
            Ws(boxd.port, instance="another-instance")
        assert refused.value.status == 401
        with Ws(boxd.port) as ws:
            status = ws.call("box_status", ctx=context(generation=5))
            assert status["limits"]["max_sessions"] == 7
            assert status["backend"]["name"] == "fake"
            stale = ws.ask("box_status", ctx=context(generation=4))
            assert stale["message"] == "PermissionError: Stale Box placement generation"
        assert len(boxd.workers()) == kills + 1
        if ROOT:
            wait_until(lambda: settled_fd_count(boxd.pid) == fds, 20, f"{fds} fds again")
        assert percentile(found, 0.5) < SERVED_AGAIN, found
        assert max(found) < SERVED_AGAIN + STALL_SECONDS, found


@pytest.mark.timeout(120)
def test_worker_killed(tmp_path):
    check_killed(tmp_path, 5, 0, build())


@pytest.mark.soak
@pytest.mark.timeout(2400)
def test_worker_killed_200_times(tmp_path):
    check_killed(tmp_path, 200, 0, fast_build())


@pytest.mark.timeout(60)
def test_worker_killed_with_an_exec(tmp_path):
    """The connection ends; nobody waits for an answer that cannot come."""
    with fake_boxd(tmp_path) as boxd, Ws(boxd.port) as ws:
        ws.ping()
        ws.send(request("box_exec", exec_data("sleep 60000", timeout_sec=300), 1, context()))
        ws.ping()
        boxd.kill_worker()
        assert ws.wait_closed().code is None
        with Ws(boxd.port) as again:
            assert again.call("box_exec", exec_data("echo hi"), context())["stdout"] == "hi"


@pytest.mark.timeout(60)
def test_boxd_killed(tmp_path):
    """box-rpc ends with boxd, and the port is free again."""
    with fake_boxd(tmp_path) as boxd, Ws(boxd.port) as ws:
        ws.ping()
        port, worker = boxd.port, boxd.worker
        boxd.signal(signal.SIGKILL)
        assert ws.wait_closed().code is None
        assert boxd.wait(10) == -signal.SIGKILL
        assert not is_alive(worker)
        assert refuses(port)


# SIGTERM.


def terminate(boxd):
    boxd.signal(signal.SIGTERM)
    return time.monotonic()


@pytest.mark.usefixtures("scenes")  # they wait while others work
@pytest.mark.timeout(60)
def test_stop_when_idle(tmp_path):
    with fake_boxd(tmp_path) as boxd:
        clients = [Ws(boxd.port) for _ in range(CLIENTS)]
        for client in clients:
            client.ping()
        port = boxd.port
        started = terminate(boxd)
        ends = [client.wait_closed(10) for client in clients]
        assert [(end.code, end.reason) for end in ends] == [GOING_AWAY] * CLIENTS
        for client in clients:
            client.close()
        assert boxd.wait(10) == 0
        assert time.monotonic() - started < GRACE_SECONDS
        assert refuses(port)


@pytest.mark.timeout(60)
def test_stop_with_clients_that_say_nothing(tmp_path):
    """Neither silent sockets nor clients that do not answer the close delay it."""
    with fake_boxd(tmp_path) as boxd:
        with Ws(boxd.port) as ws, dial(boxd.port) as silent, dial(boxd.port) as half:
            half.sendall(head_of()[:40])
            ws.ping()
            assert silent.getpeername()
            started = terminate(boxd)
            assert boxd.wait(10) == 0
            assert time.monotonic() - started < GRACE_SECONDS


@pytest.mark.timeout(60)
@parallellib.scene
def test_stop_finishes_what_runs(tmp_path):
    with fake_boxd(tmp_path) as boxd, Ws(boxd.port) as ws, Ws(boxd.port) as idle:
        idle.ping()
        ws.ping()
        ws.send(request("box_exec", exec_data("sleep 3000"), 5, context()))
        ws.ping()
        started = terminate(boxd)
        boxd.wait_event("stopping", 2)  # boxd's own, and box-rpc's
        with dial(boxd.port, timeout=0.3) as late:
            late.sendall(head_of())
            with pytest.raises(OSError):  # it times out, or is reset: it is not served
                assert late.recv(100) == b"", "a new connection was served"
                raise ConnectionError
        refused = idle.ask("box_exec", exec_data("echo late", "t"), context())
        assert refused["message"].startswith("BoxRuntimeUnavailableError: ")
        answer = ws.answer()
        assert (answer["seq_id"], answer["code"], answer["data"]["exit_code"]) == (5, 0, 0)
        assert time.monotonic() - started > 0.2  # it ran still when all of that was refused
        for client in (ws, idle):
            end = client.wait_closed(10)
            assert (end.code, end.reason) == GOING_AWAY
            client.close()
        assert boxd.wait(10) == 0
        assert time.monotonic() - started < 3 + GRACE_SECONDS


@pytest.mark.timeout(60)
@parallellib.scene
def test_stop_cancels_what_runs_long(tmp_path):
    with fake_boxd(tmp_path) as boxd, Ws(boxd.port) as ws:
        ws.send(request("box_exec", exec_data("sleep 60000", timeout_sec=300), 5, context()))
        ws.ping()
        started = terminate(boxd)
        ws.sock.settimeout(10)
        answer = ws.answer()
        assert (answer["seq_id"], answer["code"]) == (5, 1)
        assert answer["message"].startswith("BoxRuntimeUnavailableError: ")
        end = ws.wait_closed()
        assert (end.code, end.reason) == GOING_AWAY
        ws.close()
        assert boxd.wait(10) == 0
        assert time.monotonic() - started < 10


@pytest.mark.timeout(60)
def test_stop_with_answers_that_nobody_reads(tmp_path):
    with fake_boxd(tmp_path) as boxd, Ws(boxd.port) as ws:
        for seq in range(20):
            ws.send(request("box_exec", exec_data("print 1000000", str(seq)), seq, context()))
        with Ws(boxd.port) as other:
            wait_until(lambda: other.call("box_status", ctx=context())["active_sessions"] >= 10, 10)
        started = terminate(boxd)
        assert boxd.wait(10) == 0
        assert time.monotonic() - started < 10


# SIGHUP.


def limits_of(ws):
    return ws.call("box_status", ctx=context())["limits"]


@pytest.mark.timeout(60)
def test_reload(tmp_path):
    config = tmp_path / "box.yaml"
    config.write_text("limits:\n  max_sessions: 11\n  max_completed_processes: 21\n")
    with fake_boxd(tmp_path, "--config", str(config)) as boxd, Ws(boxd.port) as ws:
        assert limits_of(ws)["max_sessions"] == 11
        ws.call("box_init", {"limits": {"max_completed_processes": 99}})

        config.write_text("limits:\n  max_sessions: 12\n  max_completed_processes: 22\n")
        boxd.signal(signal.SIGHUP)
        boxd.wait_event("config.reloaded")
        assert limits_of(ws)["max_sessions"] == 12
        assert limits_of(ws)["max_completed_processes"] == 99, "the client's own value is lost"

        for count, wrong in enumerate(("limits:\n  max_sessions: many\n", "limits: [", "- a\n"), 1):
            config.write_text(wrong)
            boxd.signal(signal.SIGHUP)
            refused = boxd.wait_event("config.reload_refused", count)
            assert str(config) in refused["why"]
            assert limits_of(ws)["max_sessions"] == 12
        assert ":2: limits.max_sessions must" in boxd.events("config.reload_refused")[0]["why"]

        config.unlink()
        boxd.signal(signal.SIGHUP)
        assert "No such file" in boxd.wait_event("reload.failed")["why"]
        assert limits_of(ws)["max_sessions"] == 12

        config.write_text("limits:\n  max_sessions: 13\n")
        boxd.signal(signal.SIGHUP)
        boxd.wait_event("config.reloaded", 2)
        assert limits_of(ws)["max_sessions"] == 13
        assert limits_of(ws)["max_completed_processes"] == 99
        assert len(boxd.workers()) == 1


@pytest.mark.timeout(60)
def test_reload_without_a_file(tmp_path):
    with fake_boxd(tmp_path) as boxd, Ws(boxd.port) as ws:
        boxd.signal(signal.SIGHUP)
        boxd.wait_event("reload.nothing")
        ws.ping()


# Nothing is left behind.


def come_and_go(boxd, count):
    """Connections of all kinds: used, abandoned half-way, refused."""
    port = boxd.port
    for number in range(count):
        kind = number % 5
        if kind == 0:
            dial(port).close()
        elif kind == 1:
            with dial(port) as half:
                half.sendall(head_of()[:60])
        elif kind == 2:
            with pytest.raises(Refused):
                Ws(port, instance="-malformed")
        else:
            with Ws(port) as ws:
                ws.ping()
                if kind == 3:
                    ws.send(request("box_exec", exec_data("sleep 9000"), 1, context()))
                else:
                    ws.send(b"\x03\xe8", opcode=8)
                    assert ws.wait_closed(5).code == 1000


def check_fds(tmp_path, count, programs):
    raise_open_files()
    with fake_boxd(tmp_path, programs=programs) as boxd:
        with Ws(boxd.port) as ws:
            ws.ping()
        pids = (boxd.pid, boxd.worker)
        come_and_go(boxd, 20)
        time.sleep(0.2)
        settled_fd_count(boxd.pid)
        before = [fd_count(pid) for pid in pids]
        come_and_go(boxd, count)
        wait_until(
            lambda: all(fd_count(pid) <= count for pid, count in zip(pids, before)),
            15,
            lambda: f"{before} fds, then {[fd_count(pid) for pid in pids]}",
        )
        assert boxd.worker == pids[1]


@pytest.mark.skipif(not ROOT, reason=ROOT_SEES)
@pytest.mark.timeout(120)
def test_no_fd_is_left(tmp_path):
    check_fds(tmp_path, 500, build())


@pytest.mark.soak
@pytest.mark.skipif(not ROOT, reason=ROOT_SEES)
@pytest.mark.timeout(1200)
def test_no_fd_is_left_of_20000(tmp_path):
    check_fds(tmp_path, 20000, fast_build())


PRIVATE_TMP = """
mount --bind "$1" /mnt && mount --bind "$2" /tmp && cd / && shift 3 && exec /mnt/boxd "$@"
"""


@pytest.mark.skipif(not ROOT, reason="needs a mount namespace of its own")
@pytest.mark.timeout(60)
@pytest.mark.parametrize("end", ["stop", "boxd", "worker", "eof"])
def test_no_file_is_left(tmp_path, end):
    """boxd with a /tmp of its own, which is empty before, during and after."""
    private = tmp_path / "tmp"
    private.mkdir(mode=0o1777)
    private.chmod(0o1777)
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0:
        pytest.skip("no mount namespace of its own can be had here")
    before = ["unshare", "-m", "sh", "-c", PRIVATE_TMP, "sh", str(build()), str(private)]
    kind = Pipes if end == "eof" else fake_boxd
    with kind(tmp_path, before=before) as started:
        boxd = started.boxd if end == "eof" else started
        with Ws(boxd.port) as ws:
            assert ws.call("box_exec", exec_data("echo hi"), context())["stdout"] == "hi"
            assert list(private.iterdir()) == []
            if end == "worker":
                boxd.kill_worker()
                boxd.wait_served(2)
        if end == "eof":
            started.stdin.close()
        else:
            boxd.signal(signal.SIGKILL if end == "boxd" else signal.SIGTERM)
        boxd.wait(5)
        assert list(private.iterdir()) == []
