"""Many requests at once: refused when there are too many, cancelled, and ended with their
connection.
"""

import pytest

import boxdlib
from boxdlib import is_alive, wait_running, wait_until
from clientlib import Stdio, context

BUSY = "Runtime connection is busy (max 128 concurrent actions)"
STALE = "PermissionError: Stale Box placement generation"


def test_busy(box):
    """128 at once are served, the 129th is refused immediately; the cancel lane has its own limit."""
    execs = [
        box.start("box_exec", {"cmd": "sleep 60000", "session_id": f"s{n % 9}"}) for n in range(128)
    ]
    for action in ("__ping", "box_status", "no_such_action"):
        assert box.fail(action) == BUSY
    for n in range(10):
        assert box.ask("__cancel_action", {"seq_id": execs[n]}) == {"cancelled": True}
        assert box.ask("__stream_ack", {"seq_id": execs[n], "index": 1}) == {"accepted": False}
    # Now there is room for ten.
    assert box.ask("__ping") == {}
    more = [box.start("box_exec", {"cmd": "sleep 60000", "session_id": "t"}) for _ in range(10)]
    assert box.fail("__ping") == BUSY
    for seq in [*execs[10:], *more]:
        assert box.ask("__cancel_action", {"seq_id": seq}) == {"cancelled": True}
    assert box.ask("__ping") == {}
    assert box._kept == [], "a cancelled request was answered"


def test_busy_is_of_one_connection(web):
    with web.web() as first, web.web() as second:
        first.init()
        for _ in range(128):
            first.start("box_exec", {"cmd": "sleep 60000", "session_id": "s"})
        assert first.fail("__ping") == BUSY
        assert second.ask("__ping") == {}


def test_cancel(box):
    seq = box.start("box_exec", {"cmd": "sleep 60000", "session_id": "s"})
    wait_running(box)
    assert box.ask("__cancel_action", {"seq_id": seq}) == {"cancelled": True}
    assert box.ask("__cancel_action", {"seq_id": seq}) == {"cancelled": False}
    assert box.ask("box_get_session", {"session_id": "s"})["status"] == "idle"
    assert box.exec("echo still")["stdout"] == "still"
    assert not box.has_answer(seq)


def test_cancel_of_a_session_being_made(box):
    """The half-made box is ended with the request that needed it."""
    seq = box.start("box_create_session", {"session_id": "m", "image": "make-60000"})
    assert box.ask("box_status")["capacity"]["used"] == 1
    assert box.ask("__cancel_action", {"seq_id": seq}) == {"cancelled": True}
    assert box.ask("box_status")["capacity"]["used"] == 0
    assert not box.has_answer(seq)


def test_cancel_of_nothing(box):
    assert box.ask("__cancel_action", {"seq_id": 424242}) == {"cancelled": False}
    done = box.start("box_exec", {"cmd": "echo x", "session_id": "s"})
    box.wait(done)
    assert box.ask("__cancel_action", {"seq_id": done}) == {"cancelled": False}
    own = box.next_seq() + 1
    assert box.ask("__cancel_action", {"seq_id": own}) == {"cancelled": False}


@pytest.mark.parametrize("seq", [..., "1", None, 1.5, True])
def test_cancel_without_a_number(box, seq):
    assert box.fail("__cancel_action", {} if seq is ... else {"seq_id": seq}) == (
        "ValueError: Cancellation requires an integer seq_id"
    )


def test_cancel_from_elsewhere(box):
    """Another workspace cannot cancel it; an equal context can, also with an installation."""
    seq = box.start("box_exec", {"cmd": "sleep 60000", "session_id": "s"})
    wait_running(box)
    for other in (context("ws2"), None):
        assert box.ask("__cancel_action", {"seq_id": seq}, context=other) == {"cancelled": False}
    wait_running(box)
    same = context(installation_uuid="i")
    assert box.ask("__cancel_action", {"seq_id": seq}, context=same) == {"cancelled": True}
    assert not box.has_answer(seq)


def test_cancel_on_another_connection(web):
    with web.web() as first, web.web() as second:
        first.init()
        seq = first.start("box_exec", {"cmd": "sleep 60000", "session_id": "s"})
        wait_running(second)
        assert second.ask("__cancel_action", {"seq_id": seq}) == {"cancelled": False}
        wait_running(second)


def test_stream_ack(box):
    assert box.ask("__stream_ack", {"seq_id": 1, "index": 1}) == {"accepted": False}
    wrong = [{}, {"seq_id": 1}, {"index": 1}]
    for data in (*wrong, {"seq_id": "1", "index": 1}, {"seq_id": 1, "index": True}):
        assert box.fail("__stream_ack", data) == (
            "ValueError: Stream acknowledgement requires integer sequence and index"
        )


def test_close_cancels_execs(web):
    """Requests in flight end with their connection; its sessions stay."""
    with web.web() as second:
        second.init()
        with web.web() as first:
            first.start("box_exec", {"cmd": "sleep 60000", "session_id": "s"})
            first.start("box_create_session", {"session_id": "m", "image": "make-60000"})
            wait_running(second)
        wait_until(
            lambda: second.ask("box_get_session", {"session_id": "s"})["status"] == "idle",
            what="the exec of the closed connection is cancelled",
        )
        listed = second.ask("box_get_sessions")["sessions"]
        assert [one["session_id"] for one in listed] == ["s"], "the half-made box is gone too"
        assert 'box_requests_total{action="box_exec",result="cancelled"} 1' in (
            web.http("/metrics")[2].decode()
        )


def test_end_of_stdin_ends_all(tmp_path):
    """With commands running and boxes being made, boxd ends within 2 s, with exit code 0."""
    with boxdlib.Boxd(stdio=True, cwd=tmp_path) as boxd, Stdio(boxd) as client:
        client.init()
        client.start("box_exec", {"cmd": "sleep 60000", "session_id": "s"})
        client.start("box_create_session", {"session_id": "m", "image": "make-60000"})
        wait_running(client)
        worker = boxd.worker
        client.close()
        assert boxd.wait(2.0) == 0
        assert not is_alive(worker)
