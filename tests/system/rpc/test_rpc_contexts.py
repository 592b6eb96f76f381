"""Contexts and generations: whom a request is for, and which requests are out of date.

Texts that clients match on are compared whole.
"""

import pytest

import boxdlib
from boxdlib import wait_running, wait_until
from clientlib import INSTANCE, Stdio, context, failure, success

BUSY = "Runtime connection is busy (max 128 concurrent actions)"
STALE = "PermissionError: Stale Box placement generation"
NEEDS_CONTEXT = "PermissionError: Box tenant action requires a trusted Workspace context"


# Contexts.


@pytest.mark.parametrize(
    "given",
    [
        context(),
        context(generation="1"),
        {"instance_uuid": INSTANCE, "workspace_uuid": "ws1"},
        {"instance_uuid": f" {INSTANCE} ", "workspace_uuid": " ws1 "},
        context(installation_uuid="inst"),
        context(installation_uuid=None),
        context(installation_uuid="inst", runtime_revision=1, artifact_digest="a" * 64),
    ],
)
def test_good_contexts(box, given):
    """All of these are the same workspace: the installation part is ignored."""
    box.exec("echo x", "mine", context=given)
    (session,) = box.ask("box_get_sessions", context=context())["sessions"]
    assert session["session_id"] == "mine"
    assert session["backend_session_id"].endswith("mine")


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"instance_uuid": INSTANCE},
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
    """Refused for every action."""
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
    """Clients from before tenancy: they share one tenant, separate from all others."""
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
    with boxdlib.Boxd(
        "--config", str(tmp_path / "box.yaml"), stdio=True, cwd=tmp_path
    ) as boxd, Stdio(boxd) as client:
        tenant = ["box_status", "box_get_sessions", "box_exec", "__cancel_action", "__stream_ack"]
        for action in [*tenant, "box_list_skills", "box_get_storage_analysis"]:
            assert client.fail(action, context=None) == NEEDS_CONTEXT
        for action in ("__ping", "box_health", "box_get_backend_info", "box_init"):
            client.ask(action, context=None)
        assert client.exec("echo x")["stdout"] == "x"


# Generations.


def test_stale_generation(box):
    box.ask("box_status", context=context(generation=3))
    for action in ("box_status", "box_get_sessions"):
        assert box.fail(action, context=context(generation=2)) == STALE
        assert box.ask(action, context=context(generation="3"))
        assert box.ask(action, context=context("ws2", 1)), "another workspace is not concerned"
    assert box.ask("__ping", context=context(generation=1)) == {}, "host actions have no generation"


def test_generation_advance_ends_what_is_older(box):
    """Running commands of the older placement end with the Stale error, and its sessions are
    removed."""
    old, new, other = context(), context(generation=2), context("ws2")
    box.exec("echo x", "idle", context=old)
    running = box.start("box_exec", {"cmd": "sleep 60000", "session_id": "s"}, context=old)
    elsewhere = box.start("box_exec", {"cmd": "sleep 900", "session_id": "s"}, context=other)
    wait_running(box, context=old)
    wait_running(box, context=other)
    assert box.ask("box_get_sessions", context=new) == {"sessions": []}
    assert failure(box.wait(running, 5)) == STALE
    assert success(box.wait(elsewhere))["status"] == "completed"
    wait_until(
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


def test_number_of_generations_is_limited(box):
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
