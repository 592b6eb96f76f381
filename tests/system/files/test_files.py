"""File actions in native boxes: every action and every invalid input, over both codecs, as root and
as an ordinary user.

Large files, races and failures are in test_files_hard.py.
"""

import base64
import itertools
import os

import pytest

import filelib
import nativelib

BINARY = bytes(range(256)) * 5


pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.fixture(scope="module", params=nativelib.MODES)
def started(request, nothing_left):
    with filelib.started(request.param) as made:
        yield made


@pytest.fixture
def boxd(started):
    return started[0]


@pytest.fixture(params=filelib.CODECS)
def files(request, boxd):
    with filelib.dialled(boxd, request.param) as made:
        yield made


# -- reading and writing


def test_features(files):
    assert {"files", "file_watch"} <= set(files.client.ask("box_status")["features"])


@pytest.mark.parametrize("data", [b"", b"text\n", "漢é".encode(), BINARY, b"\xff"])
def test_what_was_written_is_read(files, data):
    assert files.write("a", data) == {"size": len(data), "written": len(data)}
    assert files.read("a") == data
    assert files.read("/workspace/a") == data
    assert files.sh("wc -c </workspace/a") == str(len(data))
    assert files.write("/tmp/b", data)["size"] == len(data)
    assert files.read("/tmp/b") == data


def test_bytes_are_as_in_streams(files):
    files.write("a", b"plain")
    files.write("b", b"\xff\x00")
    ask = files.client.ask
    expected = {"offset": 0, "size": 5, "eof": True, "data": b"plain" if files.binary else "plain"}
    assert ask("box_file_read", files.data("a")) == expected
    other = {"data": b"\xff\x00"} if files.binary else {"data_base64": "/wA="}
    assert ask("box_file_read", files.data("b")) == {"offset": 0, "size": 2, "eof": True, **other}
    ask("box_file_write", files.data("c", data="téxt"))
    assert files.read("c") == "téxt".encode()


def test_text_that_grows_too_much_comes_as_base64(files):
    files.sh("head -c 8388608 /dev/zero >/workspace/zeros")
    assert files.read("zeros") == bytes(8 << 20)


def test_a_part_by_offset(files):
    files.write("a", b"0123456789")
    answer = files.client.ask("box_file_read", files.data("a", offset=3, length=4))
    assert (answer["offset"], answer["size"], answer["eof"]) == (3, 10, False)
    assert files.bytes_of(answer) == b"3456"
    answer = files.client.ask("box_file_read", files.data("a", offset=8))
    assert answer["eof"] and files.bytes_of(answer) == b"89"
    assert files.read("a", offset=99) == b""
    assert files.read("a", length=0) == b""


def test_writing_at_an_offset_and_appending(files):
    assert files.write("a", b"abc", offset=4) == {"size": 7, "written": 3}
    assert files.read("a") == b"\0\0\0\0abc"
    assert files.write("a", b"XY", offset=5)["size"] == 7
    assert files.read("a") == b"\0\0\0\0aXY"
    assert files.write("a", b"end", append=True)["size"] == 10
    assert files.read("a", offset=5) == b"XYend"
    assert files.write("new", b"n", append=True)["size"] == 1
    assert files.write("a", b"whole") == {"size": 5, "written": 5}
    assert files.read("a") == b"whole"


def test_a_whole_file_takes_the_place_of_the_old_one_at_once(files):
    """Readers of the old file keep it, hard links keep it, and no reader ever sees half a file."""
    files.sh("cd /workspace; echo old >a; ln a b; chmod 640 a")
    files.write("a", b"new")
    assert files.sh("cd /workspace; cat a b; stat -c %a a; ls -A") == "newold\n640\na\nb"


def test_a_program_that_runs_can_be_replaced(files):
    begin = "cd /workspace; cp /usr/bin/sleep run; (./run 60 >/dev/null 2>&1 &)"
    files.sh(f"{begin}; until pgrep -x run; do sleep 0.05; done")
    assert "[ETXTBSY]" in files.tell("write", "run", data="x", append=True)
    files.write("run", b"#!/bin/sh\necho new\n")
    assert files.sh("/workspace/run") == "new"


def test_modes_and_parents(files):
    files.write("deep/er/a", b"x", parents=True, mode=0o750)
    files.mkdir("deep/m", mode=0o700)
    files.mkdir("p/q/r", parents=True)
    files.mkdir("p/q/r", parents=True)
    files.mkdir("open", mode=0o777)
    given = files.sh("cd /workspace; stat -c '%a %U' deep deep/er deep/er/a deep/m p/q/r open")
    assert given.split("\n") == [
        *["755 box", "755 box", "750 box", "700 box", "755 box", "777 box"]
    ]


# -- names


def test_stat(files):
    files.sh("cd /workspace; echo 12345 >f; mkdir d; ln -s f l; mkfifo p; chmod 600 f")
    files.sh("touch -d @1700000000.25 /workspace/f")
    stat = {"kind": "file", "size": 6, "mode": 0o600, "mtime_ms": 1700000000250}
    assert files.stat("f") == stat
    assert files.stat("/workspace//./f") == stat
    link = files.stat("l")
    assert (link["kind"], link["target"]) == ("link", "f")
    assert files.stat("d")["kind"] == "folder" == files.stat("d/")["kind"]
    assert files.stat("p")["kind"] == "fifo"
    assert files.stat("/workspace")["kind"] == files.stat(".")["kind"] == "folder"
    assert files.stat("/")["kind"] == files.stat("/tmp")["kind"] == "folder"
    assert files.stat("/usr/bin/env")["mode"] == 0o755


def test_list(files):
    files.sh("cd /workspace; mkdir d; cd d; touch b a é Z; ln -s /nowhere l; mkdir sub")
    found = files.list("d")
    assert found["more"] is False
    assert [entry["name"] for entry in found["entries"]] == ["Z", "a", "b", "l", "sub", "é"]
    kinds = [entry["kind"] for entry in found["entries"]]
    assert kinds == ["file", "file", "file", "link", "folder", "file"]
    assert found["entries"][3]["target"] == "/nowhere"
    assert set(found["entries"][0]) == {"name", "kind", "size", "mode", "mtime_ms"}
    assert files.list("d/sub") == {"entries": [], "more": False}
    assert {"usr", "etc", "proc", "tmp"} <= set(files.names("/"))


def test_list_in_pages(files):
    files.sh("cd /workspace; mkdir d; cd d; seq -w 0 99 | xargs touch")
    found, after = [], None
    while True:
        page = files.list("d", limit=7, **({"after": after} if after else {}))
        found += [entry["name"] for entry in page["entries"]]
        after = found[-1]
        if not page["more"]:
            break
        assert len(page["entries"]) == 7
    assert found == [f"{number:02}" for number in range(100)]


def test_names_that_are_no_text(files):
    name = base64.b64encode(b"x\xff").decode()
    files.sh("cd /workspace; mkdir odd; printf y >odd/$(printf 'x\\377')")
    entry = files.list("odd")["entries"][0]
    assert entry["name_base64"] == name and "name" not in entry
    path = {"session_id": "s", "path_base64": base64.b64encode(b"odd/x\xff").decode()}
    assert files.bytes_of(files.client.ask("box_file_read", path)) == b"y"
    if files.binary:
        assert files.read(b"odd/x\xff") == b"y"
    below = {"session_id": "s", "path_base64": base64.b64encode(b"odd/x\xff/y").decode()}
    assert "odd/x\ufffd/y: Not a directory" in files.client.fail("box_file_stat", below)
    assert files.client.ask("box_file_remove", path) == {}
    assert files.names("odd") == []


def test_remove(files):
    files.sh("cd /workspace; mkdir -p d/e keep; echo x >d/e/f; ln -s ../keep d/l; echo k >keep/k")
    files.sh("cd /workspace; mkfifo d/p; ln -s keep k; mkdir empty")
    assert "OSError: [ENOTEMPTY] /workspace/d: " in files.tell("remove", "d")
    files.remove("d", recursive=True)
    files.remove("k")
    files.remove("empty")
    assert files.names("/workspace") == ["keep"]
    assert files.read("keep/k") == b"k\n"


def test_removing_what_is_deep(files):
    files.sh("cd /workspace; mkdir deep; cd deep; for i in $(seq 300); do mkdir d && cd d; done")
    files.remove("deep", recursive=True)
    assert files.names("/workspace") == []


def test_move(files):
    files.sh("cd /workspace; echo a >a; echo b >b; mkdir d; ln -s a l")
    files.move("a", "d/a")
    files.move("l", "d/l")
    files.move("d", "e")
    assert files.sh("cd /workspace; ls; cat e/a; readlink e/l") == "b\ne\na\na"
    given = {"session_id": "s", "from": "b", "to": "e/a"}
    assert files.client.fail("box_file_move", given).startswith("OSError: [EEXIST] /workspace/e/a")
    files.move("b", "e/a", replace=True)
    assert files.read("e/a") == b"b\n"
    given = {"session_id": "s", "from": "e/a", "to": "/tmp/a"}
    assert "[EXDEV] /workspace/e/a: to is on another" in files.client.fail("box_file_move", given)
    given = {"session_id": "s", "from": "nix", "to": "y"}
    assert "[ENOENT] /workspace/nix:" in files.client.fail("box_file_move", given)
    given = {"session_id": "s", "from": "e", "to": "nix/y"}
    assert "[ENOENT] /workspace/nix/y:" in files.client.fail("box_file_move", given)


@pytest.mark.parametrize("codec", filelib.CODECS)
def test_a_folder_of_the_host(started, codec):
    """Another mount path, files of its owner, and a link that is valid on the host only."""
    boxd, place = started
    folder = place.make("host", codec)
    secret = place.write(place.folder / f"secret-{codec}", "of the host")
    os.symlink(secret, folder / "out")
    place.own(folder / "out")
    spec = {"host_path": str(folder), "mount_path": "/data/here"}
    with filelib.dialled(boxd, codec, f"h-{codec}", **spec) as files:
        files.write("a", b"1")
        assert files.read("/data/here/a") == b"1"
        assert "leads out of /data/here" in files.tell("read", "../x")
        assert "leads out of /data/here" in files.tell("read", "out")
        assert "leads out of /data/here" in files.tell("write", "out", data="x")
        assert "Error: [E" in files.tell("remove", "/data", recursive=True)
        files.remove("out")
        assert files.names(".") == ["a"]
    assert os.listdir(folder) == ["a"] and secret.read_text() == "of the host"
    assert (folder / "a").stat().st_uid == folder.stat().st_uid


# -- invalid input


BAD_PATHS = {
    "empty": ("", "BoxValidationError: path must not be empty"),
    "nul": ("a\0b", "BoxValidationError: path has a NUL in it"),
    "too long": ("a/" * 2048, "BoxValidationError: path is longer than 4095 bytes"),
    "a name too long": ("a" * 256, "BoxValidationError: a name in path is longer than 255 bytes"),
    "missing": ("nix", "OSError: [ENOENT] /workspace/nix: No such file or directory"),
    "missing folder": ("nix/a", "OSError: [ENOENT] /workspace/nix/a: No such file or directory"),
    "below a file": ("f/a", "OSError: [ENOTDIR] /workspace/f/a: Not a directory"),
    "link to the root's": ("out", "PermissionError: [EXDEV] /workspace/out: leads out of "),
    "link up": ("up", "PermissionError: [EXDEV] /workspace/up: leads out of /workspace"),
    "link to tmp": ("tmp", "PermissionError: [EXDEV] /workspace/tmp: leads out of /workspace"),
    "folder link": ("etc/passwd", "[EXDEV] /workspace/etc/passwd: leads out of /workspace"),
    "up": ("../etc/passwd", "[EXDEV] /workspace/../etc/passwd: leads out of /workspace"),
    "up to nothing": ("../opt/nix", "[EXDEV] /workspace/../opt/nix: leads out of /workspace"),
    "up again": ("/workspace/d/../../etc/passwd", "leads out of /workspace"),
    "out of tmp": ("/tmp/out", "[EXDEV] /tmp/out: leads out of /tmp"),
    "loop": ("loop", "OSError: [ELOOP] /workspace/loop: Too many levels of symbolic links"),
    "procfs": ("/proc/self/mem", "PermissionError: [EACCES] /proc/self/mem: is in a file"),
    "sysfs": ("/sys/kernel", "PermissionError: [EACCES] /sys/kernel: is in a file system of the"),
    "device": ("/dev/zero", "PermissionError: [EACCES] /dev/zero: is in a file system of the"),
    "link to procfs": ("/home/box/p/self/mem", "[EACCES] /home/box/p/self/mem: is in a file "),
    "link to a device": ("/home/box/z", "[EACCES] /home/box/z: is in a file system of the kernel"),
    "fifo": ("fifo", "OSError: [EINVAL] /workspace/fifo: is a fifo, not a file"),
    "socket": ("sock", "OSError: [EINVAL] /workspace/sock: is a socket, not a file"),
    "folder": ("d", "OSError: [EISDIR] /workspace/d: is a folder, not a file"),
    "secret": ("locked", "PermissionError: [EACCES] /workspace/locked: Permission denied"),
}
FURNISH = (
    "cd /workspace; echo f >f; mkdir d; mkfifo fifo; ln -s /etc/passwd out; ln -s ../etc up;"
    " ln -s /tmp/x tmp; ln -s /etc etc; ln -s loop loop; ln -s /etc/passwd /tmp/out;"
    " echo x >/tmp/x;"
    " ln -sfn /proc /home/box/p; ln -sfn /dev/zero /home/box/z; echo >locked; chmod 0 locked;"
    " python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"sock\")'"
)


def test_bad_paths(files):
    files.sh(FURNISH)
    before = files.sh("cd /workspace; find . -printf '%p %y %l %s %m\n' | sort")
    for path, text in BAD_PATHS.values():
        assert text in files.tell("read", path), path
        if path == "nix":
            continue
        told = files.tell("write", path, data="x")
        assert text in told, path
        assert text in files.tell("write", path, data="x", append=True), path
        assert text in files.tell("write", path, data="x", offset=0), path
    assert files.sh("cd /workspace; find . -printf '%p %y %l %s %m\n' | sort") == before
    assert files.client.ask("__ping") == {}


WAYS_OUT = {
    "etc/passwd": "PermissionError: [EXDEV] /workspace/etc/passwd: leads out of /workspace",
    "up/passwd": "PermissionError: [EXDEV] /workspace/up/passwd: leads out of /workspace",
    "../tmp/x": "PermissionError: [EXDEV] /workspace/../tmp/x: leads out of /workspace",
    "/tmp/../workspace/f": "PermissionError: [EXDEV] /tmp/../workspace/f: leads out of /tmp",
    "/proc/self/fd": "PermissionError: [EACCES] /proc/self/fd: is in a file system of the kernel",
    "/home/box/p/1": "PermissionError: [EACCES] /home/box/p/1: is in a file system of the kernel",
    "/dev/null": "PermissionError: [EACCES] /dev/null: is in a file system of the kernel",
    "fifo/x": "OSError: [ENOTDIR] /workspace/fifo/x: Not a directory",
}


def test_no_action_goes_out(files):
    """Paths through links, devices and FIFOs; more cases of read and write are above."""
    files.sh(FURNISH + "; echo f >/workspace/mine")
    look = "cd /; find workspace tmp home -printf '%p %y %l %s %m\n' 2>/dev/null | sort"
    before = files.sh(look)
    for path, text in WAYS_OUT.items():
        for action in ("list", "stat", "mkdir", "remove", "watch"):
            assert text in files.tell(action, path), (action, path)
        assert text in files.tell("mkdir", path, parents=True), path
        assert text in files.tell("remove", path, recursive=True), path
        for ends in ({"from": path, "to": "there"}, {"from": "mine", "to": path}):
            told = files.client.fail("box_file_move", {"session_id": "s", **ends, "replace": True})
            assert text in told, ends
    assert files.sh(look) == before


def test_links_inside_are_followed(files):
    files.sh("cd /workspace; mkdir d; echo x >d/f; ln -s d e; ln -s /workspace/e/f l; ln -s d/n n")
    files.sh("cd /workspace; ln -s //workspace/./d/../l back")
    assert files.read("e/f") == files.read("l") == files.read("back") == b"x\n"
    files.write("n", b"new")
    assert files.sh("cat /workspace/d/n; readlink /workspace/n") == "newd/n"
    assert files.names("e/") == ["f", "n"]
    assert "OSError: [ENOTDIR]" in files.tell("list", "e")


def test_bad_words(files):
    tell = files.tell
    assert tell("read", "a", offset=-1).startswith("BoxValidationError: offset must be 0 to ")
    assert tell("read", "a", length=(8 << 20) + 1).startswith("BoxValidationError: length must be")
    assert tell("read", "a", offset="x") == "ValueError: offset must be int, not str"
    assert tell("read", 5) == "BoxValidationError: path must be text or bytes"
    assert files.client.fail("box_file_read", {"session_id": "s"}) == "KeyError: 'path'"
    assert files.client.fail("box_file_read", {"path": "a"}) == "KeyError: 'session_id'"
    assert tell("write", "a") == "KeyError: 'data'"
    assert tell("write", "a", data="x", data_base64="eA==").endswith("exclude each other")
    assert tell("write", "a", data_base64="x") == "BoxValidationError: data_base64 is not base64"
    assert tell("write", "a", data="x", offset=1, append=True).endswith("exclude each other")
    assert tell("write", "a", data="x", mode=0o4755).startswith("BoxValidationError: mode must be")
    assert tell("list", ".", limit=0) == "BoxValidationError: limit must be 1 to 10000"
    assert tell("list", ".", limit=10001).startswith("BoxValidationError: limit must be")
    assert tell("list", ".", after="a\0") == "BoxValidationError: after is not a valid name"
    assert files.client.fail("box_file_move", files.data("a")) == "KeyError: 'from'"
    assert tell("mkdir", "/workspace").startswith("OSError: [EEXIST] /workspace: File exists")
    for path in ("/workspace", "/tmp/", "/", ".", "/workspace/x/.."):
        files.mkdir("x", parents=True)
        told = tell("remove", path, recursive=True)
        assert told.startswith("PermissionError: [EBUSY] ") and "is where" in told
    given = {"session_id": "s", "from": ".", "to": "y"}
    told = files.client.fail("box_file_move", given)
    assert told.startswith("PermissionError: [EBUSY] /workspace/.: is where")


def test_a_session_that_is_not_there(files):
    for action in ("read", "write", "list", "stat", "mkdir", "remove", "watch"):
        given = {"session_id": "nobody", "path": "a", "data": ""}
        told = files.client.fail(f"box_file_{action}", given)
        assert told.startswith("BoxSessionNotFoundError: session "), told
    foreign = {**files.client.context, "workspace_uuid": "other"}
    told = files.client.fail("box_file_stat", files.data("."), context=foreign)
    assert told.startswith("BoxSessionNotFoundError: ")


def test_a_read_only_root(files):
    assert files.tell("write", "/opt/x", data="x").startswith("OSError: [EROFS] /opt/x: Read-only")
    assert files.tell("mkdir", "/opt/x").startswith("OSError: [EROFS] /opt/x: Read-only")
    assert files.tell("remove", "/etc/passwd").startswith("OSError: [EROFS] /etc/passwd: Read-only")


def test_a_read_only_file(files):
    files.sh("cd /workspace; echo old >a; chmod 444 a; mkdir d; echo x >d/f; chmod 555 d")
    for more in ({}, {"append": True}, {"offset": 0}):
        told = files.tell("write", "a", data="new", **more)
        assert told == "PermissionError: [EACCES] /workspace/a: Permission denied"
    assert files.read("a") == b"old\n"
    told = files.tell("remove", "d", recursive=True)
    assert told.startswith("PermissionError: [EACCES] /workspace/d")
    files.sh("chmod 755 /workspace/d")


def test_a_full_disk(files):
    files.sh("echo before >/tmp/a; head -c 2000000 /dev/zero >/tmp/room")
    files.sh("cat /dev/zero >/tmp/fill 2>/dev/null; rm /tmp/room; true")
    big = b"x" * (6 << 20)
    told = files.tell("write", "/tmp/a", **files.bytes_in(big))
    assert told == "OSError: [ENOSPC] /tmp/a: No space left on device"
    assert files.read("/tmp/a") == b"before\n"
    told = files.tell("write", "/tmp/a", **files.bytes_in(big), append=True)
    assert told.startswith("OSError: [ENOSPC] /tmp/a: No space left on device; "), told
    written = int(told.split("; ")[1].split()[0])
    assert 0 < written < len(big) and told.endswith(f"{written} of {len(big)} bytes were written")
    assert files.stat("/tmp/a")["size"] == 7 + written
    files.write("/workspace/a", b"others go on")
    assert files.sh("ls -A /tmp") == "a\nfill"
    assert files.sh("rm /tmp/fill; cat /workspace/a") == "others go on"


# -- watching


def test_watch(files):
    files.sh("cd /workspace; mkdir d; echo x >d/f; mkdir d/sub")
    watch = files.watch("d")
    files.sh("cd /workspace/d; echo y >g; echo z >>f; mv g h; rm h; chmod 700 sub; echo n >sub/n")
    files.sh("cd /workspace/d; mkdir late; touch last")
    found = watch.until("/workspace/d/last")
    said = [(e["event"], e["path"].removeprefix("/workspace/d/"), e["is_folder"]) for e in found]
    deduped = [one for one, _ in itertools.groupby(said)]
    assert deduped == [
        ("created", "g", False),
        ("changed", "g", False),
        ("changed", "f", False),
        ("moved", "h", False),
        ("removed", "h", False),
        ("changed", "sub", True),
        ("created", "late", True),
        ("created", "last", False),
    ]
    assert [e["from"] for e in found if e["event"] == "moved"] == ["/workspace/d/g"]
    watch.cancel()
    while files.client.has_answer(watch.seq):
        assert watch.take()["path"] == "/workspace/d/last"
    files.sh("touch /workspace/d/more")
    assert not files.client.has_answer(watch.seq)


def test_watch_ends_with_what_is_watched(files):
    files.sh("cd /workspace; mkdir d; echo x >f")
    folder, file = files.watch("d"), files.watch("f")
    files.write("f", b"in the place of the old one")
    files.sh("cd /workspace; echo more >>f; rmdir d; rm f")
    assert folder.take() == {"event": "removed", "path": "/workspace/d", "is_folder": True}
    assert folder.take() is None
    found = []
    while (event := file.take()) is not None:
        assert event.pop("path") == "/workspace/f" and event.pop("is_folder") is False
        found.append(event["event"])
    assert set(found[:-1]) == {"changed"} and found[-1] == "removed"


def test_watch_recursive(files):
    files.sh("cd /workspace; mkdir -p t/a/b other; echo x >other/x")
    watch = files.watch("t", recursive=True, flow=True)
    files.sh("cd /workspace/t; echo 1 >a/b/f; mkdir -p n/m/o; echo 2 >n/m/o/g; touch s1")
    paths = {e["path"].removeprefix("/workspace/t/") for e in watch.until("/workspace/t/s1")}
    assert {"a/b/f", "n", "n/m", "n/m/o", "n/m/o/g", "s1"} <= paths
    files.sh("cd /workspace/t; mv n a/n; echo 3 >a/n/m/h; mv a/b ../other/b; touch ../other/b/no")
    files.sh("cd /workspace/t; mv ../other in; echo 4 >in/b/yes; touch s2")
    found = watch.until("/workspace/t/s2")
    said = [(e["event"], e["path"].removeprefix("/workspace/t/")) for e in found]
    assert ("moved", "a/n") in said and ("created", "a/n/m/h") in said
    assert ("removed", "a/b") in said and ("created", "in") in said
    assert ("created", "in/b/yes") in said and ("created", "in/b/no") in said
    assert not any("other" in path or path == "a/b/no" for _, path in said)
    watch.cancel()


def test_watch_what_cannot_be(files):
    files.sh(FURNISH)
    for path in ("nix", "out", "/proc", "/dev/zero", "etc"):
        assert "leads out" in (told := files.tell("watch", path)) or "[E" in told
    watches = [files.watch("d") for _ in range(16)]
    assert files.tell("watch", "d").startswith("BoxCapacityExceededError: too many file operations")
    for watch in watches:
        watch.cancel()
    files.watch("d").cancel()
