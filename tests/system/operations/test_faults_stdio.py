"""The stdio connection: how it ends, what breaks it, and files in place of pipes."""

import fcntl
import json
import select
import signal
import socket
import subprocess
import sys
import time

import pytest

from boxdlib import (
    STALL_SECONDS,
    build,
    environment,
    fake_boxd,
    is_alive,
    wait_until,
)
from clientlib import INSTANCE, MESSAGE_BYTES_MAX, Closed, context
from rawlib import (
    PING,
    Pipes,
    Ws,
    dial,
    exec_data,
    request,
)

MIB = 1024 * 1024


# stdio: how it ends.


def close_and_wait(stdio, code=0, seconds=2.0):
    started = time.monotonic()
    stdio.stdin.close()
    assert stdio.boxd.wait(10) == code
    assert time.monotonic() - started < seconds + STALL_SECONDS


@pytest.mark.timeout(60)
def test_eof_when_idle(tmp_path):
    with Pipes(tmp_path) as stdio:
        stdio.call("__ping")
        close_and_wait(stdio)


@pytest.mark.timeout(60)
def test_eof_at_once(tmp_path):
    with Pipes(tmp_path) as stdio:
        close_and_wait(stdio, seconds=3)


@pytest.mark.timeout(60)
def test_eof_answers_first(tmp_path):
    """Requests from before the end of stdin are answered before boxd ends."""
    with Pipes(tmp_path) as stdio:
        stdio.send(request("box_exec", exec_data("sleep 100"), 5, context()))
        stdio.stdin.close()
        answer = stdio.answer()
        assert (answer["seq_id"], answer["code"]) == (5, 0)
        with pytest.raises(Closed):
            stdio.answer()
        assert stdio.boxd.wait(10) == 0


@pytest.mark.timeout(60)
def test_eof_with_a_long_exec(tmp_path):
    with Pipes(tmp_path) as stdio:
        stdio.send(request("box_exec", exec_data("sleep 60000", timeout_sec=300), 5, context()))
        stdio.call("__ping")
        close_and_wait(stdio)


@pytest.mark.timeout(60)
def test_eof_with_all_that_can_delay_it(tmp_path):
    """A long exec, a WebSocket client that does not answer the close, a silent socket."""
    with Pipes(tmp_path) as stdio:
        stdio.call("__ping")
        with Ws(stdio.boxd.port) as ws, dial(stdio.boxd.port) as silent:
            ws.ping()
            assert silent.getpeername()
            long = exec_data("sleep 60000", timeout_sec=300)
            stdio.send(request("box_exec", long, 5, context()))
            stdio.call("__ping")
            close_and_wait(stdio)


@pytest.mark.timeout(60)
def test_eof_with_stdout_full(tmp_path):
    """Nobody reads, so reading is paused, and yet the end of stdin must be noticed."""
    with Pipes(tmp_path) as stdio:
        stdio.call("__ping")
        for seq in range(20):
            stdio.send(request("box_exec", exec_data("print 1000000", "s"), seq, context()))
        wait_until(lambda: select.select([stdio.stdout], [], [], 0)[0], 5, "output")
        with Ws(stdio.boxd.port) as ws:
            ws.ping()
        close_and_wait(stdio)


@pytest.mark.timeout(60)
def test_eof_behind_many_requests(tmp_path):
    """Reading is paused when stdin ends, but the parent does read: every request is answered."""
    count = 20000
    with Pipes(tmp_path) as stdio:
        fcntl.fcntl(stdio.stdin, fcntl.F_SETPIPE_SZ, MIB)
        stdio.call("__ping")
        for seq in range(count):
            stdio.send(request("__ping", seq=seq))
        stdio.stdin.close()
        assert [stdio.answer()["seq_id"] for _ in range(count)] == list(range(count))
        assert stdio.boxd.wait(10) == 0


@pytest.mark.timeout(60)
def test_stdout_closed(tmp_path):
    """A parent that no longer reads counts as gone, even while it holds stdin."""
    with Pipes(tmp_path) as stdio:
        stdio.call("__ping")
        stdio.stdout.close()
        stdio.send(PING)
        assert stdio.boxd.wait(10) == 0


PARENT = """
import subprocess, sys, time
child = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdin.write(b'{"seq_id":1,"action":"__ping","data":{}}\\n')
child.stdin.flush()
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.timeout(60)
def test_parent_killed(tmp_path):
    command = [str(build() / "boxd"), "-s", "--ws-control-port=0"]
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, *command],
        env=environment(LANGBOT_BOX_TRUSTED_INSTANCE_UUID=INSTANCE),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as parent:
        boxd = int(parent.stdout.readline())
        children = open(f"/proc/{boxd}/task/{boxd}/children", encoding="ascii").read().split()
        pids = [boxd, *map(int, children)]
        # box-rpc, and the watcher where there are cgroups.
        assert len(pids) in (2, 3) and all(map(is_alive, pids))
        parent.kill()
        parent.wait()
        wait_until(lambda: not any(map(is_alive, pids)), what="all of them to end")


# stdio: what breaks the connection.

START = b'{"type":"chunk_start","total_size":%d}'
DATA = b'{"type":"chunk_data","data":"%s","offset":%d}'
END = b'{"type":"chunk_end"}'
BROKEN = {
    "wrong offset": [START % 10, DATA % (b"12345", 0), DATA % (b"67890", 4)],
    "offset ahead": [START % 10, DATA % (b"12345", 1)],
    "no offset": [START % 10, b'{"type":"chunk_data","data":"12345"}'],
    "over the size": [START % 10, DATA % (b"12345", 0), DATA % (b"678901", 5)],
    "incomplete": [START % 10, DATA % (b"123456789", 0), END],
    "size over the limit": [START % (MESSAGE_BYTES_MAX + 1)],
    "size below zero": [START % -1],
    "size that is text": [b'{"type":"chunk_start","total_size":"10"}'],
    "size missing": [b'{"type":"chunk_start"}'],
    "size of 2^80": [START % (1 << 80)],
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", BROKEN)
def test_broken_chunks(tmp_path, name):
    with Pipes(tmp_path) as stdio:
        stdio.call("__ping")
        for line in BROKEN[name]:
            stdio.send(line)
        assert stdio.boxd.wait(10) > 0
        assert stdio.boxd.wait_event("stdio.broken")["why"]


@pytest.mark.timeout(60)
def test_whole_chunks_still_pass(tmp_path):
    """The counterpart of the test above: the same lines without the mistakes."""
    with Pipes(tmp_path) as stdio:
        half = len(PING) // 2
        quoted = [json.dumps(part.decode())[1:-1].encode() for part in (PING[:half], PING[half:])]
        stdio.send(START % len(PING))
        stdio.send(DATA % (quoted[0], 0))
        stdio.send(DATA % (quoted[1], half))
        stdio.send(END)
        assert stdio.answer()["code"] == 0
        close_and_wait(stdio)


@pytest.mark.timeout(60)
def test_first_byte_of_neither_codec(tmp_path):
    with Pipes(tmp_path) as stdio:
        stdio.send(b"\xc1hello")
        assert stdio.boxd.wait(10) > 0
        assert stdio.boxd.wait_event("stdio.broken")["why"]


@pytest.mark.timeout(60)
def test_stdio_worker_killed(tmp_path):
    """The connection cannot be passed to a successor, so boxd ends too, with an error."""
    with Pipes(tmp_path) as stdio:
        stdio.call("__ping")
        stdio.boxd.kill_worker()
        assert stdio.boxd.wait(10) > 0
        assert stdio.stdout.read() == b""
        assert len(stdio.boxd.workers()) == 1


@pytest.mark.timeout(60)
def test_stdio_stop(tmp_path):
    with Pipes(tmp_path) as stdio:
        stdio.send(request("box_exec", exec_data("sleep 500"), 5, context()))
        stdio.call("__ping")
        stdio.boxd.signal(signal.SIGTERM)
        answer = stdio.answer()
        assert (answer["seq_id"], answer["code"]) == (5, 0)
        assert stdio.boxd.wait(10) == 0


@pytest.mark.timeout(60)
def test_port_taken(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with Pipes(tmp_path, f"--ws-control-port={port}") as stdio:
            assert str(port) in stdio.boxd.wait_event("listen.failed")["why"]
            stdio.call("__ping")
            close_and_wait(stdio)
        with fake_boxd(tmp_path, f"--ws-control-port={port}") as boxd:
            assert boxd.wait(10) == 1


# stdio: files instead of pipes.


@pytest.mark.timeout(60)
def test_files_as_stdin_and_stdout(tmp_path):
    count = 5000
    script, output = tmp_path / "in", tmp_path / "out"
    with script.open("wb") as file:
        for seq in range(count):
            file.write(request("__ping", seq=seq) + b"\n")
        file.write(request("box_exec", exec_data("print 200000"), count, context()) + b"\n")
    with script.open("rb") as stdin, output.open("wb") as stdout:
        with Pipes(tmp_path, stdin=stdin, stdout=stdout) as stdio:
            assert stdio.boxd.wait(20) == 0
    lines = [json.loads(line) for line in output.read_bytes().splitlines()]
    seqs = [line["seq_id"] for line in lines if "seq_id" in line]
    assert seqs == list(range(count))
    text = "".join(line["data"] for line in lines if line.get("type") == "chunk_data")
    assert json.loads(text)["data"]["stdout"] == "x" * 200000


@pytest.mark.timeout(60)
def test_file_as_stdin_pipe_as_stdout(tmp_path):
    """More answers than a pipe and the queue can hold: reading the file pauses, and resumes."""
    script = tmp_path / "in"
    with script.open("wb") as file:
        for seq in range(20000):
            file.write(request("__ping", seq=seq) + b"\n")
    with script.open("rb") as stdin, Pipes(tmp_path, stdin=stdin) as stdio:
        assert [stdio.answer()["seq_id"] for _ in range(20000)] == list(range(20000))
        assert stdio.boxd.wait(10) == 0


@pytest.mark.timeout(60)
def test_socket_as_stdin_and_stdout(tmp_path):
    ours, theirs = socket.socketpair()
    with ours, theirs, Pipes(tmp_path, stdin=theirs, stdout=theirs) as stdio:
        theirs.close()
        ours.settimeout(10)
        ours.sendall(PING + b"\n")
        assert b'"code":0' in ours.recv(4096).replace(b" ", b"")
        ours.shutdown(socket.SHUT_WR)
        assert stdio.boxd.wait(10) == 0
