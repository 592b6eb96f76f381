"""The envelope, message by message: what is ignored, what is refused, what is returned.

Texts that clients match on are compared whole.
"""

import re

import pytest

import boxdlib
from clientlib import context, failure, success

# The envelope.


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
    """Not a request: no answer, a warning, and the connection stays."""
    client.ask("__ping")
    client.send_text(text)
    client._seq = 100
    assert client.ask("__ping") == {}
    assert client._kept == []
    event = client.boxd.wait_event("message.ignored")
    assert event["level"] == "warning"
    client.boxd.wait_event("message.ignored")
    assert len(client.boxd.events("message.ignored")) == 1


def test_first_message_is_no_json(client):
    """Also as the first message. (On stdio the first byte selects the codec.)"""
    client.send_text("{no JSON")
    assert client.ask("__ping") == {}


def nested(depth):
    """A ping whose lists and maps are `depth` deep in all; the envelope is two deep."""
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
    boxdlib.wait_until(lambda: client.boxd.counted("message.ignored") == 3)


def test_many_values(client):
    """More values than a message may have: ignored, like a message that is too deep."""
    for count, answered in ((200000, True), (300000, False)):
        items = ",".join(["0"] * count)
        client.send_text('{"seq_id": %d, "action": "__ping", "data": {"x": [%s]}}' % (count, items))
        assert client.has_answer(count) is answered


def test_no_utf8(client):
    """stdio drops the line; WebSocket closes with 1007, as its standard requires."""
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
    """Allowed: each request has its answer."""
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
        # A malformed envelope is reported before an unknown action.
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
    """Unknown members, nulls and flow control on plain calls are ignored."""
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


# Error names in client-supplied text.


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
    """Clients look for `Name:` anywhere in a message, so only the real name may be there."""
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
    """A backend's text about a client's files may contain such a name, too."""
    cmd = "fail BoxValidationError no file BoxAdmissionError: x"
    text = box.fail("box_exec", {"cmd": cmd, "session_id": "s"})
    assert text.startswith("BoxValidationError: no file ") and "AdmissionError:" not in text
