"""box_init: limits, which members are kept or refused, and the default workspace."""

import pathlib

import pytest

import boxdlib
from clientlib import LIMITS, TOKEN


def limits_of(client):
    return client.ask("box_status")["limits"]


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
    """Merged by top-level key: a section replaces the old one, others stay; limits are merged one
    by one."""
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
    """Ignored, with one log line that names them."""
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
    client.boxd.wait_event("config.unknown_members_ignored")
    assert len(client.boxd.events("config.unknown_members_ignored")) == 1
    assert limits_of(client)["max_sessions"] == 5


def test_init_keeps_the_backend_of_sessions(client):
    """While there are sessions, the backend is not changed."""
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
    # A root that only has the same prefix is another folder.
    local = {"default_workspace": f"{root}x", "allowed_mount_roots": [str(root)]}
    assert "is outside allowed_mount_roots" in client.fail("box_init", {"local": local})
    assert not (tmp_path / "inx").exists()


def test_init_existing_folder_outside_allowed_roots(client, tmp_path):
    """The roots decide what may be created; an existing folder may be named."""
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
    """A link into a blocked folder is refused."""
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
    with boxdlib.Boxd(token=TOKEN, cwd=tmp_path) as boxd, boxd.web() as client:
        assert client.fail("box_init", {"backend": "host"}) == (
            "BoxValidationError: host backend is not supported"
        )
