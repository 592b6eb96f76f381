"""Shared by the tests of box_get_storage_analysis: folders, a connected box, and ways to read an
answer.
"""

import os
import pathlib

import pytest

import boxdlib
import clientlib
import nativelib

PAGE = os.sysconf("SC_PAGE_SIZE")
HOST_KEYS = ["workspace", "mcp", "inbox", "outbox"]
BOX_KEYS = ["session_workspaces", "session_caches", "session_temp"]
ACTION = "box_get_storage_analysis"
CAP_DAC_READ_SEARCH = 2


def pages(*sizes):
    """The space that files of these sizes use in a tmpfs."""
    return sum(-(-size // PAGE) * PAGE for size in sizes)


@pytest.fixture(params=nativelib.MODES)
def place(request):
    with nativelib.subreaper(), nativelib.Place(request.param) as made:
        before = set(nativelib.children())
        yield made
        boxdlib.wait_until(
            lambda: set(nativelib.children()) <= before, 5, lambda: f"left: {nativelib.children()}"
        )


def local(place):
    return {"local": {"host_root": str(place.work), "allowed_mount_roots": [str(place.folder)]}}


@pytest.fixture
def box(place):
    with nativelib.dialled(place, config=local(place)) as client:
        client.place = place
        yield client


def tenant(place, workspace="ws1"):
    """The folder of a workspace."""
    name = clientlib.physical("", workspace).rsplit("-g", 1)[0]
    return place.work / "default" / "tenants" / name


def make_tenant(place, files, workspace="ws1"):
    """Creates the folder with files {path: size}."""
    top = tenant(place, workspace)
    for path, size in files.items():
        whole = top / path
        whole.parent.mkdir(parents=True, exist_ok=True)
        whole.write_bytes(b"x" * size)
    for path in [top.parent, top, *top.rglob("*")]:
        place.own(path)
    return top


def run(client, cmd, session="s", **spec):
    result = client.exec(cmd, session, **spec)
    assert (result["exit_code"], result["stderr"]) == (0, ""), result
    return result["stdout"]


def analyse(client, **members):
    """The answer, checked for its format; its directories by key."""
    answer = client.ask(ACTION, **members)
    directories = answer["directories"]
    keys = [one["key"] for one in directories]
    assert keys in ([], HOST_KEYS, BOX_KEYS, HOST_KEYS + BOX_KEYS)
    for one in directories:
        detail = one["key"] in HOST_KEYS[1:]
        scope = "runtime_host" if one["key"] in HOST_KEYS else "sandbox_sessions"
        members = ["key", "path", "kind", "exists", "size_bytes", "file_count", "error_count"]
        assert list(one) == members + ["parent_key"] * detail + ["scope"]
        assert (one["kind"], one["scope"]) == ("detail" if detail else "root", scope)
        assert one.get("parent_key", "workspace") == "workspace"
    roots = sum(one["size_bytes"] for one in directories if one["kind"] == "root")
    assert answer["size_bytes"] == roots
    assert list(answer) == ["size_bytes", "directories", "active_sessions", "managed_processes"]
    assert answer["managed_processes"] == 0
    answer["directories"] = {one["key"]: one for one in directories}
    return answer


def numbers(answer, key):
    one = answer["directories"][key]
    return one["exists"], one["size_bytes"], one["file_count"], one["error_count"]


NOTHING = (False, 0, 0, 0)


def sizes(answer):
    return [answer["directories"][key]["size_bytes"] for key in BOX_KEYS]


def children_of(pid):
    listed = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return {int(one) for one in listed if not boxdlib.is_warm_box(one)}
