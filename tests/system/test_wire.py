"""The rules of the envelope and of the actions, message by message, over stdio and WebSocket.

Where a rule has an exact text, the text is compared whole: clients match on these texts.
"""

import base64
import contextlib
import hashlib
import json
import pathlib
import re
import struct
import threading

import msgpack
import pytest

import boxlib
from boxlib import context, failure, success

BUSY = "Runtime connection is busy (max 128 concurrent actions)"
STALE = "PermissionError: Stale Box placement generation"
NEEDS_CONTEXT = "PermissionError: Box tenant action requires a trusted Workspace context"
SESSION_MEMBERS = {
    "session_id",
    "backend_name",
    "backend_session_id",
    "image",
    "network",
    "host_path",
    "host_path_mode",
    "mount_path",
    "persistent",
    "cpus",
    "memory_mb",
    "pids_limit",
    "read_only_rootfs",
    "workspace_quota_mb",
    "created_at",
    "last_used_at",
    "status",
}


def physical(session, workspace="ws1", generation=1):
    digest = hashlib.sha256(f"{boxlib.INSTANCE}\0{workspace}".encode()).hexdigest()[:24]
    return f"ws-{digest}-g{generation}-{session}"


def wait_running(client, session="s", **members):
    """Until the session has a command under way."""

    def running():
        listed = client.ask("box_get_sessions", **members)["sessions"]
        return [one for one in listed if (one["session_id"], one["status"]) == (session, "running")]

    boxlib.wait_until(running, what=f"{session} is running")


# 1. The envelope.


@pytest.mark.parametrize(
    "text",
    [
        "this is no JSON",
        "{",
        '{"seq_id": 1, "action": "__ping", "data": {}',
        '{"seq_id": 1, "action": "__ping", "data": {},}',
        "{'seq_id': 1}",
        '{"seq_id": 01, "action": "__ping", "data": {}}',
        '{"seq_id": 1, "action": "__ping", "data": {"a": NaN}}',
        '{"seq_id": 1, "action": "__ping", "data": {}} trailing',
        '{"seq_id": 1, "action": "__ping", "action": "__ping", "data": {}}',
        '{"seq_id": 1, "action": "__ping", "data": {"a": 1, "a": 2}}',
        '{"seq_id": 1, "action": "__ping", "data": {"a": "\x01"}}',
        "[1, 2]",
        '"text"',
        "5",
        "null",
        "true",
        "{}",
        '{"seq_id": 1, "data": {}}',
        '{"seq_id": 1, "code": 0, "message": "success", "data": {}}',
        '{"seq_id": 1, "code": 0, "action": "__ping", "data": {}}',
    ],
)
def test_ignored(client, text):
    """No request: no answer, a warning, and the connection stays."""
    client.ask("__ping")
    client.send_text(text)
    client._seq = 100
    assert client.ask("__ping") == {}
    assert client._kept == []
    event = client.boxd.wait_event("message.ignored")
    assert event["level"] == "warning"
    assert len(client.boxd.events("message.ignored")) == 1


def test_first_message_is_no_json(client):
    """Also when it is the first one. (On stdio the first byte chooses the codec.)"""
    client.send_text("{no JSON")
    assert client.ask("__ping") == {}


def nested(depth):
    """A ping whose lists and maps are `depth` deep in all; it is two deep by itself."""
    inner = "[" * (depth - 2) + "]" * (depth - 2)
    return '{"seq_id": 7, "action": "__ping", "data": {"x": %s}}' % (inner or "1")


def test_nesting(client):
    client.send_text(nested(32))
    assert success(client.wait(7)) == {}
    for depth in (33, 100, 5000):
        client.send_text(nested(depth))
    client._seq = 100
    client.ask("__ping")
    assert client._kept == []
    assert len(client.boxd.events("message.ignored")) == 3


def test_many_values(client):
    """More values than a message may have: ignored, like what is too deep."""
    for count, answered in ((200000, True), (300000, False)):
        items = ",".join(["0"] * count)
        client.send_text('{"seq_id": %d, "action": "__ping", "data": {"x": [%s]}}' % (count, items))
        assert client.has_answer(count) is answered


def test_no_utf8(client):
    """stdio drops the line; WebSocket closes with 1007, as its standard demands."""
    client.ask("__ping")
    bad = b'{"seq_id": 1, "action": "__ping", "data": {"x": "\xff\xfe"}}'
    if client.carrier == "stdio":
        client.send_bytes(bad + b"\n")
        assert client.ask("__ping") == {}
        assert client._kept == []
    else:
        client.socket.send(bad, text=True)
        assert client.closed().code == 1007


def test_seq_id_is_given_back(client):
    for seq in (0, 1, -1, -7, 2**31, 2**53 + 1, 2**63 - 1, -(2**63)):
        client.send({"seq_id": seq, "action": "__ping", "data": {}})
        assert client.wait(seq) == {
            "seq_id": seq,
            "code": 0,
            "message": "success",
            "data": {},
            "chunk_status": "continue",
        }


def test_seq_id_twice(client):
    """Nothing forbids it: each request has its answer."""
    for _ in range(2):
        client.send({"seq_id": 5, "action": "__ping", "data": {}})
    for _ in range(2):
        assert success(client.wait(5)) == {}


@pytest.mark.parametrize(
    "message, seq, field",
    [
        ({"action": "__ping", "data": {}}, -1, "seq_id"),
        ({"seq_id": "x", "action": "__ping", "data": {}}, "x", "seq_id"),
        ({"seq_id": 1.5, "action": "__ping", "data": {}}, 1.5, "seq_id"),
        ({"seq_id": [], "action": "__ping", "data": {}}, -1, "seq_id"),
        ({"seq_id": 3, "action": 5, "data": {}}, 3, "action"),
        ({"seq_id": 3, "action": None, "data": {}}, 3, "action"),
        ({"seq_id": 3, "action": ["__ping"], "data": {}}, 3, "action"),
        ({"seq_id": 3, "action": "__ping"}, 3, "data"),
        ({"seq_id": 3, "action": "__ping", "data": None}, 3, "data"),
        ({"seq_id": 3, "action": "__ping", "data": []}, 3, "data"),
        ({"seq_id": 3, "action": "__ping", "data": "x"}, 3, "data"),
        ({"seq_id": 3, "action": "__ping", "data": {}, "context": []}, 3, "context"),
        ({"seq_id": 3, "action": "__ping", "data": {}, "context": "x"}, 3, "context"),
        (
            {"seq_id": 3, "action": "__ping", "data": {}, "stream_flow_control": 2},
            3,
            "stream_flow_control",
        ),
        (
            {"seq_id": 3, "action": "__ping", "data": {}, "stream_flow_control": "1"},
            3,
            "stream_flow_control",
        ),
        # A bad envelope comes before an unknown action.
        ({"seq_id": 3, "action": "no_such", "data": []}, 3, "data"),
    ],
)
def test_malformed_envelope(client, message, seq, field):
    client.send(message)
    answer = client.receive()
    assert answer["seq_id"] == seq
    text = failure(answer)
    assert text.startswith("ValidationError: ") and field in text
    assert client.ask("__ping") == {}


def test_envelope_is_forgiving(client):
    """Unknown members, nulls and flow control on plain calls do no harm."""
    client.send({"seq_id": 1, "action": "__ping", "data": {"x": 1}, "y": 2, "context": None})
    assert success(client.wait(1)) == {}
    for flow in (1, None):
        client.send({"seq_id": 2, "action": "__ping", "data": {}, "stream_flow_control": flow})
        assert success(client.wait(2)) == {}


def test_seq_id_as_text_is_taken(client):
    client.send({"seq_id": "41", "action": "__ping", "data": {}})
    assert client.receive()["seq_id"] in (41, "41")


@pytest.mark.parametrize("name", ["nothing", "", "box_exec ", "BOX_EXEC", "ping", "été"])
def test_unknown_action(client, name):
    assert client.fail(name) == f"ValueError: Action {name} not found"


def test_unknown_action_that_is_long(client):
    text = client.fail("x" * 100000)
    assert text.startswith("ValueError: Action xxx") and text.endswith(" not found")
    assert len(text) <= len("ValueError: ") + 4096


def test_error_text_is_cut(box):
    def fail(size):
        return box.fail("box_exec", {"cmd": "fail BoxError " + "x" * size, "session_id": "s"})

    assert fail(4096) == "BoxError: " + "x" * 4096
    for size in (4097, 4200, 100000):
        assert fail(size) == "BoxError: " + "x" * 4096 + "... [protocol error truncated]"


def test_error_text_of_wide_characters_is_cut(box):
    """Cut at 4,096 characters, and never inside one."""
    cmd = "fail BoxError a" + "😀" * 5000
    text = box.fail("box_exec", {"cmd": cmd, "session_id": "s"})
    head, tail = "BoxError: a", "... [protocol error truncated]"
    assert text.startswith(head) and text.endswith(tail)
    kept = text[len(head) : -len(tail)]
    assert set(kept) == {"😀"} and len(kept) == 4095


def test_answers_come_in_any_order(box):
    slow = box.start("box_exec", {"cmd": "sleep 600", "session_id": "a"})
    fast = [box.start("box_exec", {"cmd": "echo x", "session_id": "b"}) for _ in range(3)]
    assert [box.receive()["seq_id"] for _ in range(4)] == [*fast, slow]


# 2. Names of errors inside what a client says.


SMUGGLED = [
    ("action", "{}", {}),
    ("box_get_session", "session_id", {}),
    ("box_delete_session", "session_id", {}),
    ("box_exec", "session_id", {"cmd": "echo x"}),
    ("box_exec", "image", {"cmd": "fail BoxError x", "session_id": "i"}),
    ("box_exec", "{}", {"cmd": "echo x", "session_id": "s"}),
    ("box_exec", "network", {"cmd": "echo x", "session_id": "s"}),
    ("box_exec", "workdir", {"cmd": "echo x", "session_id": "s"}),
    ("box_exec", "host_path", {"cmd": "echo x", "session_id": "s"}),
    ("box_exec", "timeout_sec", {"cmd": "echo x", "session_id": "s"}),
    ("box_exec", "env", {"cmd": "echo x", "session_id": "s"}),
    ("box_get_managed_process", "process_id", {"session_id": "here"}),
    ("box_init", "backend", {"local": {"default_workspace": "/etc/x"}}),
    ("__file_chunk", "file_key", {"chunk_base64": "", "chunk_index": 0, "chunk_amount": 1}),
    ("__file_chunk", "chunk_base64", {"file_key": "k", "chunk_index": 0, "chunk_amount": 1}),
    ("box_verify_shared_workspace", "marker_name", {}),
]


@pytest.mark.parametrize("smuggled", ["BoxAdmissionError: x", "BoxAdmissionError:" * 2])
@pytest.mark.parametrize("action, member, data", SMUGGLED)
def test_names_in_client_text(box, action, member, data, smuggled):
    """A client finds `Name:` anywhere in a message, so none may be there but the real one."""
    box.exec("echo x", "here")
    for text in (smuggled, "/etc/" + smuggled, "/" + smuggled, [smuggled], {smuggled: smuggled}):
        if action == "action":
            answer = box.call(text if isinstance(text, str) else smuggled)
        elif member == "{}":
            answer = box.call(action, {**data, smuggled: text})
        else:
            answer = box.call(action, {**data, member: text})
        if answer["code"] == 0:
            continue
        message = answer["message"]
        assert re.match(r"[A-Za-z]+Error: ", message), message
        assert len(re.findall(r"Error:", message)) == 1, message
        assert not message.startswith("BoxAdmissionError"), message


def test_names_in_contexts(box):
    for member in ("instance_uuid", "workspace_uuid", "installation_uuid", "BoxAdmissionError: x"):
        message = box.call("box_status", context=context(**{member: "BoxAdmissionError: y"})).get(
            "message"
        )
        assert "AdmissionError:" not in message


def test_names_in_the_backends_text(box):
    """Also what a backend says of a client's files may hold such a name."""
    cmd = "fail BoxValidationError no file BoxAdmissionError: x"
    text = box.fail("box_exec", {"cmd": cmd, "session_id": "s"})
    assert text.startswith("BoxValidationError: no file ") and "AdmissionError:" not in text


# 3. Contexts.


@pytest.mark.parametrize(
    "given",
    [
        context(),
        context(generation="1"),
        {"instance_uuid": boxlib.INSTANCE, "workspace_uuid": "ws1"},
        {"instance_uuid": f" {boxlib.INSTANCE} ", "workspace_uuid": " ws1 "},
        context(installation_uuid="inst"),
        context(installation_uuid=None),
        context(installation_uuid="inst", runtime_revision=1, artifact_digest="a" * 64),
    ],
)
def test_good_contexts(box, given):
    """All of these mean the same workspace: the installation part is dropped."""
    box.exec("echo x", "mine", context=given)
    (session,) = box.ask("box_get_sessions", context=context())["sessions"]
    assert session["session_id"] == "mine"
    assert session["backend_session_id"].endswith("mine")


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"instance_uuid": boxlib.INSTANCE},
        {"workspace_uuid": "ws1"},
        context(instance=""),
        context(workspace=""),
        context(workspace="  "),
        context(workspace=5),
        context(workspace=None),
        context(generation=0),
        context(generation=-1),
        context(generation="0"),
        context(generation="x"),
        context(generation=1.5),
        context(generation=None),
        context(generation=[]),
        context(unknown=1),
        context(installation_uuid=""),
        context(installation_uuid="i", runtime_revision=1),
        context(installation_uuid="i", artifact_digest="a" * 64),
        context(runtime_revision=1, artifact_digest="a" * 64),
        context(installation_uuid="i", runtime_revision=0, artifact_digest="a" * 64),
        context(installation_uuid="i", runtime_revision="1", artifact_digest="a" * 64),
        context(installation_uuid="i", runtime_revision=1, artifact_digest="A" * 64),
        context(installation_uuid="i", runtime_revision=1, artifact_digest="a" * 63),
        context(generation=2**63),
    ],
)
def test_bad_contexts(box, given):
    """Refused on every action alike."""
    for action in ("box_status", "__ping"):
        assert box.fail(action, context=given).startswith("ValidationError: ")


def test_context_of_another_instance(box):
    other = context(instance="another")
    for action in ("box_status", "box_get_sessions", "__ping", "box_init", "box_health"):
        assert box.fail(action, context=other).startswith("PermissionError: ")
    assert box.fail("box_exec", {"cmd": "echo x", "session_id": "s"}, context=other).startswith(
        "PermissionError: "
    )


def test_clients_without_contexts_share_a_tenant(box):
    """Clients older than tenancy: one tenant for all of them, and none of the others."""
    box.exec("echo x", "old", context=None)
    listed = box.ask("box_get_sessions", context=None)["sessions"]
    assert [one["session_id"] for one in listed] == ["old"]
    assert box.ask("box_get_sessions")["sessions"] == []
    if box.carrier == "websocket":
        with box.boxd.web() as second:
            assert second.ask("box_get_session", {"session_id": "old"}, context=None)
    assert box.ask("box_delete_session", {"session_id": "old"}, context=None)


def test_require_context(tmp_path):
    (tmp_path / "box.yaml").write_text("require_context: true\nbackend: fake\n")
    with boxlib.Boxd(
        "--config", str(tmp_path / "box.yaml"), stdio=True, cwd=tmp_path
    ) as boxd, boxlib.Stdio(boxd) as client:
        tenant = ["box_status", "box_get_sessions", "box_exec", "__cancel_action", "__stream_ack"]
        for action in [*tenant, "box_list_skills", "box_get_storage_analysis"]:
            assert client.fail(action, context=None) == NEEDS_CONTEXT
        for action in ("__ping", "box_health", "box_get_backend_info", "box_init"):
            client.ask(action, context=None)
        assert client.exec("echo x")["stdout"] == "x"


# 4. The generation fence.


def test_stale_generation(box):
    box.ask("box_status", context=context(generation=3))
    for action in ("box_status", "box_get_sessions"):
        assert box.fail(action, context=context(generation=2)) == STALE
        assert box.ask(action, context=context(generation="3"))
        assert box.ask(action, context=context("ws2", 1)), "another workspace is not concerned"
    assert box.ask("__ping", context=context(generation=1)) == {}, "host actions know no fence"


def test_generation_advance_ends_what_is_older(box):
    """Running commands of the older placement end by the Stale error, and its sessions go."""
    old, new, other = context(), context(generation=2), context("ws2")
    box.exec("echo x", "idle", context=old)
    running = box.start("box_exec", {"cmd": "sleep 60000", "session_id": "s"}, context=old)
    elsewhere = box.start("box_exec", {"cmd": "sleep 900", "session_id": "s"}, context=other)
    wait_running(box, context=old)
    wait_running(box, context=other)
    assert box.ask("box_get_sessions", context=new) == {"sessions": []}
    assert failure(box.wait(running, 5)) == STALE
    assert success(box.wait(elsewhere))["status"] == "completed"
    boxlib.wait_until(
        lambda: box.ask("box_status", context=new)["capacity"]["used"] == 0,
        what="the sessions of the older placement are gone",
    )
    assert box.fail("box_get_session", {"session_id": "idle"}, context=new).startswith(
        "BoxSessionNotFoundError: "
    )
    assert box.fail("box_get_session", {"session_id": "idle"}, context=old) == STALE


def test_generation_advance_by_another_connection(web):
    with web.web() as first, web.web() as second:
        first.init()
        running = first.start("box_exec", {"cmd": "sleep 60000", "session_id": "s"})
        wait_running(second)
        second.ask("box_status", context=context(generation=2))
        assert failure(first.wait(running, 5)) == STALE


def test_fence_is_bounded(box):
    box.init(limits={"max_admission_records": 3})
    used = [context(f"w{n}") for n in range(3)]
    for one in used:
        box.ask("box_status", context=one)
    assert box.fail("box_status", context=context("w3")) == (
        "PermissionError: Box generation fence capacity reached; "
        "refusing an unbounded Workspace allocation"
    )
    for one in used:
        box.ask("box_status", context=one)


# 5. Many requests at once, and cancelling.


def test_busy(box):
    """128 at once are served, the 129th is refused at once; the cancel lane is beside them."""
    execs = [
        box.start("box_exec", {"cmd": "sleep 60000", "session_id": f"s{n % 9}"}) for n in range(128)
    ]
    for action in ("__ping", "box_status", "no_such_action"):
        assert box.fail(action) == BUSY
    for n in range(10):
        assert box.ask("__cancel_action", {"seq_id": execs[n]}) == {"cancelled": True}
        assert box.ask("__stream_ack", {"seq_id": execs[n], "index": 1}) == {"accepted": False}
    # Ten have room now.
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
    """The half-made box is ended with the request that wanted it."""
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
    """Another workspace cannot; an equal context can, with an installation too."""
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
    """What a connection had under way ends with it; its sessions stay."""
    with web.web() as second:
        second.init()
        with web.web() as first:
            first.start("box_exec", {"cmd": "sleep 60000", "session_id": "s"})
            first.start("box_create_session", {"session_id": "m", "image": "make-60000"})
            wait_running(second)
        boxlib.wait_until(
            lambda: second.ask("box_get_session", {"session_id": "s"})["status"] == "idle",
            what="the exec of the closed connection is cancelled",
        )
        listed = second.ask("box_get_sessions")["sessions"]
        assert [one["session_id"] for one in listed] == ["s"], "the half-made box is gone too"
        assert 'box_requests_total{action="box_exec",result="cancelled"} 1' in (
            web.http("/metrics")[2].decode()
        )


def test_end_of_stdin_ends_all(tmp_path):
    """With commands running and boxes being made, boxd is gone within 2 s, with exit code 0."""
    with boxlib.Boxd(stdio=True, cwd=tmp_path) as boxd, boxlib.Stdio(boxd) as client:
        client.init()
        client.start("box_exec", {"cmd": "sleep 60000", "session_id": "s"})
        client.start("box_create_session", {"session_id": "m", "image": "make-60000"})
        wait_running(client)
        worker = boxd.worker
        client.close()
        assert boxd.wait(2.0) == 0
        assert not boxlib.is_alive(worker)


# 6. Files.


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
    # What was there is not harmed by a refusal.
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
    """256 MiB are held for all connections together; a closed connection gives its share back."""
    piece = b"x" * 16384
    per_file = 100 * 64  # chunks in 100 MiB
    with boxlib.Boxd(variable="BOX_RELEASE_FAKE", cwd=tmp_path) as boxd:
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

            with PackedWeb(boxd) as filler:
                for start in range(0, 16384, 64):
                    for n in range(start, start + 64):
                        filler.send(request(n, n))
                    for n in range(start, start + 64):
                        assert filler.receive()["code"] == 0
                full = "ValueError: Active file transfer capacity reached"
                assert watcher.fail("__file_chunk", chunk("w")) == full
                filler.send(request(16384, 16384))
                assert failure(filler.receive()) == full
                # The file that did not fit is gone whole, 56 MiB of it.
                assert watcher.ask("__file_chunk", chunk("w")) == {}
            with PackedWeb(boxd) as filler:
                for start in range(0, 16320, 64):
                    for n in range(start, start + 64):
                        filler.send(request(n, n))
                    for n in range(start, start + 64):
                        assert filler.receive()["code"] == 0, "the budget was not given back"


class PackedWeb(boxlib.Web):
    """A msgpack client."""

    def _decode(self, message):
        return msgpack.unpackb(message)

    def send(self, message):
        self.send_bytes(msgpack.packb(message))


# 7. box_init.


def limits_of(client):
    return client.ask("box_status")["limits"]


LIMITS = {
    "max_sessions": (0, 5000, 64),
    "max_managed_processes": (0, 1024, 64),
    "max_completed_processes": (0, 10000, 256),
    "max_admission_records": (1, 250000, 100000),
    "max_rpc_file_bytes": (1, 100 << 20, 20 << 20),
    "completed_process_retention_sec": (0, 86400, 300),
}


@pytest.mark.parametrize("name", LIMITS)
def test_init_limit(client, name):
    least, most, usual = LIMITS[name]
    assert limits_of(client)[name] == usual
    for value in (least, most):
        client.init(limits={name: value})
        assert limits_of(client)[name] == value
    for value in (least - 1, most + 1, 2**62):
        assert client.fail("box_init", {"limits": {name: value}}) == (
            f"ValueError: box.limits.{name} must be between {least} and {most}"
        )
    for value in ("5", True, 1.5, None, [], {}):
        assert client.fail("box_init", {"limits": {name: value}}) == (
            f"ValueError: box.limits.{name} must be an integer"
        )
    assert limits_of(client)[name] == most


def test_init_merges(client):
    """By top-level key: a section replaces its own, others stay; limits stay one by one."""
    client.init(session_ttl_sec=7, limits={"max_sessions": 5})
    client.ask("box_init", {"limits": {"max_managed_processes": 6}})
    status = client.ask("box_status")
    assert status["session_ttl_sec"] == 7
    assert status["backend"]["name"] == "fake"
    assert (status["limits"]["max_sessions"], status["limits"]["max_managed_processes"]) == (5, 6)
    client.ask("box_init", {})
    assert client.ask("box_status") == status


def test_init_refused_applies_nothing(client, tmp_path):
    client.init(session_ttl_sec=7, limits={"max_sessions": 5})
    before = client.ask("box_status")
    refused = [
        {"backend": "", "limits": {"max_sessions": 6, "max_rpc_file_bytes": 0}},
        {"session_ttl_sec": "x", "limits": {"max_sessions": 6}},
        {"session_ttl_sec": -1, "limits": {"max_sessions": 6}},
        {"limits": [1]},
        {"local": "x", "session_ttl_sec": 9},
        {"local": {"host_root": 5}, "session_ttl_sec": 9},
        {"local": {"default_workspace": "/etc/x"}, "session_ttl_sec": 9},
        {
            "local": {"default_workspace": "/outside", "allowed_mount_roots": [str(tmp_path)]},
            "session_ttl_sec": 9,
        },
        {"backend": "host", "session_ttl_sec": 9},
        {"backend": 5, "session_ttl_sec": 9},
    ]
    for data in refused:
        assert client.fail("box_init", data), data
        assert client.ask("box_status") == before, data


def test_init_unknown_members(client):
    """Ignored, and said so in one line of the log that names them."""
    client.init(
        surprise=1,
        other={"x": 1},
        limits={"max_sessions": 5, "max_something": 1},
        local={"host_root": "./data", "nothing": True},
    )
    event = client.boxd.wait_event("config.unknown_members_ignored")
    assert sorted(event["members"].split(", ")) == [
        "limits.max_something",
        "local.nothing",
        "other",
        "surprise",
    ]
    client.ask("box_status")
    assert len(client.boxd.events("config.unknown_members_ignored")) == 1
    assert limits_of(client)["max_sessions"] == 5


def test_init_keeps_the_backend_of_sessions(client):
    """With sessions there, the backend is not chosen anew."""
    client.init()
    client.exec("echo x")
    client.ask("box_init", {"backend": "nothing"})
    assert client.exec("echo y")["stdout"] == "y"
    client.ask("box_delete_session", {"session_id": "s"})
    client.ask("box_init", {"backend": "nothing"})
    assert client.fail("box_exec", {"cmd": "echo x", "session_id": "s"}).startswith(
        "BoxBackendUnavailableError: "
    )


@pytest.mark.parametrize("workspace", ["", "inner/deep", None])
def test_init_makes_the_default_workspace(client, tmp_path, workspace):
    root = tmp_path / "root"
    client.init(local={"host_root": str(root), "default_workspace": workspace})
    assert (root / (workspace or "default")).is_dir()


def test_init_default_workspace_relative_to_the_working_folder(client, tmp_path):
    client.init(local={"host_root": "./data/box", "allowed_mount_roots": "./data/box, /tmp"})
    assert (tmp_path / "data/box/default").is_dir()


def test_init_file_in_the_way(client, tmp_path):
    (tmp_path / "default").write_text("a file")
    assert client.fail("box_init", {"local": {"host_root": str(tmp_path)}}) == (
        "BoxValidationError: box.local.default_workspace must point to a directory on the Box "
        "runtime host"
    )
    assert (tmp_path / "default").read_text() == "a file"


def test_init_outside_allowed_roots(client, tmp_path):
    target, root, second = tmp_path / "out", tmp_path / "in", tmp_path / "in2"
    local = {"default_workspace": str(target), "allowed_mount_roots": [str(root), str(second)]}
    assert client.fail("box_init", {"local": local}) == (
        "BoxValidationError: box.local.default_workspace is outside allowed_mount_roots: "
        f"{root}, {second}"
    )
    assert not target.exists()
    # A root that merely begins alike is another folder.
    local = {"default_workspace": f"{root}x", "allowed_mount_roots": [str(root)]}
    assert "is outside allowed_mount_roots" in client.fail("box_init", {"local": local})
    assert not (tmp_path / "inx").exists()


def test_init_existing_folder_outside_allowed_roots(client, tmp_path):
    """The roots say what may be made; a folder that is there may be named."""
    (tmp_path / "there").mkdir()
    local = {"default_workspace": str(tmp_path / "there"), "allowed_mount_roots": ["/nowhere"]}
    assert client.ask("box_init", {"local": local}) == {"initialized": True}


@pytest.mark.parametrize(
    "path", ["/etc/x", "/root/x", "/proc/x", "/sys/x", "/dev/x", "/run/x", "/boot/x", "/etc"]
)
def test_init_blocked_workspace(client, path):
    local = {"default_workspace": path, "allowed_mount_roots": ["/"]}
    text = client.fail("box_init", {"local": local})
    assert text == (
        f"BoxValidationError: box.local.default_workspace {path} is blocked for security"
    )
    assert not pathlib.Path("/etc/x").exists()


def test_init_blocked_by_a_link(client, tmp_path):
    """A link does not lead into a blocked folder."""
    (tmp_path / "link").symlink_to("/etc")
    local = {"host_root": str(tmp_path), "default_workspace": "link/x"}
    assert client.fail("box_init", {"local": local}).startswith("BoxValidationError: ")
    assert not pathlib.Path("/etc/x").exists()


def test_host_backend(client):
    text = client.fail("box_init", {"backend": "host"})
    assert text == (
        "BoxValidationError: host backend is not supported"
        if client.carrier == "stdio"
        else "BoxValidationError: host backend requires local stdio control or WebSocket control "
        "protected by LANGBOT_BOX_CONTROL_TOKEN"
    )


def test_host_backend_with_token(tmp_path):
    with boxlib.Boxd(token=boxlib.TOKEN, cwd=tmp_path) as boxd, boxd.web() as client:
        assert client.fail("box_init", {"backend": "host"}) == (
            "BoxValidationError: host backend is not supported"
        )


# 8. Status, sessions, tenancy.


def test_status(box):
    status = box.ask("box_status")
    assert status["backend"] == {"name": "fake", "available": True}
    assert (status["active_sessions"], status["managed_processes"]) == (0, 0)
    assert status["session_ttl_sec"] == 300
    for name, (_, _, usual) in LIMITS.items():
        assert status["limits"][name] == usual
    assert status["limits"]["max_output_bytes"] == 8 << 20
    assert status["capacity"] == {"limit": 64, "used": 0, "remaining": 64}
    assert {"msgpack", "file_chunk_bin"} <= set(status["features"])


def test_capacity(box):
    """limit - used of this workspace, or what is left for all, whichever is less."""
    box.init(limits={"max_sessions": 4})
    two = context("ws2")
    for session in ("a", "b"):
        box.exec("echo x", session)
    box.exec("echo x", "c", context=two)

    def capacity(where):
        return box.ask("box_status", context=where)["capacity"]

    assert capacity(context()) == {"limit": 4, "used": 2, "remaining": 1}
    assert capacity(two) == {"limit": 4, "used": 1, "remaining": 1}
    making = box.start("box_create_session", {"session_id": "d", "image": "make-60000"})
    assert capacity(two) == {"limit": 4, "used": 1, "remaining": 0}, "what is being made counts"
    full = "BoxCapacityExceededError: Box session capacity reached (4)"
    for where in (context(), two):
        data = {"cmd": "echo x", "session_id": "e"}
        assert box.fail("box_exec", data, context=where) == full
        assert box.fail("box_create_session", {"session_id": "e"}, context=where) == full
    assert box.exec("echo in an old one", "a")["stdout"] == "in an old one"
    box.ask("box_delete_session", {"session_id": "d"})
    assert failure(box.wait(making)).startswith("BoxSessionNotFoundError: ")
    assert box.exec("echo x", "e", context=two)["stdout"] == "x"
    box.init(limits={"max_sessions": 0})
    assert capacity(two) == {"limit": 0, "used": 2, "remaining": 0}


def test_session_info(box):
    made = box.ask(
        "box_create_session",
        {
            "session_id": "s",
            "image": "an/image:1",
            "network": "on",
            "cpus": 0.5,
            "memory_mb": "64",
            "pids_limit": 9.0,
            "read_only_rootfs": False,
            "persistent": True,
            "workspace_quota_mb": 3,
        },
    )
    assert set(made) == SESSION_MEMBERS
    expected = {
        "session_id": "s",
        "backend_name": "fake",
        "image": "an/image:1",
        "network": "on",
        "host_path": None,
        "host_path_mode": "rw",
        "mount_path": "/workspace",
        "persistent": True,
        "cpus": 0.5,
        "memory_mb": 64,
        "pids_limit": 9,
        "read_only_rootfs": False,
        "workspace_quota_mb": 3,
        "status": "idle",
    }
    assert expected.items() <= made.items()
    for name in ("created_at", "last_used_at"):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", made[name])
    again = box.ask("box_get_session", {"session_id": "s"})
    assert {**again, "last_used_at": 0} == {**made, "last_used_at": 0}
    assert box.ask("box_get_sessions") == {"sessions": [again]}


def test_session_status(box):
    seq = box.start("box_exec", {"cmd": "sleep 500", "session_id": "s"})
    wait_running(box)
    box.wait(seq)
    assert box.ask("box_get_session", {"session_id": "s"})["status"] == "idle"


CONFLICTS = {
    "network": ("on", "off"),
    "image": ("other", "rockchin/langbot-sandbox:latest"),
    "mount_path": ("/elsewhere", "/workspace"),
    "persistent": (True, None),
    "cpus": (2.0, None),
    "memory_mb": (64, "512"),
    "pids_limit": (7, "128"),
    "read_only_rootfs": (False, None),
    "workspace_quota_mb": (5, "0"),
    "host_path_mode": ("ro", "rw"),
}


@pytest.mark.parametrize("field", CONFLICTS)
def test_session_conflict(box, field):
    value, shown = CONFLICTS[field]
    box.exec("echo x")
    spec = {"cmd": "echo x", "session_id": "s", field: value}
    for action in ("box_exec", "box_create_session"):
        text = box.fail(action, spec)
        start = f"BoxSessionConflictError: Box session {physical('s')} already exists with {field}="
        assert text.startswith(start)
        if shown is not None:
            assert text == start + shown
    assert box.exec("echo still")["stdout"] == "still"


def test_session_names(box):
    """Both spellings are one session; answers have the safe one, a deletion that of its asker."""
    assert box.exec("echo x", "person:1/a b")["session_id"] == "person-1-a-b"
    assert box.exec("echo x", "person-1-a-b")["session_id"] == "person-1-a-b"
    (session,) = box.ask("box_get_sessions")["sessions"]
    assert session["session_id"] == "person-1-a-b"
    assert session["backend_session_id"] == physical("person-1-a-b")
    got = box.ask("box_get_session", {"session_id": "--person::1//a  b--"})
    assert got["session_id"] == "person-1-a-b"
    assert box.ask("box_delete_session", {"session_id": "person:1/a b"}) == {
        "deleted": "person:1/a b"
    }
    assert box.ask("box_get_sessions") == {"sessions": []}
    long = "x" * 300
    for name, safe in (("a.b_c-D9", "a.b_c-D9"), ("été", "t"), ("..", ".."), (long, long)):
        assert box.exec("echo x", name)["session_id"] == safe


@pytest.mark.parametrize("name", ["///", "é", "-", "- -", "漢字"])
def test_session_name_without_a_usable_character(box, name):
    text = "Box session_id must contain a valid character"
    spec = {"cmd": "echo x", "session_id": name}
    assert box.fail("box_exec", spec) == f"BoxValidationError: {text}"
    assert box.fail("box_create_session", spec) == f"BoxValidationError: {text}"
    assert box.fail("box_get_session", spec) == f"ValueError: {text}"
    assert box.fail("box_delete_session", spec) == f"ValueError: {text}"


def test_session_name_missing(box):
    assert box.fail("box_exec", {"cmd": "echo x", "session_id": ""}).startswith(
        "BoxValidationError: "
    )
    assert box.fail("box_exec", {"cmd": "echo x"}).startswith("BoxValidationError: ")
    for action in ("box_get_session", "box_delete_session", "box_get_managed_process"):
        assert box.fail(action) == "KeyError: 'session_id'"
    assert box.fail("box_start_managed_process", {"session_id": "s"}) == "KeyError: 'spec'"


def test_sessions_not_found(box):
    missing = f"BoxSessionNotFoundError: session {physical('nope')} not found"
    for action in ("box_get_session", "box_delete_session", "box_get_managed_process"):
        assert box.fail(action, {"session_id": "nope"}) == missing
    box.exec("echo x")
    assert box.fail("box_get_managed_process", {"session_id": "s"}) == (
        f"BoxManagedProcessNotFoundError: session {physical('s')} has no managed process with "
        "process_id=default"
    )


def test_tenants_are_apart(box):
    """The same names in two workspaces are two things, and nobody reaches the other's."""
    one, two = context("ws1"), context("ws2")
    box.exec("echo x", "s", context=one, memory_mb=64)
    assert box.fail("box_get_session", {"session_id": "s"}, context=two) == (
        f"BoxSessionNotFoundError: session {physical('s', 'ws2')} not found"
    )
    assert box.fail("box_delete_session", {"session_id": "s"}, context=two).startswith(
        "BoxSessionNotFoundError: "
    )
    # Not by the physical name either.
    for name in (physical("s"), physical("s", "ws1", 1)):
        assert box.fail("box_get_session", {"session_id": name}, context=two).startswith(
            "BoxSessionNotFoundError: "
        )
    box.exec("echo x", "s", context=two, memory_mb=128)
    listed = [box.ask("box_get_sessions", context=where)["sessions"] for where in (one, two)]
    assert [[session["memory_mb"] for session in each] for each in listed] == [[64], [128]]
    assert len({each[0]["backend_session_id"] for each in listed}) == 2
    box.ask("box_delete_session", {"session_id": "s"}, context=two)
    assert box.ask("box_get_session", {"session_id": "s"}, context=one)["memory_mb"] == 64
    assert box.ask("box_status", context=two)["active_sessions"] == 0


def test_shutdown_removes_sessions(box):
    """Of all tenants; commands under way end, and the runtime stays up."""
    box.exec("echo x", "p", persistent=True)
    box.exec("echo x", "s", context=context("ws2"))
    running = box.start("box_exec", {"cmd": "sleep 60000", "session_id": "r"})
    wait_running(box, "r")
    assert box.ask("box_shutdown") == {}
    assert failure(box.wait(running))
    for where in (context(), context("ws2")):
        boxlib.wait_until(
            lambda where=where: box.ask("box_status", context=where)["active_sessions"] == 0,
            what="no sessions are left",
        )
    assert box.exec("echo again")["stdout"] == "again"


def test_idle_sessions_go(box):
    box.init(session_ttl_sec=1)
    box.exec("echo x", "short")
    box.exec("echo x", "kept", persistent=True)
    running = box.start("box_exec", {"cmd": "sleep 3500", "session_id": "busy"})
    event = box.boxd.wait_event("session.idle", seconds=5)
    assert event["session"] == physical("short")
    boxlib.wait_until(
        lambda: [one["session_id"] for one in box.ask("box_get_sessions")["sessions"]]
        == ["kept", "busy"],
        what="only the idle one is gone",
    )
    assert success(box.wait(running))["status"] == "completed"
    box.boxd.wait_event("session.idle", 2, seconds=5)
    boxlib.wait_until(lambda: len(box.ask("box_get_sessions")["sessions"]) == 1)
    assert [event["session"] for event in box.boxd.events("session.idle")] == [
        physical("short"),
        physical("busy"),
    ]


# 9. Commands.


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
    """Awkward characters come back equal, escaped or not on their way in."""
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
    """It has no UTF-8 form; the message is served all the same."""
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
    """Control characters take six bytes in JSON: clipped earlier, by the same line."""
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
        with contextlib.suppress(boxlib.Closed):
            stdio.send_bytes(b"{" + b"x" * boxlib.MESSAGE_BYTES_MAX + b"\n")

    sender = threading.Thread(target=send)
    sender.start()
    stdio.closed()
    sender.join(10)
    assert stdio.boxd.wait() == 1


def frame(payload, opcode=1, final=True, declared=None):
    """A client's frame, masked with zeros; `declared` is the length that its header tells."""
    size = len(payload) if declared is None else declared
    first = (0x80 if final else 0) | opcode
    return struct.pack("!BBQ4x", first, 0x80 | 127, size) + payload


def read_close(raw):
    """The code of the close frame that the peer sends, other than which nothing comes."""
    data = b""
    while len(data) < 4:
        piece = raw.recv(4096)
        assert piece, f"no close frame: {data}"
        data += piece
    assert data[0] == 0x88, data
    return struct.unpack("!H", data[2:4])[0]


def test_message_too_large_on_websocket(web):
    """More than 16 MiB: closed with 1009 as soon as the header tells, however fragmented."""
    over = boxlib.MESSAGE_BYTES_MAX + 1
    with boxlib.raw_websocket(web) as raw:
        raw.sendall(frame(b"{", declared=over))
        assert read_close(raw) == 1009
    with boxlib.raw_websocket(web) as raw:
        for n in range(16):
            raw.sendall(frame(b" " * (1 << 20), opcode=0 if n else 1, final=False))
        raw.sendall(frame(b" ", opcode=0))
        assert read_close(raw) == 1009
    with web.web() as client:
        assert client.ask("__ping") == {}


def test_message_of_exactly_16_mib(client):
    empty = '{"seq_id": 1, "action": "__ping", "data": {"x": ""}}'
    text = empty.replace('""', '"' + "x" * (boxlib.MESSAGE_BYTES_MAX - len(empty)) + '"')
    client.send_text(text)
    assert success(client.wait(1)) == {}


# 10. The chunk form of stdio.


@pytest.fixture
def stdio(tmp_path):
    with boxlib.Boxd(stdio=True, cwd=tmp_path) as boxd, boxlib.Stdio(boxd) as client:
        yield client


def send_lines(client, *lines):
    for line in lines:
        client.send_bytes(json.dumps(line).encode() + b"\n")


PING = '{"seq_id": 9, "action": "__ping", "data": {}}'


def test_chunks_of_any_size(stdio):
    """Also of a short message, with blank lines and CR LF between."""
    start = {"type": "chunk_start", "total_size": len(PING)}
    pieces = [{"type": "chunk_data", "data": c, "offset": n} for n, c in enumerate(PING)]
    send_lines(stdio, start, *pieces, {"type": "chunk_end"})
    assert success(stdio.wait(9)) == {}
    stdio.send_bytes(b"\n  \r\n" + PING.encode() + b"\r\n")
    assert success(stdio.wait(9)) == {}


def test_answers_come_in_chunks(stdio):
    """Over 16 KiB in chunks, up to that in a line. LineReader checks sizes and offsets."""
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
        [{"type": "chunk_start", "total_size": boxlib.MESSAGE_BYTES_MAX + 1}],
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
    """With all the log there is, and traffic on the port too."""
    options = {"stdio": True, "cwd": tmp_path, "log_level": "debug"}
    with boxlib.Boxd(**options) as boxd, boxlib.Stdio(boxd) as client:
        client.init()
        boxd.http("/nothing")
        with boxd.web() as second:
            second.ask("__ping")
        client.fail("nothing")
        assert client.exec("echo x")["stdout"] == "x"
        assert client._kept == []
        assert boxd.events("door.refused")
