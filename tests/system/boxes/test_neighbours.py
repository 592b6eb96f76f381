"""Workspaces are isolated from each other: what one sends, uses up or slows down does not affect
another.
"""

import hashlib
import json
import os
import pathlib

import boxdlib
import imagelib
import nativelib
import pytest
from clientlib import context

pytestmark = pytest.mark.usefixtures("nothing_left")

MIB = 1 << 20
HERE, THERE = context("here"), context("there")
LIMITS = {
    "max_sessions": 16,
    "max_managed_processes": 8,
    "max_processes_per_workspace": 1,
    "max_memory_mb": 1024,
    "max_cpus": 4,
    "max_pids": 500,
    "max_timeout_sec": 100,
    "max_artifact_memory_mb": 40,
    "max_artifact_memory_mb_per_workspace": 24,
}


@pytest.fixture(scope="module", params=["root", "rootless"])
def world(request):
    """A place whose operator has written limits, and a client of a boxd there."""
    operator = nativelib.OPERATOR[request.param] + "limits:\n"
    operator += "".join(f"  {name}: {value}\n" for name, value in LIMITS.items())
    with nativelib.Place(request.param, operator) as place:
        with nativelib.dialled(place) as client:
            yield place, client


@pytest.fixture(autouse=True)
def no_sessions(request):
    yield
    if "world" in request.fixturenames:
        request.getfixturevalue("world")[1].ask("box_shutdown")


def artifact(place, name, content, spoiled=False):
    """A mount of one file, with the digest of its manifest."""
    folder = place.make(name, "package")
    data = {"path": "file", "size": len(content), "executable": False}
    data["sha256"] = hashlib.sha256(content).hexdigest()
    manifest = {"algorithm": "sha256-tree-v1", "files": [data], "total_bytes": len(content)}
    canonical = json.dumps(manifest, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    (folder / "file").write_bytes(content[:-1] + b"\xff" if spoiled else content)
    place.own(folder / "file")
    path = place.write(folder.parent / "manifest.json", canonical)
    return mount(digest, folder, path)


def mount(digest, folder, manifest):
    return {
        "host_path": str(folder),
        "mount_path": f"/opt/langbot-artifacts/{digest}",
        "mode": "ro",
        "content_digest": f"sha256:{digest}",
        "manifest_path": str(manifest),
    }


def spec(session, *mounts, cmd="true", **more):
    return {"cmd": cmd, "session_id": session, "extra_mounts": list(mounts), **more}


def test_a_digest_is_no_right_to_an_artifact(world):
    place, client = world
    theirs = artifact(place, "secret", b"the secret of here")
    read = f"cat {theirs['mount_path']}/file"
    data = spec("a", theirs, cmd=read)
    assert client.ask("box_exec", data, context=HERE)["stdout"] == "the secret of here"
    empty = place.make("empty", "package")
    manifest = place.write(empty.parent / "manifest.json", "{}")
    digest = theirs["content_digest"].removeprefix("sha256:")
    data = spec("b", mount(digest, empty, manifest), cmd=read)
    assert "Immutable artifact preparation failed" in client.fail("box_exec", data, context=THERE)
    # Within a workspace each tree exists once.
    assert client.ask("box_exec", spec("c", theirs, cmd=read), context=HERE)["exit_code"] == 0


def test_a_false_source_fails_for_who_sent_it(world):
    place, client = world
    content = os.urandom(12 * MIB)
    wrong = artifact(place, "wrong", content, spoiled=True)
    right = artifact(place, "right", content)
    assert wrong["content_digest"] == right["content_digest"]
    for session, where in (("false", THERE), ("true", HERE), ("same", HERE)):
        client.ask("box_create_session", {"session_id": session}, context=where)
    asked = [
        client.start("box_exec", spec("false", wrong), context=THERE),
        client.start("box_exec", spec("same", wrong), context=HERE),
        client.start("box_exec", spec("true", right), context=HERE),
    ]
    answers = [client.wait(seq, 30) for seq in asked]
    assert [answer["code"] for answer in answers] == [1, 1, 0], answers
    assert answers[2]["data"]["exit_code"] == 0


def test_memory_of_artifacts_has_one_total(world):
    place, client = world

    def status():
        return client.ask("box_status", context=HERE)

    held = [artifact(place, f"held-{number}", os.urandom(7 * MIB)) for number in range(4)]
    sessions = range(4)
    for number in sessions[:3]:
        client.ask("box_exec", spec(f"s{number}", held[number]), context=HERE)
    # boxd reports changes; until then the old number is shown.
    boxdlib.wait_until(
        lambda: 21 * MIB <= status()["memory"]["artifact_bytes"] <= 24 * MIB, what=status
    )
    told = client.fail("box_exec", spec("s3", held[3]), context=HERE)
    assert told.startswith("BoxCapacityExceededError: ")
    assert "limits.max_artifact_memory_mb_per_workspace is 24" in told
    # Others get the rest, and no more than the total.
    client.ask("box_exec", spec("t0", held[3]), context=THERE)
    client.ask("box_exec", spec("t1", held[0]), context=THERE)
    told = client.fail("box_exec", spec("t2", held[1]), context=THERE)
    assert "limits.max_artifact_memory_mb is 40" in told
    assert status()["memory"]["artifact_bytes"] <= 40 * MIB
    # Trees that no box uses any more make room.
    client.ask("box_delete_session", {"session_id": "s0"}, context=HERE)
    client.ask("box_exec", spec("s3", held[3]), context=HERE)


@pytest.mark.parametrize(
    "asked, name",
    [
        ({"memory_mb": 1025}, "max_memory_mb, 1024"),
        ({"cpus": 4.5}, "max_cpus, 4"),
        ({"pids_limit": 4_000_000}, "max_pids, 500"),
        ({"timeout_sec": 101}, "max_timeout_sec, 100"),
    ],
)
def test_ceilings_of_one_spec(world, asked, name):
    _, client = world
    told = client.fail("box_exec", spec("x", **asked), context=HERE)
    assert told.startswith(f"BoxValidationError: {next(iter(asked))} ")
    assert f"is above this runtime's limits.{name}: ask for less" in told


def test_a_time_that_nobody_has_set_is_no_fault(world):
    """`box exec` without --timeout, and a box that is only created."""
    _, client = world
    never = 10 * 365 * 24 * 3600
    answer = client.ask("box_exec", spec("t", timeout_sec=never), context=HERE)
    assert answer["exit_code"] == 0
    client.ask("box_create_session", {"session_id": "u"}, context=HERE)


def test_ceilings_are_not_a_clients_to_raise(world):
    _, client = world
    client.ask("box_init", {"backend": "local", "limits": {"max_memory_mb": 9000}})
    limits = client.ask("box_status", context=HERE)["limits"]
    assert {name: limits[name] for name in LIMITS} == LIMITS


def test_shares_of_one_workspace(world):
    _, client = world
    process = {"process_id": "p", "command": "sleep", "args": ["100"]}
    # Two of the sixteen are reserved for others.
    for number in range(14):
        client.ask("box_create_session", {"session_id": f"s{number}"}, context=HERE)
    told = client.fail("box_create_session", {"session_id": "more"}, context=HERE)
    assert told.startswith("BoxCapacityExceededError: ")
    assert "limits.max_sessions_per_workspace 14" in told
    assert client.ask("box_status", context=HERE)["capacity"]["remaining"] == 0
    client.exec("true", "theirs", context=THERE)
    start = {"session_id": "s0", "spec": process}
    client.ask("box_start_managed_process", start, context=HERE)
    told = client.fail("box_start_managed_process", {**start, "session_id": "s1"}, context=HERE)
    assert "limits.max_processes_per_workspace 1" in told
    client.ask("box_start_managed_process", {**start, "session_id": "theirs"}, context=THERE)
    big = {**start, "session_id": "s0", "spec": {**process, "memory_mb": 4_000_000}}
    assert "max_memory_mb, 1024" in client.fail("box_start_managed_process", big, context=HERE)
    memory = client.ask("box_status", context=THERE)["memory"]
    assert (memory["promised_mb"], memory["workspace_promised_mb"]) == (15 * 512, 512)


def available_mb():
    for line in open("/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) // 1024


@pytest.mark.parametrize("mode", ["root", "rootless"])
def test_memory_that_is_promised_and_kept(mode):
    limits = "limits:\n  reserve_memory_mb: {}\n  max_promised_memory_mb: 1024\n"
    operator = nativelib.OPERATOR[mode] + limits
    with nativelib.Place(mode, operator.format(0)) as place:
        with nativelib.dialled(place) as client:
            client.exec("true", "a", context=HERE)
            told = client.fail("box_exec", spec("b", memory_mb=512), context=HERE)
            assert "promised 512 MB of limits.max_memory_mb_per_workspace 896" in told
            client.exec("true", "b", context=THERE)
            told = client.fail("box_exec", spec("c", memory_mb=128), context=THERE)
            assert "promised 1024 MB of limits.max_promised_memory_mb 1024" in told
        reserve = available_mb() + 65536
        place.config.write_text(operator.format(reserve))
        with nativelib.dialled(place) as client:
            told = client.fail("box_exec", spec("a"), context=HERE)
            assert told.startswith("BoxCapacityExceededError: there is no memory for another box")
            assert f"limits.reserve_memory_mb keeps {reserve} free;" in told


def test_an_image_with_a_large_etc_holds_up_nobody(world):
    """Boxes of another workspace can be made and removed while its images are checked."""
    place, client = world
    root = imagelib.make_root(place.folder / "large", "large")
    for number in range(6000):
        (root / "etc" / f"file-{number}").write_bytes(b"")
    with client.boxd.web() as other:
        asked = [
            client.start("box_exec", spec(f"big{number}", image=str(root)), context=HERE)
            for number in range(10)
        ]
        ended = 0
        while not all(client.has_answer(seq) for seq in asked):
            other.exec("true", "quick", context=THERE)
            other.ask("box_delete_session", {"session_id": "quick"}, context=THERE)
            ended += 1
        answers = [client.wait(seq) for seq in asked]
    for answer in answers:
        assert "its /etc has more than 4096 entries or 4 MiB" in answer["message"]
    # In boxd's own thread they would take more than a second, and the first command would wait for
    # all ten.
    assert ended >= 3


def test_images_that_wait_hold_few_files(world):
    """Each of their folders is an open file of boxd's, but only while it is their turn."""
    place, client = world
    root = imagelib.make_root(place.folder / "wide", "wide")
    for number in range(20):
        (root / f"top-{number}").mkdir()
    for number in range(6000):
        (root / "etc" / f"file-{number}").write_bytes(b"")
    fds = pathlib.Path(f"/proc/{client.boxd.pid}/fd")
    before = most = len(list(fds.iterdir()))
    asked = [
        client.start("box_exec", spec(f"wide{number}", image=str(root)), context=HERE)
        for number in range(14)
    ]
    while not all(client.has_answer(seq) for seq in asked):
        most = max(most, len(list(fds.iterdir())))
    for seq in asked:
        assert "its /etc has more than 4096 entries or 4 MiB" in client.wait(seq)["message"]
    # All at once they would need more than 300 files.
    assert before + 20 < most < before + 160


def test_shutdown_ends_all_of_the_instance(world):
    _, client = world
    client.exec("true", "theirs", context=HERE)
    client.exec("true", "others", context=THERE)
    client.ask("box_shutdown")
    assert client.ask("box_get_sessions", context=HERE)["sessions"] == []
    assert client.ask("box_get_sessions", context=THERE)["sessions"] == []
