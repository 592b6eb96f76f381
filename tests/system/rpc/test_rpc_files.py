"""Files in chunks: order, sizes, names, and the limit of what is held in memory."""

import base64

import pytest

import boxdlib
from clientlib import MsgpackWeb, failure


def chunk(key="k", index=0, amount=3, data=b"x" * 16384, **more):
    return {
        "file_key": key,
        "file_length": 3 * 16384,
        "chunk_base64": base64.b64encode(data).decode(),
        "chunk_index": index,
        "chunk_amount": amount,
        "chunk_size": 16384,
        **more,
    }


CAPABILITY = "ValueError: Invalid file transfer capability"


def test_file_in_order(client):
    for index in range(3):
        assert client.ask("__file_chunk", chunk(index=index)) == {}
    assert client.fail("__file_chunk", chunk(index=1)) == CAPABILITY, "it is complete"


def test_file_restarts_at_0(client):
    for index in (0, 1, 0, 1, 2):
        assert client.ask("__file_chunk", chunk(index=index)) == {}
    assert client.ask("__file_chunk", chunk(amount=7)) == {}, "another amount, from the start"
    assert client.ask("__file_chunk", chunk(index=1, amount=7)) == {}


def test_file_out_of_order(client):
    assert client.fail("__file_chunk", chunk(index=1)) == CAPABILITY, "never begun"
    client.ask("__file_chunk", chunk())
    assert client.fail("__file_chunk", chunk(index=2)) == CAPABILITY, "a gap"
    assert client.fail("__file_chunk", chunk(index=1, amount=4)) == CAPABILITY, "another amount"
    # A refusal leaves the existing file unchanged.
    assert client.ask("__file_chunk", chunk(index=1)) == {}
    assert client.fail("__file_chunk", chunk(index=1)) == CAPABILITY, "twice"
    assert client.ask("__file_chunk", chunk(index=2)) == {}


@pytest.mark.parametrize(
    "index, amount", [(-1, 3), (3, 3), (0, 0), (0, -1), (5, 3), (2**62, 2**61)]
)
def test_file_position(client, index, amount):
    assert client.fail("__file_chunk", chunk(index=index, amount=amount)) == (
        "ValueError: Invalid file chunk position"
    )


@pytest.mark.parametrize(
    "key",
    ["", ".", "..", ".x", "-x", "_x", "a..b", "a/b", "/a", "a\\b", "a b", "é", "a" * 256, "a\n"],
)
def test_file_bad_key(client, key):
    assert client.fail("__file_chunk", chunk(key)) == "ValueError: Invalid file transfer key"


@pytest.mark.parametrize("key", ["a", "0", "a" * 255, "A.b_c-d", "ft1_" + "0" * 64 + ".zip"])
def test_file_good_key(client, key):
    assert client.ask("__file_chunk", chunk(key)) == {}


def test_file_chunk_too_large(client):
    assert client.fail("__file_chunk", chunk(data=b"x" * 16385)) == (
        "ValueError: File transfer chunk exceeds the protocol limit"
    )
    assert client.ask("__file_chunk", chunk(data=b"")) == {}


@pytest.mark.parametrize("text", ["A", "AAA", "AA=A", "A===", "====", "AAA*", "AAAA\n", "A AAA"])
def test_file_bad_base64(client, text):
    assert client.fail("__file_chunk", chunk(chunk_base64=text)).startswith("ValueError: ")


@pytest.mark.parametrize("member", ["file_key", "chunk_index", "chunk_amount", "chunk_base64"])
def test_file_member_missing(client, member):
    data = chunk()
    del data[member]
    assert client.fail("__file_chunk", data) == f"KeyError: '{member}'"


@pytest.mark.parametrize(
    "member, value",
    [
        ("file_key", 5),
        ("chunk_index", "0"),
        ("chunk_index", True),
        ("chunk_index", 0.5),
        ("chunk_amount", True),
        ("chunk_amount", "3"),
        ("chunk_base64", 5),
        ("chunk_base64", []),
    ],
)
def test_file_member_of_wrong_type(client, member, value):
    assert client.fail("__file_chunk", chunk(**{member: value})).startswith("ValueError: ")


def test_file_too_large(client):
    client.init(limits={"max_rpc_file_bytes": 40000})
    for index in range(2):
        client.ask("__file_chunk", chunk(index=index))
    assert client.fail("__file_chunk", chunk(index=2)) == (
        "ValueError: File transfer exceeds the configured size limit"
    )
    # Nothing of it is left.
    assert client.fail("__file_chunk", chunk(index=2)) == CAPABILITY
    exact = chunk(index=2, data=b"x" * (40000 - 32768))
    for data in (chunk(), chunk(index=1), exact):
        assert client.ask("__file_chunk", data) == {}


def test_file_transfers_at_once(client):
    for n in range(128):
        assert client.ask("__file_chunk", chunk(f"k{n}")) == {}
    full = "ValueError: Active file transfer capacity reached"
    assert client.fail("__file_chunk", chunk("one-more")) == full
    assert client.ask("__file_chunk", chunk("k5", 1)) == {}, "the others go on"
    assert client.ask("__file_chunk", chunk("k6", 0)) == {}, "and may start anew"
    if client.carrier == "websocket":
        with client.boxd.web() as second:
            assert second.ask("__file_chunk", chunk("one-more")) == {}, "each connection has 128"
            assert second.fail("__file_chunk", chunk("k5", 2)) == CAPABILITY, "and its own files"


def test_file_budget_of_all_connections(tmp_path):
    """At most 256 MiB are held for all connections together; closing a connection releases its
    share."""
    piece = b"x" * 16384
    per_file = 100 * 64  # chunks in 100 MiB
    with boxdlib.Boxd(programs=boxdlib.build("BOX_RELEASE_FAKE"), cwd=tmp_path) as boxd:
        with boxd.web() as watcher:
            watcher.init(limits={"max_rpc_file_bytes": 100 << 20})

            def request(seq, number):
                data = {
                    "file_key": f"f{number // per_file}",
                    "chunk": piece,
                    "chunk_index": number % per_file,
                    "chunk_amount": per_file,
                }
                return {"seq_id": seq, "action": "__file_chunk", "data": data}

            with MsgpackWeb(boxd) as filler:
                for start in range(0, 16384, 64):
                    for n in range(start, start + 64):
                        filler.send(request(n, n))
                    for n in range(start, start + 64):
                        assert filler.receive()["code"] == 0
                full = "ValueError: Active file transfer capacity reached"
                assert watcher.fail("__file_chunk", chunk("w")) == full
                filler.send(request(16384, 16384))
                assert failure(filler.receive()) == full
                # The file that did not fit is gone completely, 56 MiB of it.
                assert watcher.ask("__file_chunk", chunk("w")) == {}
            with MsgpackWeb(boxd) as filler:
                for start in range(0, 16320, 64):
                    for n in range(start, start + 64):
                        filler.send(request(n, n))
                    for n in range(start, start + 64):
                        assert filler.receive()["code"] == 0, "the budget was not given back"
