"""Host folders in native boxes: host_path, extra mounts of an exec, owners of files, refusals.

The first half runs the real clients, the second a test client that sees every field.
"""

import contextlib
import os
import shutil
import socket
import stat
import subprocess

import pytest

import boxdlib
import nativelib

OWNER = 1234  # neither root nor the user that boxd is


def mount(source, target, mode="ro"):
    return {"host_path": str(source), "mount_path": target, "mode": mode}


def make_steps(place, generation, carrier, mode):
    work, one, two = (place.make("host", name) for name in ("work", "one", "two"))
    place.write(work / "in", "from outside")
    place.write(one / "name", "one")
    place.write(two / "name", "two")
    link = place.folder / "link"
    link.symlink_to("/etc")
    rw = {"do": "exec", "session_id": "rw", "host_path": str(work)}
    ro = {"do": "exec", "session_id": "ro", "host_path": str(work), "host_path_mode": "ro"}
    plain = {"do": "exec", "session_id": "plain"}
    missing = place.make("parent") / "missing"
    return {
        "init": {"do": "init", "backend": "local"},
        "rw": {**rw, "cmd": "pwd; cat in; echo from inside >out; mkdir d; echo $?"},
        "ro": {**ro, "cmd": "cat in out; echo x >new || rm out; mkdir e"},
        "other place": {
            **rw,
            "session_id": "place",
            "mount_path": "/data/deep",
            "workdir": "/data/deep",
            "cmd": "pwd; cat in; ls /workspace",
        },
        "mode none": {**rw, "session_id": "none", "host_path_mode": "none", "cmd": "ls -A"},
        "made": {**rw, "session_id": "made", "host_path": f"{missing}/a/b", "cmd": "echo x >f"},
        "missing ro": {**ro, "session_id": "mro", "host_path": f"{missing}/ro", "cmd": "true"},
        "keep": {**plain, "cmd": "echo kept >/tmp/f; sleep 100 & true"},
        "one": {**plain, "cmd": "cat /skill/name /tmp/f", "extra_mounts": [mount(one, "/skill")]},
        "two": {**plain, "cmd": "cat /skill/name /tmp/f", "extra_mounts": [mount(two, "/skill")]},
        "without": {**plain, "cmd": "ls -A /skill; cat /tmp/f; pgrep -cx sleep"},
        "extra ro": {
            **plain,
            "cmd": "echo x >/skill/new; rm -f /skill/name; cat /skill/name",
            "extra_mounts": [mount(one, "/skill")],
        },
        "extra rw": {
            **plain,
            "cmd": "cat /a/name /b/c/name; echo new >/b/c/new",
            "extra_mounts": [mount(one, "/a"), mount(two, "/b/c", "rw")],
        },
        "last wins": {
            **plain,
            "cmd": "cat /skill/name",
            "extra_mounts": [mount(one, "/skill"), mount(two, "/skill")],
        },
        "extra none": {
            **plain,
            "cmd": "ls /nowhere",
            "extra_mounts": [mount(one, "/nowhere", "none")],
        },
        "below the workspace": {
            **rw,
            "cmd": "cat .skills/one/name in",
            "extra_mounts": [mount(one, "/workspace/.skills/one")],
        },
        "blocked": {**rw, "session_id": "x", "host_path": "/etc/ssl", "cmd": "true"},
        "blocked by link": {**rw, "session_id": "x", "host_path": str(link), "cmd": "true"},
        "extra blocked": {**plain, "cmd": "true", "extra_mounts": [mount("/root", "/r")]},
        "extra blocked by link": {**plain, "cmd": "true", "extra_mounts": [mount(link, "/e")]},
        "sessions": {"do": "list"},
        "outside": {"do": "look", "folder": str(place.folder)},
    }


pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.fixture(scope="module")
def flows(nothing_left):
    with nativelib.Flows(make_steps, nativelib.HALF) as made:
        yield made


@pytest.fixture(scope="module", params=nativelib.HALF, ids=nativelib.names(nativelib.HALF))
def flow(request, flows):
    return flows.results(request.param)


# With the real clients.


def test_host_path_rw(flow):
    assert flow.gave("rw")["stdout"] == "/workspace\nfrom outside0"
    files = flow.gave("outside")
    assert files["host/work/out"] == "from inside\n" and files["host/work/d"] is None


def test_host_path_ro(flow):
    result = flow.gave("ro")
    assert result["stdout"] == "from outsidefrom inside"
    assert result["stderr"].count("Read-only file system") == 3, result
    files = flow.gave("outside")
    assert "host/work/new" not in files and "host/work/e" not in files


def test_mount_path(flow):
    result = flow.gave("other place")
    assert result["stdout"] == "/data/deep\nfrom outside"
    assert flow.gave("mode none")["stdout"] == ""


def test_a_missing_host_path(flow):
    assert flow.gave("made")["exit_code"] == 0
    assert flow.gave("outside")["parent/missing/a/b/f"] == "x\n"
    name, text = flow.raised("missing ro")
    expected = f"host_path {flow.place.folder}/parent/missing/ro does not exist"
    assert (name, text) == ("BoxValidationError", f"BoxValidationError: {expected}")


def test_extra_mounts_are_of_one_exec(flow):
    assert flow.gave("one")["stdout"] == "onekept"
    assert flow.gave("two")["stdout"] == "twokept"
    assert flow.gave("without")["stdout"] == "kept\n1"


def test_extra_mounts_ro_and_rw(flow):
    ro = flow.gave("extra ro")
    assert ro["stdout"] == "one" and ro["stderr"].count("Read-only file system") == 2
    assert flow.gave("extra rw")["stdout"] == "onetwo"
    files = flow.gave("outside")
    assert "host/one/new" not in files and files["host/two/new"] == "new\n"


def test_extra_mounts_twice_and_none(flow):
    assert flow.gave("last wins")["stdout"] == "two"
    assert flow.gave("extra none")["exit_code"] == 2


def test_extra_mount_below_the_workspace(flow):
    assert flow.gave("below the workspace")["stdout"] == "onefrom outside"


@pytest.mark.parametrize("case", ["blocked", "blocked by link"])
def test_blocked_host_path(flow, case):
    name, text = flow.raised(case)
    path = "/etc/ssl" if case == "blocked" else f"{flow.place.folder}/link"
    assert (name, text) == (
        "BoxValidationError",
        f"BoxValidationError: host_path {path} is blocked for security",
    )


@pytest.mark.parametrize("case", ["extra blocked", "extra blocked by link"])
def test_blocked_extra_mount(flow, case):
    name, text = flow.raised(case)
    path = "/root" if case == "extra blocked" else f"{flow.place.folder}/link"
    assert (name, text) == (
        "BoxValidationError",
        f"BoxValidationError: extra_mounts.host_path {path} is blocked for security",
    )


def test_a_refused_mount_leaves_no_session(flow):
    listed = {one["session_id"] for one in flow.gave("sessions")}
    assert listed == {"rw", "ro", "place", "none", "made", "plain"}


# In detail, with a test client.


@pytest.fixture(scope="module")
def client(place):
    with nativelib.dialled(place) as made:
        yield made


def refusal(client, source=None, extra=None, **spec):
    """The error of a refused exec. After a refused extra mount the session stays, after a refused
    host_path it does not."""
    name = "plain" if source is None else "refused"
    spec = {"cmd": "true", "session_id": name, **spec}
    if source is not None:
        spec["host_path"] = str(source)
    if extra is not None:
        spec["extra_mounts"] = [mount(extra, "/data")]
    text = client.fail("box_exec", spec)
    assert text.startswith("BoxValidationError: "), text
    return text.removeprefix("BoxValidationError: ")


@pytest.fixture
def foreign(place):
    """A folder and a file that only uid 1234 may read."""
    if not boxdlib.ROOT:
        pytest.skip("only root can make files of somebody else")
    folder = place.make("foreign")
    (folder / "secret").write_text("mine")
    (folder / "secret").chmod(0o600)
    folder.chmod(0o700)
    for path in (folder / "secret", folder):
        os.chown(path, OWNER, OWNER)
    yield folder
    shutil.rmtree(folder)


def owner(path):
    status = path.lstat()
    return status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)


def test_files_of_a_foreign_owner(place, client, foreign):
    """LangBot's 0600 files are readable inside; new files belong to the folder's owner."""
    if place.mode == "rootless":
        error = refusal(client, foreign, session_id="foreign")
        assert error.startswith(f"host_path {foreign} cannot be opened"), error
        return
    command = (
        "cat secret; stat -c %u:%g secret . ; umask 077; echo new >new; mkdir d; ln -s new link;"
        "echo more >>secret; chmod 640 new"
    )
    result = client.exec(command, "foreign", host_path=str(foreign))
    assert (result["stdout"], result["stderr"]) == ("mine1000:1000\n1000:1000", "")
    assert owner(foreign / "new") == (OWNER, OWNER, 0o640)
    assert owner(foreign / "d") == (OWNER, OWNER, 0o700)
    assert owner(foreign / "link")[:2] == (OWNER, OWNER)
    assert owner(foreign / "secret") == (OWNER, OWNER, 0o600)
    assert (foreign / "secret").read_text() == "minemore\n"
    client.ask("box_delete_session", {"session_id": "foreign"})


def test_files_of_a_foreign_owner_as_extra_mount(place, client, foreign):
    if place.mode == "rootless":
        pytest.skip("an ordinary user cannot open what is somebody else's")
    mounts = [mount(foreign, "/data", "rw")]
    result = client.exec("cat /data/secret; echo x >/data/new", "extra", extra_mounts=mounts)
    assert (result["stdout"], result["exit_code"]) == ("mine", 0)
    assert owner(foreign / "new")[:2] == (OWNER, OWNER)


def test_no_owner_can_be_given_away(place, client):
    folder = place.make("given")
    result = client.exec("echo x >f; chown 0:0 f || chgrp 65534 f", "given", host_path=str(folder))
    assert result["exit_code"] != 0
    assert owner(folder / "f")[:2] == owner(folder)[:2]


def test_no_special_files_and_no_set_uid_on_host_folders(place, client):
    folder = place.make("special")
    shutil.copy("/usr/bin/id", folder / "id")
    os.chmod(folder / "id", 0o4755)
    result = client.exec(
        "mknod dev c 1 3; ./id -u; grep ' /workspace ' /proc/self/mountinfo",
        "special",
        host_path=str(folder),
    )
    lines = result["stdout"].splitlines()
    assert lines[0] == "1000" and "nosuid" in lines[1] and "nodev" in lines[1]
    assert not (folder / "dev").exists()


@pytest.mark.parametrize(
    "path", ["/", "/etc", "/etc/ssl", "/proc", "/sys/fs", "/dev", "/root", "/boot", "/run", "/var"]
)
def test_blocked_roots(client, path):
    assert refusal(client, path).endswith("is blocked for security")
    assert refusal(client, extra=path).endswith("is blocked for security")


@pytest.mark.parametrize("way", ["link/ssl", "up/../../../../etc", "chain"])
def test_blocked_roots_by_links(place, client, way):
    folder = place.folder / "ways"
    if not folder.exists():
        place.make("ways", "up")
        (folder / "link").symlink_to("/etc")
        (folder / "chain").symlink_to("link/ssl")
    path = folder / way
    assert refusal(client, path) == f"host_path {path} is blocked for security"
    assert refusal(client, extra=path) == f"extra_mounts.host_path {path} is blocked for security"


def test_blocked_roots_by_a_bind_mount(place):
    """The path itself does not show that it leads to a blocked folder."""
    with bound(place, "innocent") as (client, innocent):
        for path in (innocent, innocent / "ssl"):
            assert refusal(client, path) == f"host_path {path} is blocked for security"
            text = f"extra_mounts.host_path {path} is blocked for security"
            assert refusal(client, extra=path) == text


def test_a_bind_mount_below_a_folder_does_not_come_along(place):
    """An ordinary user cannot hide a mount below the folder, so the folder is refused."""
    with bound(place, "above") as (client, innocent):
        if place.mode == "rootless":
            text = "a mounted folder has other mounts below it, which only root can leave out"
            assert refusal(client, innocent.parent) == text
            assert refusal(client, extra=innocent.parent) == text
            return
        result = client.exec("ls folder", "above", host_path=str(innocent.parent))
        assert result["stdout"] == ""
        mounts = [mount(innocent.parent, "/data")]
        assert client.exec("ls /data/folder", "extra", extra_mounts=mounts)["stdout"] == ""


@contextlib.contextmanager
def bound(place, name):
    """A client of a boxd in a mount namespace where a folder is /etc, and the folder."""
    if not boxdlib.ROOT:
        pytest.skip("a bind mount needs root")
    innocent = place.make(name, "folder")
    steps = 'mount --make-rprivate / && mount --bind /etc "$0" && exec "$@"'
    before = ("unshare", "-m", "sh", "-c", steps, str(innocent))
    with nativelib.dialled(place, before=before) as client:
        yield client, innocent


def test_sources_that_are_no_folders(place, client):
    folder = place.make("odd")
    os.mkfifo(folder / "fifo")
    file = place.write(folder / "file", "text")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "socket"))
        for name in ("fifo", "socket", "file"):
            place.own(folder / name)
            refusal(client, folder / name)
            if name != "file":
                refusal(client, extra=folder / name)
    result = client.exec("cat /data", "file", extra_mounts=[mount(file, "/data")])
    assert (result["stdout"], result["exit_code"]) == ("text", 0)


def test_a_device_as_source(place, client):
    if not boxdlib.ROOT:
        pytest.skip("a device needs root")
    device = place.make("device") / "null"
    subprocess.run(["mknod", "-m", "666", str(device), "c", "1", "3"], check=True, timeout=10)
    refusal(client, device)
    refusal(client, extra=device)


def test_a_missing_source_of_an_extra_mount(place, client):
    path = f"{place.folder}/nowhere"
    text = refusal(client, extra=path, session_id="s")
    assert text == f"extra_mounts.host_path {path} does not exist"
    assert client.exec("echo on")["stdout"] == "on"


@pytest.mark.parametrize("before", ["", "x", "xx"])
def test_a_long_path_that_is_missing(place, client, before):
    """boxd's answer has room for 511 bytes: wherever the path is cut, the client gets valid text."""
    path = f"{place.folder}/{before}" + "/".join(["\u754c" * 80] * 3)
    text = refusal(client, extra=path, session_id="s")
    assert text.startswith(f"extra_mounts.host_path {path[:120]}")
    assert client.exec("echo on")["stdout"] == "on"


PLACES = ["/", "/usr", "/usr/lib/x", "/proc", "/proc/x", "/sys", "/sys/x", "/dev", "/dev/x"]


@pytest.mark.parametrize("path", PLACES)
def test_places_that_no_host_path_takes(place, client, path):
    spec = {"mount_path": path, "workdir": path}
    assert "mount_path" in refusal(client, place.folder / "work", **spec)


@pytest.mark.parametrize("path", PLACES)
def test_places_that_no_extra_mount_takes(place, client, path):
    mounts = [mount(place.folder / "work", path)]
    assert "mount_path" in refusal(client, extra_mounts=mounts)


def test_the_client_s_roots_are_enforced(place):
    inside, outside = place.make("roots", "inside"), place.make("roots", "outside")
    config = {"local": {"allowed_mount_roots": [str(inside)]}}
    with nativelib.dialled(place, config=config) as client:
        check_roots(client, inside, outside)


def test_no_link_is_followed_below_the_client_s_roots(place):
    inside, outside = place.make("leads", "inside"), place.make("leads", "outside")
    (inside / "out").symlink_to(outside)
    (inside / "within").symlink_to("sub")
    place.make("leads", "inside", "sub")
    place.write(inside / "sub" / "file", "text")
    (inside / "file").symlink_to("sub/file")
    config = {"local": {"allowed_mount_roots": [str(inside)]}}
    with nativelib.dialled(place, config=config) as client:
        check_link(client, inside / "out")
        check_link(client, inside / "within")
        check_link(client, inside / "file")
        check_link(client, inside / "within", "/file")


def test_the_operator_s_roots_are_enforced(place):
    folder = place.folder / "operator"
    inside, outside = place.make("operator", "inside"), place.make("operator", "outside")
    (inside / "out").symlink_to(outside)
    text = f"local:\n  degraded: true\n  allowed_mount_roots: ['{inside}']\n"
    config = place.write(folder / "config.yaml", text)
    with place.start("--config", str(config), mount_roots=()) as boxd, boxd.web() as client:
        # A client cannot relax the operator's rules.
        client.init(backend="local", local={"allowed_mount_roots": ["/"]})
        check_roots(client, inside, outside)
        check_link(client, inside / "out")


def check_roots(client, inside, outside):
    assert client.exec("echo x >f; cat f", "in", host_path=str(inside))["stdout"] == "x"
    assert client.exec("echo y", "in", host_path=str(inside))["stdout"] == "y"
    sub = str(inside / "sub")
    assert client.exec("echo z", "sub", host_path=sub)["stdout"] == "z"
    mounts = [mount(inside, "/data")]
    assert client.exec("cat /data/f", "extra", extra_mounts=mounts)["stdout"] == "x"
    for path in (outside, inside / "../outside", inside.parent, "/usr/share"):
        check_outside(client, path)


def check_link(client, link, rest=""):
    why = f"is refused: {link} is a link, and none is followed below allowed_mount_roots"
    assert refusal(client, f"{link}{rest}") == f"host_path {link}{rest} {why}"
    text = f"extra_mounts.host_path {link}{rest} {why}"
    assert refusal(client, extra=f"{link}{rest}") == text


def check_outside(client, path):
    text = f"host_path {path} is outside allowed_mount_roots"
    assert refusal(client, path).startswith(text)
    assert refusal(client, extra=path).startswith(f"extra_mounts.{text}")


def test_execs_with_other_mounts_side_by_side(place, client):
    """Commands that run at the same time see their own mounts only."""
    folders = [place.make("many", str(n)) for n in range(8)]
    for n, folder in enumerate(folders):
        place.write(folder / "n", str(n))
    command = "cat /data/n; sleep 0.5; cat /data/n"
    started = [
        client.start(
            "box_exec",
            {"cmd": command, "session_id": "many", "extra_mounts": [mount(folder, "/data")]},
        )
        for folder in folders
    ]
    answers = [client.wait(seq, 30)["data"]["stdout"] for seq in started]
    assert answers == [f"{n}{n}" for n in range(8)]
    assert client.exec("ls -A /data; echo $?", "many")["stdout"] == "0"


def test_a_process_keeps_the_mounts_of_its_exec(place, client):
    folder = place.make("kept")
    place.write(folder / "n", "first")
    mounts = [mount(folder, "/data")]
    script = "(until [ -e /tmp/go ]; do sleep 0.05; done; cat /data/n >/tmp/seen) & true"
    client.exec(script, "kept", extra_mounts=mounts)
    waited = "touch /tmp/go; until [ -s /tmp/seen ]; do sleep 0.05; done; cat /tmp/seen"
    assert client.exec(waited, "kept")["stdout"] == "first"


def test_many_mounts_in_one_exec(place, client):
    folder = place.make("several")
    place.write(folder / "n", "x")
    mounts = [mount(folder, f"/opt/m{n}") for n in range(64)]
    result = client.exec("cat /opt/m*/n | wc -c", "several", extra_mounts=mounts)
    assert result["stdout"] == "64"
    assert client.exec("ls /opt/m*/n | wc -l", "several")["stdout"] == "0"


def test_two_sessions_share_one_host_folder(place, client):
    folder = str(place.make("shared"))
    client.exec("echo x >f", "one", host_path=folder)
    assert client.exec("cat f", "two", host_path=folder)["stdout"] == "x"


def test_mounts_where_memory_files_are_not_executed(tmp_path):
    """vm.memfd_noexec, which some hosts have on, adds a seal to every memfd."""
    if not boxdlib.ROOT:
        pytest.skip("only root can have a PID namespace whose memfds are so")
    source = folder_with_a_file(tmp_path)
    box = f"{boxdlib.build()}/box run --mount {source}:/mnt/m:ro -- cat /mnt/m/file"
    script = f"echo 1 > /proc/sys/vm/memfd_noexec || exit 77; {box}"
    done = subprocess.run(
        ["unshare", "--pid", "--fork", "--mount-proc", "sh", "-c", script],
        cwd=tmp_path,
        env=boxdlib.environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if done.returncode == 77:
        pytest.skip("this kernel has no vm.memfd_noexec")
    assert (done.returncode, done.stdout) == (0, "here\n"), done.stderr


def folder_with_a_file(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    (source / "file").write_text("here\n")
    return source
