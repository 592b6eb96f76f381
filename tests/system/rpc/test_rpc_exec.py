"""Commands and their output, sizes of messages, and the chunked form of stdio."""

import contextlib
import json
import re
import threading

import pytest

import boxdlib
from clientlib import (
    MESSAGE_BYTES_MAX,
    Closed,
    Stdio,
    physical,
    success,
)
from rawlib import Ws

# Commands.


def test_exec_result(box):
    result = box.exec("exit 3")
    assert isinstance(result.pop("duration_ms"), int)
    assert result == {
        "session_id": "s",
        "backend_name": "fake",
        "status": "completed",
        "exit_code": 3,
        "stdout": "",
        "stderr": "",
        "end": {"reason": "exit", "signal": None},
    }
    killed = box.exec("signal 9")
    assert (killed["exit_code"], killed["end"]) == (137, {"reason": "signal", "signal": 9})


def test_exec_timeout(box):
    result = box.exec("sleep 60000", timeout_sec=1)
    assert 1000 <= result.pop("duration_ms") < 5000
    assert result == {
        "session_id": "s",
        "backend_name": "fake",
        "status": "timed_out",
        "exit_code": None,
        "stdout": "",
        "stderr": "Command timed out after 1 seconds.",
        "end": {"reason": "timeout", "signal": None},
    }
    assert box.fail("box_get_session", {"session_id": "s"}) == (
        f"BoxSessionNotFoundError: session {physical('s')} not found"
    )
    assert box.exec("echo anew")["stdout"] == "anew"


def test_exec_that_cannot_have_a_box(box):
    spec = {"cmd": "echo x", "session_id": "s", "image": "broken"}
    assert box.fail("box_exec", spec) == "BoxError: the fake box is broken"
    assert box.ask("box_get_sessions") == {"sessions": []}


def test_exec_text(box):
    """Special characters come back unchanged, whether they were escaped or not."""
    controls = "".join(map(chr, range(1, 32)))
    text = "a" + controls + "\"'\\/\x7f\x80\u2028\u2029\ufeffé漢😀\U0010ffffz"
    for ascii_only in (True, False):
        message = {
            "seq_id": 77,
            "action": "box_exec",
            "data": {"cmd": "echo " + text, "session_id": "s"},
            "context": box.context,
        }
        box.send_text(json.dumps(message, ensure_ascii=ascii_only))
        assert success(box.wait(77))["stdout"] == text


def test_output_is_stripped(box):
    assert box.exec("echo \t x  y \u2003\x1f\u3000")["stdout"] == "x  y"


def test_lone_surrogate_is_replaced(box):
    """It has no UTF-8 form; the message is still served."""
    box.send_text(
        '{"seq_id": 5, "action": "box_exec", "data": {"cmd": "echo a\\ud800z", "session_id": "s"}}'
    )
    assert success(box.wait(5))["stdout"] == "a\ufffdz"


@pytest.mark.parametrize("size", [4096, 4097, 5000, 1000000])
def test_output_is_clipped(box, size):
    box.init(limits={"max_output_bytes": 4096})
    tail = f"\n... [raw output clipped at 4096 bytes, {size - 4096} bytes discarded]"
    expected = "x" * 4096 + (tail if size > 4096 else "")
    assert box.exec(f"print {size}")["stdout"] == expected


def test_output_at_the_default_limit(box):
    limit = 8 << 20
    assert box.exec(f"print {limit}")["stdout"] == "x" * limit
    assert box.exec(f"print {limit + 5}")["stdout"] == (
        "x" * limit + f"\n... [raw output clipped at {limit} bytes, 5 bytes discarded]"
    )


def test_output_that_grows_when_encoded(box):
    """Control characters take six bytes in JSON: clipped earlier, with the same line."""
    size = 5000000
    stdout = box.exec(f"raw {size}")["stdout"]
    line = r"\n\.\.\. \[raw output clipped at (\d+) bytes, (\d+) bytes discarded\]$"
    found = re.search(line, stdout)
    kept, lost = map(int, found.groups())
    assert kept + lost == size and kept >= 1 << 20
    assert stdout[: found.start()] == "\x01" * kept


def test_large_messages(box):
    """A cmd of 15 MiB, in chunks on stdio; its echo is clipped only by the output limit."""
    text = "b" + "漢" * (5 << 20)
    data = {"cmd": "echo " + text, "session_id": "s"}
    message = {"seq_id": 8, "action": "box_exec", "data": data}
    box.send_text(json.dumps(message, ensure_ascii=False))
    stdout = success(box.wait(8, 60))["stdout"]
    limit = 8 << 20
    assert stdout.startswith(text[: limit // 3 - 1])
    assert stdout.endswith(f" bytes, {len(text.encode()) - limit} bytes discarded]")


def test_message_too_large_on_stdio(stdio):
    """More than 16 MiB in a line end the connection."""
    stdio.ask("__ping")

    def send():
        with contextlib.suppress(Closed):
            stdio.send_bytes(b"{" + b"x" * MESSAGE_BYTES_MAX + b"\n")

    sender = threading.Thread(target=send)
    sender.start()
    stdio.closed()
    sender.join(10)
    assert stdio.boxd.wait() == 1


def assert_too_large(ws):
    """Nothing but the close arrives."""
    with pytest.raises(Closed) as end:
        ws.recv()
    assert end.value.code == 1009


def test_message_too_large_on_websocket(web):
    """More than 16 MiB: closed with 1009 as soon as the header shows it, however fragmented."""
    over = MESSAGE_BYTES_MAX + 1
    with Ws(web.port) as ws:
        ws.send(b"{", declared=over)
        assert_too_large(ws)
    with Ws(web.port) as ws:
        for n in range(16):
            ws.send(b" " * (1 << 20), opcode=0 if n else 1, fin=False)
        ws.send(b" ", opcode=0)
        assert_too_large(ws)
    with web.web() as client:
        assert client.ask("__ping") == {}


def test_message_of_exactly_16_mib(client):
    empty = '{"seq_id": 1, "action": "__ping", "data": {"x": ""}}'
    text = empty.replace('""', '"' + "x" * (MESSAGE_BYTES_MAX - len(empty)) + '"')
    client.send_text(text)
    assert success(client.wait(1)) == {}


# The chunked form of stdio.


@pytest.fixture
def stdio(tmp_path):
    with boxdlib.Boxd(stdio=True, cwd=tmp_path) as boxd, Stdio(boxd) as client:
        yield client


def send_lines(client, *lines):
    for line in lines:
        client.send_bytes(json.dumps(line).encode() + b"\n")


PING = '{"seq_id": 9, "action": "__ping", "data": {}}'


def test_chunks_of_any_size(stdio):
    """Also for a short message, with blank lines and CR LF in between."""
    start = {"type": "chunk_start", "total_size": len(PING)}
    pieces = [{"type": "chunk_data", "data": c, "offset": n} for n, c in enumerate(PING)]
    send_lines(stdio, start, *pieces, {"type": "chunk_end"})
    assert success(stdio.wait(9)) == {}
    stdio.send_bytes(b"\n  \r\n" + PING.encode() + b"\r\n")
    assert success(stdio.wait(9)) == {}


def test_answers_come_in_chunks(stdio):
    """Above 16 KiB in chunks, else in a line. LineReader checks sizes and offsets."""
    stdio.init()
    stdio.exec("print 16000")
    assert stdio.lines.lines_seen == {"plain": 2}
    stdio.exec("print 16384")
    stdio.exec("raw 100000")
    stdio.exec("echo " + '"\\' * 100000)
    assert stdio.lines.lines_seen == {"plain": 2, "chunk_start": 3}


@pytest.mark.parametrize(
    "lines",
    [
        [{"type": "chunk_start", "total_size": -1}],
        [{"type": "chunk_start"}],
        [{"type": "chunk_start", "total_size": MESSAGE_BYTES_MAX + 1}],
        [
            {"type": "chunk_start", "total_size": 5},
            {"type": "chunk_data", "data": "{", "offset": 1},
        ],
        [
            {"type": "chunk_start", "total_size": 5},
            {"type": "chunk_data", "data": "123456", "offset": 0},
        ],
        [
            {"type": "chunk_start", "total_size": 5},
            {"type": "chunk_data", "data": "{}", "offset": 0},
            {"type": "chunk_end"},
        ],
    ],
)
def test_broken_chunks_end_the_connection(stdio, lines):
    stdio.ask("__ping")
    send_lines(stdio, *lines)
    stdio.closed()
    assert stdio.boxd.wait() == 1


def test_stdout_has_messages_only(tmp_path):
    """With all logging enabled, and with traffic on the port."""
    with boxdlib.Boxd("--log-level=debug", stdio=True, cwd=tmp_path) as boxd, Stdio(boxd) as client:
        client.init()
        boxd.http("/nothing")
        with boxd.web() as second:
            second.ask("__ping")
        client.fail("nothing")
        assert client.exec("echo x")["stdout"] == "x"
        assert client._kept == []
        assert boxd.wait_event("connection.refused")
