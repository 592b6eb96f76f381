"""msgpack over both transports: the same answers as in JSON, bytes as bin, pipelining, mixed
codecs.
"""

import hashlib
import random

import msgpack
import pytest

import boxdlib
from clientlib import (
    CHUNK_BYTES,
    ERROR_NAMES,
    Client,
    MsgpackStdio,
    MsgpackWeb,
    context,
    failure,
    success,
)

FILE_BYTES = 5 * 1024 * 1024


@pytest.fixture
def peer(carrier, tmp_path):
    """A msgpack client, over each transport, of a boxd without configuration."""
    with boxdlib.Boxd(stdio=carrier == "stdio", cwd=tmp_path) as boxd:
        with (MsgpackStdio if carrier == "stdio" else MsgpackWeb)(boxd) as client:
            yield client


def test_core(peer, tmp_path):
    assert peer.ask("__ping") == {}
    info = peer.ask("box_get_backend_info")
    assert info == peer.ask("box_health")
    root = tmp_path / "root"
    peer.init(local={"host_root": str(root), "allowed_mount_roots": [str(tmp_path)]})
    assert (root / "default").is_dir()
    assert peer.ask("box_health") == {"name": "fake", "available": True}
    assert peer.ask("box_get_sessions") == {"sessions": []}
    result = peer.exec("echo hi", "one")
    assert isinstance(result.pop("duration_ms"), int)
    assert result == {
        "session_id": "one",
        "backend_name": "fake",
        "status": "completed",
        "exit_code": 0,
        "stdout": "hi",
        "stderr": "",
        "end": {"reason": "exit", "signal": None},
    }
    (session,) = peer.ask("box_get_sessions")["sessions"]
    assert (session["session_id"], session["status"], session["cpus"]) == ("one", "idle", 1.0)
    status = peer.ask("box_status")
    assert status["capacity"] == {"limit": 56, "used": 1, "remaining": 55}
    assert "msgpack" in status["features"]
    assert peer.ask("box_delete_session", {"session_id": "one"}) == {"deleted": "one"}


def test_errors(peer):
    peer.init()
    for name in ERROR_NAMES:
        text = peer.fail("box_exec", {"cmd": f"fail {name} why", "session_id": "s"})
        assert text == f"{name}: why"
    assert peer.fail("nothing") == "ValueError: Action nothing not found"
    assert peer.fail("box_exec", {"session_id": "s"}) == (
        "BoxValidationError: cmd must not be empty"
    )
    assert peer.fail("box_get_session") == "KeyError: 'session_id'"


def test_texts(peer):
    """Characters and sizes that JSON would escape or cut come back unchanged."""
    peer.init()
    text = "a" + "".join(map(chr, range(1, 32))) + '"\\\x7f\u2028\u2029é漢😀\U0010ffff' + "z"
    assert peer.exec("echo " + text)["stdout"] == text
    long = "b" + "漢😀" * (1 << 20) + "e"
    assert peer.exec("echo " + long)["stdout"] == long
    assert peer.exec("print 5000000")["stdout"] == "x" * 5000000
    # Control characters take one byte each here, so the default limit of 8 MiB holds.
    assert peer.exec("raw 8388608")["stdout"] == "\x01" * 8388608


def file_chunks(data, key):
    size = CHUNK_BYTES
    amount = (len(data) + size - 1) // size
    for index in range(amount):
        yield {
            "file_key": key,
            "file_length": len(data),
            "chunk": data[index * size : (index + 1) * size],
            "chunk_index": index,
            "chunk_amount": amount,
            "chunk_size": size,
        }


def test_file_with_bin_chunks(peer):
    data = hashlib.sha256(b"bytes").digest() * (FILE_BYTES // 32)
    chunks = list(file_chunks(data, "f-1.zip"))
    assert len(chunks) == FILE_BYTES // CHUNK_BYTES
    for at in range(0, len(chunks), 64):
        for seq in [peer.start("__file_chunk", chunk) for chunk in chunks[at : at + 64]]:
            assert success(peer.wait(seq)) == {}


def test_bin_chunk_rules(peer):
    """The rules are those of chunk_base64, which works over msgpack, too."""
    first = next(file_chunks(b"x" * 40000, "k"))
    assert peer.ask("__file_chunk", first) == {}
    assert peer.fail("__file_chunk", {**first, "chunk_index": 2}) == (
        "ValueError: Invalid file transfer capability"
    )
    too_large = {**first, "chunk": b"x" * (CHUNK_BYTES + 1)}
    assert peer.fail("__file_chunk", too_large) == (
        "ValueError: File transfer chunk exceeds the protocol limit"
    )
    text = {key: value for key, value in first.items() if key != "chunk"}
    assert peer.ask("__file_chunk", {**text, "chunk_base64": "AAEC"}) == {}
    assert peer.fail("__file_chunk", text) == "KeyError: 'chunk_base64'"
    # bin where text is expected, and text where bin is
    assert peer.fail("__file_chunk", {**text, "chunk_base64": b"AAEC"}).startswith("ValueError: ")
    assert peer.fail("__file_chunk", {**text, "chunk": "AAEC"}).startswith("ValueError: ")


def test_numbers(peer):
    """Every width of integer, and floats, as seq_id and in a spec."""
    peer.init()
    small = (0, 127, 128, 255, 256, 65535, 65536, -1, -32, -33, -129)
    for seq in (*small, 2**32 - 1, 2**32, 2**63 - 1, -(2**63)):
        peer.send({"seq_id": seq, "action": "__ping", "data": {}})
        assert peer.wait(seq) == {
            "seq_id": seq,
            "code": 0,
            "message": "success",
            "data": {},
            "chunk_status": "continue",
        }
    session = peer.ask("box_create_session", {"session_id": "n", "cpus": 0.5, "memory_mb": 64})
    assert (session["cpus"], session["memory_mb"]) == (0.5, 64)
    assert isinstance(session["cpus"], float)


def test_codecs_alternate_on_one_websocket(web):
    """An answer is in its request's codec, also when requests of both are in flight."""
    with MsgpackWeb(web) as peer:
        peer.mixed = True
        Client.send(peer, {"seq_id": 0, "action": "box_init", "data": {"backend": "fake"}})
        assert peer.wait(0)["codec"] == "json"
        codecs = {}
        order = random.Random(5)
        for seq in range(1, 101):
            codecs[seq] = order.choice(["json", "msgpack"])
            message = {
                "seq_id": seq,
                "action": "box_exec",
                "data": {"cmd": f"sleep {order.randrange(200)}", "session_id": "s"},
                "context": context(),
            }
            (Client.send if codecs[seq] == "json" else MsgpackWeb.send)(peer, message)
        got = [peer.receive() for _ in codecs]
        assert {answer["seq_id"]: answer["codec"] for answer in got} == codecs
        assert [answer["code"] for answer in got] == [0] * 100
        # Also errors, and answers to messages that never became a request.
        for send, codec in ((Client.send, "json"), (MsgpackWeb.send, "msgpack")):
            send(peer, {"seq_id": 500, "action": "nothing", "data": {}})
            send(peer, {"action": "__ping", "data": {}})
            for _ in range(2):
                answer = peer.receive()
                assert answer.pop("codec") == codec
                assert failure(answer)


def test_pipelined_stream_in_random_pieces(tmp_path):
    """1,000 requests written in pieces that cross message borders: each is answered once and
    correctly."""
    order = random.Random(7)
    with boxdlib.Boxd(stdio=True, cwd=tmp_path) as boxd, MsgpackStdio(boxd) as peer:
        peer.init()
        wanted = {}
        stream = bytearray()
        for seq in range(1000, 2000):
            text = f"{seq}-" + "y" * order.choice([0, 1, 20, 300, 20000])
            wanted[seq] = text
            stream += msgpack.packb(
                {
                    "seq_id": seq,
                    "action": "box_exec",
                    "data": {"cmd": "echo " + text, "session_id": f"s{seq % 7}"},
                    "context": peer.context,
                }
            )
        done = 0
        got = {}
        while done < len(stream):
            size = order.choice([1, 2, 3, 7, 100, 4096, 65536])
            peer.send_bytes(bytes(stream[done : done + size]))
            done += size
        for _ in wanted:
            answer = peer.receive(30)
            assert answer["seq_id"] not in got
            got[answer["seq_id"]] = answer
        busy = [answer for answer in got.values() if answer["code"] != 0]
        # Sent faster than they are served, some are refused with the one text for it.
        assert {answer["message"] for answer in busy} <= {
            "Runtime connection is busy (max 128 concurrent actions)"
        }
        assert len(busy) < 900
        for seq, answer in got.items():
            if answer["code"] == 0:
                assert answer["data"]["stdout"] == wanted[seq]
        assert set(got) == set(wanted)


def test_pipelined_pings_are_never_refused(tmp_path):
    """Requests that are answered at once never count as in flight."""
    order = random.Random(11)
    with boxdlib.Boxd(stdio=True, cwd=tmp_path) as boxd, MsgpackStdio(boxd) as peer:
        stream = b"".join(
            msgpack.packb({"seq_id": seq, "action": "__ping", "data": {}}) for seq in range(1000)
        )
        done = 0
        while done < len(stream):
            size = order.randrange(1, 2000)
            peer.send_bytes(stream[done : done + size])
            done += size
        answers = [peer.receive() for _ in range(1000)]
        assert [answer["seq_id"] for answer in answers] == list(range(1000))
        assert all(success(answer) == {} for answer in answers)


def test_no_map_is_ignored_on_websocket(web):
    with MsgpackWeb(web) as peer:
        for value in (1, "text", [1, 2], None, True, 1.5, b"bytes", {}, {1: 2}):
            peer.send_bytes(msgpack.packb(value))
        peer.send_bytes(b"\xc1")
        peer.send_bytes(b"")
        peer.send_bytes(msgpack.packb({"seq_id": 1, "action": "__ping", "data": {}}) + b"\x00")
        assert peer.ask("__ping") == {}
        boxdlib.wait_until(lambda: web.counted("message.ignored") == 12)


def test_counts_that_lie_cost_nothing(web):
    """Five bytes that announce four billion items are ignored."""
    with MsgpackWeb(web) as peer:
        for lie in (b"\xdf\xff\xff\xff\xff", b"\xdd\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff"):
            peer.send_bytes(lie)
            peer.send_bytes(b"\x81\xa6action" + lie)
        assert peer.ask("__ping") == {}


def test_broken_stream_on_stdio_ends_the_connection(tmp_path):
    with boxdlib.Boxd(stdio=True, cwd=tmp_path) as boxd, MsgpackStdio(boxd) as peer:
        assert peer.ask("__ping") == {}
        peer.send_bytes(b"\xc1")
        peer.closed()
        assert boxd.wait() == 1
        boxd.wait_event("stdio.broken")
