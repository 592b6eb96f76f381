"""workspace_quota_mb holds, in a workspace of the box's own and in a tenant's folder."""

import os
import pathlib
import re
import shutil
import signal
import stat
import subprocess

import pytest

import boxdlib
import clientlib
import nativelib
import quotalib
import storagelib
from quotalib import MIB

FULL = ("No space left on device", "Disk quota exceeded")
FILL = "dd if=/dev/zero of={} bs=64k 2>&1; stat -c %s {}"
COUNT = "i=0; while true >f$i; do i=$((i+1)); done 2>/tmp/err; cat /tmp/err; echo $i"


@pytest.fixture(scope="module", autouse=True)
def nothing_left():
    with nativelib.nothing_left():
        yield


@pytest.fixture(params=nativelib.MODES)
def client(request):
    with nativelib.Place(request.param) as place, nativelib.dialled(place) as made:
        yield made


@pytest.fixture
def place():
    with quotalib.tenants() as made:
        yield made


@pytest.fixture
def place_alone():
    with quotalib.tenants(shared=False) as made:
        yield made


def fill(client, session, name="big", **spec):
    """Writes until it fails; returns how much was written."""
    result = client.exec(FILL.format(name, name), session, 60, timeout_sec=50, **spec)
    assert any(text in result["stdout"] for text in FULL), result
    return int(result["stdout"].split()[-1]), result


# -- a workspace of the box's own


def test_own_workspace_is_held(client):
    spec = {"workspace_quota_mb": 8}
    size, result = fill(client, "own", **spec)
    assert size == 8 * MIB
    assert result["workspace"] == {
        "quota_mb": 8,
        "size_bytes": 8 * MIB,
        "used_bytes": 8 * MIB,
        "full": True,
    }
    elsewhere = "rm big; echo x >y; head -c 9000000 /dev/zero >/tmp/z; echo $?"
    again = client.exec(elsewhere, "own", **spec)
    assert again["stdout"] == "0"
    assert again["workspace"]["full"] is False
    assert 0 < again["workspace"]["used_bytes"] < MIB


def test_own_workspace_has_so_many_files(client):
    result = client.exec(COUNT, "files", 60, timeout_sec=50, workspace_quota_mb=1)
    assert FULL[0] in result["stdout"], result
    assert 3000 < int(result["stdout"].split()[-1]) <= 4096
    assert result["workspace"]["full"] is True


def test_no_quota_no_member(client):
    assert "workspace" not in client.exec("true", "none")


def test_memory_bounds_a_larger_quota(client):
    """The box's memory is filled: half of it at most."""
    result = client.exec("true", "large", workspace_quota_mb=4096, memory_mb=64)
    assert result["workspace"]["quota_mb"] == 4096
    assert result["workspace"]["size_bytes"] == 32 * MIB


def test_streams_tell_it_too(client):
    seq = client.start(
        "box_exec_stream", {"cmd": "true", "session_id": "live", "workspace_quota_mb": 2}
    )
    parts = []
    while not parts or parts[-1].get("chunk_status") != "end":
        parts.append(client.wait(seq))
    last = parts[-2]["data"]
    assert last["event"] == "exit" and last["workspace"]["size_bytes"] == 2 * MIB


# -- a host folder


def test_folder_is_held(place):
    """Limits of bytes and of files; the neighbour and the host are not affected."""
    one, two = place.tenants / "one", place.tenants / "two"
    spec = {"host_path": str(one), "workspace_quota_mb": 16}
    with nativelib.dialled(place) as client:
        size, result = fill(client, "one", **spec)
        assert 16 * MIB - 256 * 1024 <= size <= 17 * MIB
        said = result["workspace"]
        assert said["quota_mb"] == 16 and said["full"] is True
        assert 16 * MIB <= said["size_bytes"] <= 17 * MIB
        other = client.exec(
            "head -c 20000000 /dev/zero >big; stat -c %s big",
            "two",
            host_path=str(two),
            workspace_quota_mb=64,
        )
        assert other["stdout"] == "20000000" and other["workspace"]["full"] is False
        (place.tenants / "beside").write_bytes(bytes(32 * MIB))
        assert client.exec("rm big; echo x >y; cat y", "one", **spec)["stdout"] == "x"
        counted = client.exec(COUNT, "one", 110, timeout_sec=100, **spec)
        assert FULL[0] in counted["stdout"], counted
        assert 12000 < int(counted["stdout"].split()[-1]) <= 12400
        assert counted["workspace"]["full"] is True
    # The host's own file system holds no more of it.
    assert os.stat(quotalib.image(one)).st_blocks * 512 < 24 * MIB


def test_a_mount_root_that_has_a_quota_is_measured(place):
    """Its image is mounted over the folder that boxd holds: a measurement sees the same."""
    root = quotalib.tenant(place, "root")
    place.config.write_text(f'local: {{allowed_mount_roots: ["{root}"]}}\n')
    name = clientlib.physical("", "ws1").rsplit("-g", 1)[0]
    write = f"mkdir -p tenants/{name}; head -c 5000 /dev/zero >tenants/{name}/a"
    config = {"local": {"default_workspace": str(root)}}
    with nativelib.dialled(place, config=config) as client:
        client.exec(write, "s", host_path=str(root), workspace_quota_mb=16)
        assert quotalib.mounted(root)
        answer = storagelib.analyse(client)
    assert storagelib.numbers(answer, "workspace") == (True, 5000, 1, 0)


def test_both_sides_see_one_folder(place):
    """As LangBot does: attachments are written on the host, results are read there."""
    folder = place.tenants / "a"
    spec = {"host_path": str(folder), "workspace_quota_mb": 8}
    with nativelib.dialled(place) as client:
        client.exec("mkdir outbox; echo made >outbox/r", "s1", **spec)
        assert (folder / "outbox" / "r").read_text() == "made\n"
        (folder / "inbox").mkdir()
        (folder / "inbox" / "a.txt").write_text("attached")
        assert client.exec("cat inbox/a.txt", "s1", **spec)["stdout"] == "attached"
        assert client.exec("cat inbox/a.txt outbox/r", "s2", **spec)["stdout"] == "attachedmade"
        # The host runs into the same limit.
        assert quotalib.fill(folder / "big") >= 7 * MIB
        assert client.exec("true", "s2", **spec)["workspace"]["full"] is True
        attributes = subprocess.run(
            ["findmnt", "-no", "OPTIONS", folder], capture_output=True, text=True, check=True
        ).stdout
        assert {"nosuid", "nodev", "rw"} <= set(attributes.strip().split(","))
    assert (folder / "outbox" / "r").read_text() == "made\n"


def test_mounts_that_do_not_spread(place_alone):
    """boxd and the host each have the mount then; a second boxd recognizes it."""
    folder = place_alone.tenants / "a"
    spec = {"host_path": str(folder), "workspace_quota_mb": 8}
    with nativelib.dialled(place_alone) as first, nativelib.dialled(place_alone) as second:
        assert second.exec("echo on", "s")["stdout"] == "on"
        first.exec("echo x >f", "s", **spec)
        assert (folder / "f").read_text() == "x\n"
        assert second.exec("cat f; echo y >g", "s2", **spec)["stdout"] == "x"
        assert first.exec("cat g", "s", **spec)["stdout"] == "y"
        assert (folder / "g").read_text() == "y\n"
        assert len(quotalib.loops(place_alone.folder)) == 1


def test_volume_of_a_container(place):
    """Another user of the volume does not see what is mounted over a folder of it, unless mounts
    propagate. On stdio there is no other user."""
    folder = quotalib.tenant(place, "a")
    data = {"cmd": "echo x >f", "session_id": "s", "host_path": str(folder)}
    with quotalib.in_container(place) as options, nativelib.dialled(place, **options) as client:
        said = client.fail("box_exec", {**data, "workspace_quota_mb": 8})
        assert "boxd runs in a container" in said and "mount propagation" in said
        assert client.ask("box_exec", data)["exit_code"] == 0
        assert client.ask("box_delete_session", {"session_id": "s"})
    assert os.listdir(place.tenants / quotalib.STORE) == []
    with quotalib.in_container(place) as options:
        with nativelib.dialled(place, "stdio", **options) as client:
            held = client.exec("cat f", "t", host_path=str(folder), workspace_quota_mb=8)
            assert held["stdout"] == "x" and held["workspace"]


@pytest.mark.parametrize("how", ("clean", "killed", "unmounted"))
def test_files_stay_when_boxd_ends(place, how):
    """After a reboot the mount is gone; files that the host wrote meanwhile are copied into the
    image."""
    folder = place.tenants / "a"
    spec = {"host_path": str(folder), "workspace_quota_mb": 8}
    boxd = place.start()
    try:
        with boxd.web() as client:
            client.init(backend="local")
            client.exec("echo kept >f; echo old >g; sync", "s", **spec)
        if how == "killed":
            boxd.process.kill()
            boxd.process.wait(10)
    finally:
        boxd.stop(check=how != "killed")
    assert (folder / "f").read_text() == "kept\n"
    if how == "unmounted":
        boxdlib.wait_until(lambda: len(quotalib.loops(place.folder)) == 1, 5)
        quotalib.release(place.folder)
        assert os.listdir(folder) == []
        (folder / "g").write_text("new\n")
        (folder / "d").mkdir()
        (folder / "d" / "h").write_text("written between\n")
    with nativelib.dialled(place) as client:
        told = client.exec("cat f g; cat d/h 2>/dev/null; echo more >>f", "again", **spec)
        middle = "new\nwritten between" if how == "unmounted" else "old"
        assert told["stdout"] == f"kept\n{middle}"
        # A session without a quota sees the same files.
        plain = client.exec("cat f", "plain", host_path=str(folder))
        assert plain["stdout"] == "kept\nmore" and "workspace" not in plain
    assert len(quotalib.loops(place.folder)) == 1


def test_unmounted_image_is_mounted_for_every_session(place):
    """Also for a session without a quota: files under the mount do not belong to the folder."""
    folder = place.tenants / "a"
    with nativelib.dialled(place) as client:
        client.exec("echo kept >f", "s", host_path=str(folder), workspace_quota_mb=8)
        deep = "mkdir -p d/e; echo deep >d/e/g"
        client.exec(deep, "s", host_path=str(folder), workspace_quota_mb=8)
    for session, path, cmd in (("plain", folder, "cat f d/e/g"), ("part", folder / "d/e", "cat g")):
        quotalib.release(place.folder)
        with nativelib.dialled(place) as client:
            told = client.exec(cmd, session, host_path=str(path))["stdout"]
            assert told.split() == ["kept", "deep"][session == "part" :]
        assert quotalib.mounted(folder)


def furnish(folder):
    """Creates the folder with all types of files."""
    folder.mkdir()
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "deep" / "er" / "f").write_bytes(os.urandom(300000))
    (folder / "empty").write_text("")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "link").symlink_to("/etc/passwd")
    os.mkfifo(folder / "pipe", 0o640)
    with open(folder / "sparse", "wb") as file:
        file.truncate(64 * MIB)
        file.write(b"begin")
    os.setxattr(folder / "run.sh", "user.note", b"kept")
    for path in (folder, folder / "deep", folder / "run.sh", folder / "link"):
        os.chown(path, 1234, 1235, follow_symlinks=False)
    os.utime(folder / "deep", ns=(10**18, 10**18))
    folder.chmod(0o750)


def test_what_is_there_moves_in(place):
    folder = place.tenants / "a"
    furnish(folder)
    before, top = quotalib.tree(folder), os.stat(folder)
    with nativelib.dialled(place) as client:
        spec = {"host_path": str(folder), "workspace_quota_mb": 8}
        result = client.exec("id -u; stat -c %u . run.sh; ls", "s", **spec)
        assert result["stdout"].split()[:3] == ["1000"] * 3
        assert "lost+found" not in result["stdout"]
    assert quotalib.tree(folder) == before
    assert os.getxattr(folder / "run.sh", "user.note") == b"kept"
    after = os.stat(folder)
    for name in ("st_mode", "st_uid", "st_gid"):
        assert getattr(after, name) == getattr(top, name)
    quotalib.release(place.folder)
    assert os.listdir(folder) == []
    under = os.stat(folder)
    assert (under.st_mode, under.st_uid) == (top.st_mode, top.st_uid)


def test_too_much_is_refused(place):
    """And the folder is unchanged."""
    folder = place.tenants / "a"
    folder.mkdir()
    (folder / "big").write_bytes(bytes(12 * MIB))
    with nativelib.dialled(place) as client:
        data = {"cmd": "true", "session_id": "s", "host_path": str(folder)}
        said = client.fail("box_exec", {**data, "workspace_quota_mb": 8}, 30)
        assert said == (
            "BoxValidationError: the content of host_path does not fit into workspace_quota_mb"
        )
        assert not quotalib.mounted(folder)
        assert os.listdir(folder.parent / quotalib.STORE) == []
        assert (folder / "big").stat().st_size == 12 * MIB
        assert client.exec("ls", "s", host_path=str(folder))["stdout"] == "big"
        assert client.ask("box_delete_session", {"session_id": "s"})
        larger = client.exec("ls", "t", host_path=str(folder), workspace_quota_mb=16)
        assert larger["stdout"] == "big"


def may_grow_mounted():
    """CAP_SYS_RESOURCE, which many containers lack."""
    found = re.search(r"^CapEff:\s*(\w+)$", pathlib.Path("/proc/self/status").read_text(), re.M)
    return bool(int(found[1], 16) & 1 << 24)


def test_quota_grows_while_it_is_used(place):
    folder = place.tenants / "a"
    path = {"host_path": str(folder)}
    with nativelib.dialled(place) as client:
        size, _ = fill(client, "small", **path, workspace_quota_mb=8)
        data = {"cmd": "true", "session_id": "large", **path, "workspace_quota_mb": 300}
        if not may_grow_mounted():
            said = client.fail("box_exec", data)
            assert said.startswith(
                "BoxBackendUnavailableError: workspace_quota_mb cannot grow while host_path is "
                "mounted: boxd has no CAP_SYS_RESOURCE"
            )
            again = client.exec("ls", "small", **path, workspace_quota_mb=8)
            assert again["stdout"] == "big" and again["workspace"]["size_bytes"] < 10 * MIB
            return
        larger, result = fill(client, "large", "more", **path, workspace_quota_mb=300)
        assert 300 * MIB - 512 * 1024 <= size + larger <= 330 * MIB
        assert result["workspace"]["size_bytes"] >= 300 * MIB
        assert client.exec("ls", "small", **path, workspace_quota_mb=8)["stdout"] == "big\nmore"


def test_quota_grows_between_uses(place):
    """And the image does not shrink."""
    folder = place.tenants / "a"
    path = {"host_path": str(folder)}
    with nativelib.dialled(place) as client:
        size, _ = fill(client, "small", **path, workspace_quota_mb=8)
    quotalib.release(place.folder)
    boxdlib.wait_until(lambda: not quotalib.loops(place.folder), 5)
    with nativelib.dialled(place) as client:
        larger, result = fill(client, "large", "more", **path, workspace_quota_mb=300)
        assert 300 * MIB - 512 * 1024 <= size + larger <= 330 * MIB
        assert result["workspace"]["size_bytes"] >= 300 * MIB
        again = client.exec("ls", "again", **path, workspace_quota_mb=300)
        assert again["stdout"] == "big\nmore" and again["workspace"]["full"] is True
        said = client.fail(
            "box_exec", {"cmd": "true", "session_id": "x", **path, "workspace_quota_mb": 16}
        )
        assert said == (
            "BoxValidationError: workspace_quota_mb 16 is smaller than the one that the folder of "
            "the host has: its image can grow, not shrink"
        )


def test_not_beside_a_session_without(place):
    folder = place.tenants / "a"
    with nativelib.dialled(place) as client:
        client.exec("echo x >f", "plain", host_path=str(folder))
        data = {"cmd": "true", "session_id": "q", "host_path": str(folder)}
        said = client.fail("box_exec", {**data, "workspace_quota_mb": 8})
        assert said.startswith("BoxSessionConflictError: workspace_quota_mb cannot take effect")
        assert client.ask("box_delete_session", {"session_id": "plain"})
        held = client.exec("cat f", "q", host_path=str(folder), workspace_quota_mb=8)
        assert held["stdout"] == "x"


def test_read_only_needs_none(place):
    folder = quotalib.tenant(place, "a")
    with nativelib.dialled(place) as client:
        spec = {"host_path": str(folder), "host_path_mode": "ro", "workspace_quota_mb": 8}
        assert "workspace" not in client.exec("ls", "s", **spec)
    assert not (folder.parent / quotalib.STORE).exists()


def test_store_is_nobody_s(place):
    """Nor a session that has the folder above it."""
    folder = place.tenants / "a"
    with nativelib.dialled(place) as client:
        client.exec("echo x >f", "s", host_path=str(folder), workspace_quota_mb=8)
        store = folder.parent / quotalib.STORE
        status = os.stat(store)
        assert (status.st_uid, stat.S_IMODE(status.st_mode)) == (quotalib.OWNER, 0o700)
        above = client.exec(
            f"ls {quotalib.STORE}; cat {quotalib.STORE}/a.img; echo x >{quotalib.STORE}/b; "
            f"chmod 777 {quotalib.STORE}; rm -r {quotalib.STORE}; ls -A",
            "above",
            host_path=str(place.tenants),
        )
        assert above["stderr"].count("Permission denied") >= 3, above
        assert quotalib.STORE in above["stdout"]
        for path in (store, quotalib.image(folder)):
            data = {"cmd": "true", "session_id": "x", "host_path": str(path)}
            assert client.fail("box_exec", data).startswith("BoxValidationError: host_path")
        extra = [{"host_path": str(quotalib.image(folder)), "mount_path": "/i", "mode": "rw"}]
        said = client.fail("box_exec", {"cmd": "true", "session_id": "s2", "extra_mounts": extra})
        assert "is blocked for security" in said
        held = client.exec("cat f", "s", host_path=str(folder), workspace_quota_mb=8)
        assert held["stdout"] == "x"


def test_strange_store_is_refused(place):
    folder = quotalib.tenant(place, "a")
    store = folder.parent / quotalib.STORE
    store.mkdir(0o755)
    os.chown(store, 1234, 1234)
    with nativelib.dialled(place) as client:
        data = {"cmd": "true", "session_id": "s", "host_path": str(folder)}
        said = client.fail("box_exec", {**data, "workspace_quota_mb": 8})
        assert f"{quotalib.STORE} is not as boxd makes it" in said
    shutil.rmtree(store)


def test_many_at_once(place):
    """Several sessions of several tenants, each the first of its folder."""
    with nativelib.dialled(place) as client:
        started = [
            client.start(
                "box_exec",
                {
                    "cmd": f"echo {n} >>f{n}; sync; ls | wc -l",
                    "session_id": f"s{n}",
                    "host_path": str(place.tenants / f"t{n % 3}"),
                    "workspace_quota_mb": 4,
                },
            )
            for n in range(9)
        ]
        for seq in started:
            assert client.wait(seq, 60)["code"] == 0
    for n in range(9):
        assert (place.tenants / f"t{n % 3}" / f"f{n}").read_text() == f"{n}\n"
    assert len(quotalib.loops(place.folder)) == 3


# -- kills


def test_killed_while_it_is_made(place):
    """boxd and all its children are killed at any moment: afterwards the folder has the same files."""
    for number in range(12):
        folder = place.tenants / f"k{number}"
        furnish(folder)
        before = quotalib.tree(folder)
        spec = {"host_path": str(folder), "workspace_quota_mb": 8}
        boxd = place.start()
        try:
            with boxd.web() as client:
                client.init(backend="local")
                client.start("box_exec", {"cmd": "true", "session_id": "s", **spec})
                boxdlib.wait_until(lambda: nativelib.children(), 5)
                signal.sigtimedwait([], 0.004 * number)
                boxd.process.kill()
                boxd.process.wait(10)
        finally:
            boxd.stop(check=False)
        boxdlib.wait_until(lambda: len(quotalib.loops(place.folder)) <= number + 1, 5)
        with nativelib.dialled(place) as client:
            assert client.exec("ls | wc -l", "s", 30, **spec)["stdout"] == "6"
        assert quotalib.tree(folder) == before
        assert [name for name in os.listdir(folder.parent / quotalib.STORE) if "new" in name] == []
    quotalib.release(place.folder)
    assert {name for n in range(12) for name in os.listdir(place.tenants / f"k{n}")} == set()


# -- where it cannot be enforced


def test_rootless_is_refused():
    operator = "" if nativelib.has_limits("rootless") else None
    if operator is None:
        pytest.skip("boxes of an ordinary user need local.degraded here")
    with quotalib.tenants("rootless", operator) as place, nativelib.dialled(place) as client:
        data = {"cmd": "true", "session_id": "s", "host_path": str(place.tenants)}
        said = client.fail("box_exec", {**data, "workspace_quota_mb": 8})
        assert said.startswith("BoxBackendUnavailableError: workspace_quota_mb 8 cannot be enforced")
        assert "boxd is not root" in said


def test_rootless_degraded_says_so():
    with quotalib.tenants("rootless") as place, nativelib.dialled(place) as client:
        folder = quotalib.tenant(place, "a")
        spec = {"host_path": str(folder), "workspace_quota_mb": 1}
        result = client.exec("head -c 3000000 /dev/zero >f; echo $?", "s", **spec)
        assert result["stdout"] == "0" and "workspace" not in result
        warnings = client.ask("box_status")["warnings"]
        assert [one for one in warnings if "workspace quotas" in one and "not root" in one]


def test_without_mkfs_it_is_refused(place):
    """An empty file in its place, for boxd only."""
    if not shutil.which("unshare"):
        pytest.skip("not here: unshare")
    hide = "mount --bind /dev/null /usr/sbin/mkfs.ext4 && exec \"$@\""
    before = ("unshare", "-m", "sh", "-c", hide, "sh")
    with nativelib.dialled(place, before=before) as client:
        data = {"cmd": "true", "session_id": "s", "host_path": str(place.tenants / "a")}
        said = client.fail("box_exec", {**data, "workspace_quota_mb": 8})
        assert "mkfs.ext4 or resize2fs is missing (package e2fsprogs)" in said
        assert client.exec("echo on", "t", workspace_quota_mb=8)["stdout"] == "on"
