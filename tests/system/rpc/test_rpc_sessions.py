"""Status, sessions and tenancy: what is reported about a session, its names, and its end."""

import re

import pytest

import parallellib
import boxdlib
from boxdlib import wait_running, wait_until
from clientlib import LIMITS, context, failure, physical, success

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


@pytest.fixture(scope="module")
def scenes(request):
    with parallellib.begun(request) as made:
        yield made


@pytest.mark.usefixtures("scenes")  # they wait while others work
def test_status(box):
    status = box.ask("box_status")
    assert status["backend"] == {"name": "fake", "available": True}
    assert (status["active_sessions"], status["managed_processes"]) == (0, 0)
    assert status["session_ttl_sec"] == 300
    for name, (_, _, usual) in LIMITS.items():
        assert status["limits"][name] == usual
    assert status["limits"]["max_output_bytes"] == 8 << 20
    assert status["capacity"] == {"limit": 56, "used": 0, "remaining": 56}
    assert {"msgpack", "file_chunk_bin"} <= set(status["features"])


def test_capacity(box):
    """limit - used in this workspace, or what is left for all, whichever is less."""
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
    """Both spellings name one session; answers have the normalized one, a deletion the caller's."""
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
    """The same names in two workspaces are separate sessions, and neither can reach the other's."""
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
    """Sessions of all tenants; running commands end, and the runtime stays up."""
    box.exec("echo x", "p", persistent=True)
    box.exec("echo x", "s", context=context("ws2"))
    running = box.start("box_exec", {"cmd": "sleep 60000", "session_id": "r"})
    wait_running(box, "r")
    assert box.ask("box_shutdown") == {}
    assert failure(box.wait(running))
    for where in (context(), context("ws2")):
        wait_until(
            lambda where=where: box.ask("box_status", context=where)["active_sessions"] == 0,
            what="no sessions are left",
        )
    assert box.exec("echo again")["stdout"] == "again"


@parallellib.scene
def test_idle_sessions_go(carrier, tmp_path):
    with boxdlib.dialled(carrier, cwd=tmp_path) as box:
        box.init()
        box.init(session_ttl_sec=1)
        box.exec("echo x", "short")
        box.exec("echo x", "kept", persistent=True)
        running = box.start("box_exec", {"cmd": "sleep 3500", "session_id": "busy"})
        event = box.boxd.wait_event("session.idle", seconds=5)
        assert event["session"] == physical("short")
        wait_until(
            lambda: [one["session_id"] for one in box.ask("box_get_sessions")["sessions"]]
            == ["kept", "busy"],
            what="only the idle one is gone",
        )
        assert success(box.wait(running))["status"] == "completed"
        box.boxd.wait_event("session.idle", 2, seconds=5)
        wait_until(lambda: len(box.ask("box_get_sessions")["sessions"]) == 1)
        assert [event["session"] for event in box.boxd.events("session.idle")] == [
            physical("short"),
            physical("busy"),
        ]
