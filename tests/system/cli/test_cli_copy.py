"""`box cp` in both directions with a real boxd and native boxes: what is copied, where to, and
errors.
"""

import concurrent.futures
import io
import os
import pty
import signal
import stat
import tarfile
import threading
import time

import clilib
import nativelib
import proclib
import pytest
from boxdlib import wait_until
from copylib import WHO, archive_of, box, copied, entry, inside, options, start, tree

MIB = 1 << 20
LONG = "n" * 200


pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.fixture(scope="module")
def boxd(place):
    with nativelib.dialled(place) as client:
        yield client.boxd


@pytest.fixture
def session(boxd):
    assert box(boxd, "create", "s") == (0, "s\n", "")
    yield "s"
    box(boxd, "rm", "s")


def make_tree(folder):
    (folder / "a" / "b" / "empty").mkdir(parents=True)
    (folder / "a" / "f").write_bytes(os.urandom(300000))
    (folder / "a" / "b" / "x").write_text("#!/bin/sh\n")
    (folder / "a" / "b" / "x").chmod(0o751)
    (folder / "none").write_bytes(b"")
    (folder / " odd\n'name\" -f").write_text("odd")
    (folder / "ünï").write_text("utf-8")
    deep = folder / LONG / LONG
    deep.mkdir(parents=True)
    (deep / LONG).write_text("deep")
    (folder / "link").symlink_to("a/f")
    (folder / "nowhere").symlink_to("/nonexistent/" + LONG)
    (folder / "a" / "ro").mkdir()
    (folder / "a" / "ro" / "file").write_text("read only")
    (folder / "a" / "ro" / "file").chmod(0o444)
    (folder / "a" / "ro").chmod(0o555)
    for path in folder.rglob("*"):
        os.utime(path, (1234567890, 1234567890), follow_symlinks=False)
    return folder


# What is copied.


def test_a_tree_there_and_back(boxd, session, tmp_path):
    (tmp_path / "t").mkdir()
    source = make_tree(tmp_path / "t")
    copied(boxd, source, "s:/workspace/t")
    copied(boxd, "s:t", tmp_path / "back")
    before, after = tree(source), tree(tmp_path / "back")
    assert before.keys() == after.keys()
    assert before == after
    # No temporary file is left in the box.
    assert inside(boxd, "ls -A /workspace") == "t\n"


def test_one_file_there_and_back(boxd, session, tmp_path):
    data = os.urandom(3 * MIB + 17)
    (tmp_path / "f").write_bytes(data)
    (tmp_path / "f").chmod(0o640)
    os.utime(tmp_path / "f", (1000000000, 1000000000))
    copied(boxd, tmp_path / "f", "s:/workspace")
    assert inside(boxd, "stat -c '%a %Y %s' f; ls -A") == f"640 1000000000 {len(data)}\nf\n"
    copied(boxd, "s:f", tmp_path / "g")
    assert (tmp_path / "g").read_bytes() == data
    assert stat.S_IMODE((tmp_path / "g").stat().st_mode) == 0o640
    assert (tmp_path / "g").stat().st_mtime == 1000000000
    assert sorted(os.listdir(tmp_path)) == ["f", "g"]


@pytest.mark.parametrize("size", [0, 1, 511, 512, 513, 65536, 262144, 262145])
def test_sizes(boxd, session, tmp_path, size):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "f").write_bytes(os.urandom(size))
    copied(boxd, tmp_path / "d" / "f", "s:f")
    copied(boxd, tmp_path / "d", "s:d")
    copied(boxd, "s:f", tmp_path / "f")
    copied(boxd, "s:d", tmp_path / "e")
    whole = (tmp_path / "d" / "f").read_bytes()
    assert (tmp_path / "f").read_bytes() == (tmp_path / "e" / "f").read_bytes() == whole


def test_a_file_that_grows(boxd, session, tmp_path):
    """The size at opening is copied. Files of the kernel report no size in advance."""
    path = tmp_path / "log"
    begun = os.urandom(8 * MIB)
    path.write_bytes(begun)
    over = threading.Event()

    def write():
        with path.open("ab", buffering=0) as log:
            while not over.wait(0.001):
                log.write(b"line\n" * 100)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        copied(boxd, path, "s:log")
    finally:
        over.set()
        writer.join(20)
    copied(boxd, "s:log", tmp_path / "back")
    back = (tmp_path / "back").read_bytes()
    assert back[: len(begun)] == begun and path.read_bytes().startswith(back)
    copied(boxd, "/proc/version", "s:version")
    with open("/proc/version") as version:
        assert inside(boxd, "cat version") == version.read()


def test_links_are_links(boxd, session, tmp_path):
    (tmp_path / "l").symlink_to("target")
    copied(boxd, tmp_path / "l", "s:l")
    assert inside(boxd, "readlink l") == "target\n"
    copied(boxd, "s:l", tmp_path / "back")
    assert os.readlink(tmp_path / "back") == "target"
    # A trailing slash means a folder.
    inside(boxd, "mkdir d; echo x > d/f; ln -s d dl")
    for source, target in [("s:dl/", "d"), ("s:d/.", "e"), ("s:d/", "g")]:
        copied(boxd, source, tmp_path / target)
        assert (tmp_path / target / "f").read_text() == "x\n"
    (tmp_path / "dl").symlink_to("d")
    copied(boxd, f"{tmp_path}/dl/", "s:followed")
    assert inside(boxd, "cat followed/f") == "x\n"


def test_what_is_there_is_replaced_and_the_rest_stays(boxd, session, tmp_path):
    inside(boxd, "mkdir -p d/sub; echo old > d/f; echo old > d/keep; echo old > d/sub/f")
    (tmp_path / "d" / "sub").mkdir(parents=True)
    (tmp_path / "d" / "f").write_text("new")
    (tmp_path / "d" / "sub" / "g").write_text("new")
    copied(boxd, tmp_path / "d", "s:/workspace")
    assert inside(boxd, "cat d/f d/keep d/sub/f d/sub/g; ls -A") == "newold\nold\nnewd\n"
    assert inside(boxd, "stat -c %a d/f") == "644\n"
    copied(boxd, "s:d", tmp_path)
    assert (tmp_path / "d" / "keep").read_text() == "old\n"
    assert (tmp_path / "d" / "sub" / "f").read_text() == "old\n"


# The target follows the rules of `docker cp`. The whole table is in test_copy_rules.c.


def test_where_it_goes(boxd, session, tmp_path):
    (tmp_path / "f").write_text("f")
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "x").write_text("x")
    copied(boxd, tmp_path / "f", "s:g")
    copied(boxd, tmp_path / "f", "s:/tmp/")
    copied(boxd, tmp_path / "d", "s:/tmp")
    copied(boxd, f"{tmp_path}/d/.", "s:/workspace/")
    copied(boxd, tmp_path / "d", "s:new/")
    assert inside(boxd, "ls -A; ls -A /tmp; ls new") == "g\nnew\nx\nd\nf\nx\n"
    for source, target, why in [
        (tmp_path / "f", "s:nosuch/", "nosuch/: no such folder"),
        (tmp_path / "f", "s:nosuch/x", "nosuch/x: no such folder"),
        (tmp_path / "d", "s:g", "g: not a folder"),
        (f"{tmp_path}/f/", "s:", "a path must not be empty (see box cp --help)"),
        (tmp_path / "nosuch", "s:x", f"{tmp_path}/nosuch: no such file or folder"),
        ("s:nosuch", tmp_path, "nosuch: no such file or folder"),
        ("s:g", tmp_path / "no" / "x", f"{tmp_path}/no/x: no such folder"),
        ("s:/tmp", tmp_path / "f", f"{tmp_path}/f: not a folder"),
    ]:
        code, out, err = box(boxd, "cp", source, target)
        assert (code, out) == (125, "") and err.endswith(why + "\n"), err
    for args in (["a", "b"], ["s:a", "s:b"], ["a"], ["a", "s:b", "c"]):
        assert box(boxd, "cp", *args)[0] == 125
    code, out, err = box(boxd, "cp", tmp_path / "f", "nosuch:x")
    assert code == 125 and "BoxSessionNotFoundError" in err


# Archives on stdin and stdout.


def test_archives(boxd, session, tmp_path):
    inside(boxd, "mkdir -p d/e; echo x > d/e/f")
    code, out, err = clilib.box(
        "cp", *options(boxd), "s:d", "-", private=False, env=WHO
    )
    assert (code, err) == (0, "")
    with tarfile.open(fileobj=io.BytesIO(out.encode(errors="surrogateescape"))) as archive:
        assert sorted(archive.getnames()) == ["d", "d/e", "d/e/f"]
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        info = tarfile.TarInfo("n/f")
        info.size = 5
        archive.addfile(info, io.BytesIO(b"hello"))
    copied(boxd, "-", "s:/tmp", data=made.getvalue())
    assert inside(boxd, "cat /tmp/n/f; ls -A /tmp") == "hellon\n"
    code, out, err = box(boxd, "cp", "-", "s:nosuch", data=made.getvalue())
    assert code == 125 and "an archive can only be unpacked into an existing folder" in err
    code, out, err = box(boxd, "cp", "-", "s:/tmp", data=b"this is no archive" * 100)
    assert code == 125 and "in the box: tar:" in err
    assert inside(boxd, "ls -A /tmp") == "n\n"
    # A reader that closes early.
    with start(boxd, "cp", "s:/usr/bin", "-") as process:
        process.stdout.read(1000)
        process.stdout.close()
        assert process.wait(20) == 141


# Errors.


def test_no_tar_in_the_box(boxd, session, tmp_path):
    inside(
        boxd,
        "mkdir bin; for p in sh cat stat chmod touch mv rm mkdir; do"
        " ln -s $(command -v $p) bin/$p; done; echo PATH=/workspace/bin > ~/.profile",
    )
    (tmp_path / "f").write_text("f")
    (tmp_path / "d").mkdir()
    copied(boxd, tmp_path / "f", "s:f")
    copied(boxd, "s:f", tmp_path / "g")
    assert (tmp_path / "g").read_text() == "f"
    why = "box: the box has no tar: only single files can be copied\n"
    assert box(boxd, "cp", tmp_path / "d", "s:x") == (125, "", why)
    assert box(boxd, "cp", "s:bin", tmp_path / "x") == (125, "", why)
    assert not (tmp_path / "x").exists()


def test_no_room_in_the_box(boxd, session, tmp_path):
    room = int(inside(boxd, "df -k --output=avail /tmp | tail -1"))
    if room > 4 * MIB:
        pytest.skip("a box has more room than is worth filling")
    inside(boxd, f"head -c {(room - 1024) * 1024} /dev/zero > /tmp/fill")
    (tmp_path / "f").write_bytes(bytes(4 * MIB))
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "f").write_bytes(bytes(4 * MIB))
    for source in ("f", "d"):
        code, out, err = box(boxd, "cp", tmp_path / source, "s:/tmp")
        assert code == 125 and err.startswith("box: in the box: ") and ("No space" in err or "Wrote only" in err), err
        assert inside(boxd, "ls -A /tmp") == "fill\n"


def test_what_cannot_be_read(boxd, session, tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "f").write_text("f")
    os.mkfifo(tmp_path / "d" / "fifo")
    code, out, err = box(boxd, "cp", tmp_path / "d", "s:d")
    assert (code, out, err) == (125, "", "box: d/fifo: not copied: a FIFO\n")
    assert inside(boxd, "cat d/f") == "f"
    code, out, err = box(boxd, "cp", tmp_path / "d" / "fifo", "s:f")
    assert code == 125 and "not a file, folder or link" in err
    inside(boxd, "mkdir e; echo x > e/a; mkfifo e/p")
    code, out, err = box(boxd, "cp", "s:e", tmp_path)
    assert (code, err) == (125, "box: e/p: not copied: a FIFO\n")
    assert (tmp_path / "e" / "a").read_text() == "x\n"


# Interrupts.


def test_interrupted_on_the_way_in(boxd, session, tmp_path):
    mark = nativelib.marker()
    inside(boxd, "echo old > f; mkdir d; echo old > d/f")
    for name in ("f", "d"):
        reader, writer = os.pipe()
        made = tmp_path / f"to-{name}"
        made.mkdir(exist_ok=True)
        # An archive that never ends, or a file whose rest is missing.
        if name == "d":
            source = ["-", "s:d"]
            head = archive_of(entry("f", b"x" * 5000))[:3000]
        else:
            (made / "f").write_bytes(b"")
            os.truncate(made / "f", 4 << 30)
            source = [made / "f", "s:f"]
            head = b""
        with start(boxd, "cp", *source, stdin=reader) as process:
            os.close(reader)
            os.write(writer, head)
            what = "ls -A /workspace /workspace/d | grep -c box-cp || true"
            wait_until(lambda: inside(boxd, what) != "0\n", what="a beginning")
            process.send_signal(signal.SIGINT)
            assert process.wait(15) == 130
        os.close(writer)
        assert inside(boxd, "cat f d/f; ls -A . d") == "old\nold\n.:\nd\nf\n\nd:\nf\n"
        assert inside(boxd, "ps ax -o comm | grep -cE '^(tar|cat)$' || true") == "0\n"
    assert proclib.find(mark) == []


def test_interrupted_on_the_way_out(boxd, session, tmp_path):
    inside(boxd, "mkdir d; truncate -s 4G d/big")
    (tmp_path / "big").write_text("old")
    for source in ("s:d/big", "s:d"):
        with start(boxd, "cp", source, tmp_path) as process:
            wait_until(lambda: list(tmp_path.rglob(".box-cp.*")), what="a beginning")
            process.send_signal(signal.SIGTERM)
            assert process.wait(15) == 143
        assert list(tmp_path.rglob(".box-cp.*")) == []
        assert (tmp_path / "big").read_text() == "old"
        assert not (tmp_path / "d" / "big").exists()
        wait_until(
            lambda: inside(boxd, "ps ax -o comm | grep -cE '^(tar|cat)$' || true") == "0\n",
            what="the end of tar",
        )


def test_killed_on_the_way_out(boxd, session, tmp_path):
    """A client that disconnects silently leaves no command behind, whatever the runtime was doing."""
    inside(boxd, "truncate -s 4G big")
    for turn in range(12):
        with start(boxd, "cp", "s:big", tmp_path / "big") as process:
            (begun,) = wait_until(lambda: list(tmp_path.glob(".box-cp.*")), what="a beginning")
            while begun.stat().st_size < turn * MIB:
                assert process.poll() is None
            process.kill()
            process.wait(15)
        begun.unlink()
    wait_until(
        lambda: inside(boxd, "ps ax -o comm | grep -cE '^cat$' || true") == "0\n",
        what="the end of cat",
    )


def test_progress_on_a_terminal(boxd, session, tmp_path):
    (tmp_path / "f").write_bytes(bytes(64 * MIB))
    near, far = pty.openpty()
    with start(boxd, "cp", tmp_path / "f", "s:f", stderr=far) as process:
        os.close(far)
        shown = b""
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            ended = pool.submit(process.wait, 30)
            while True:
                try:
                    shown += os.read(near, 4096)
                except OSError:
                    break
            assert ended.result() == 0, shown
    os.close(near)
    assert b" of 64.0 MiB  " in shown and b" MiB/s" in shown
    assert b"[=" in shown or b"[>" in shown
    assert shown.endswith(b"\r\x1b[K")


def test_many_small_files(boxd, session, tmp_path):
    source = tmp_path / "many"
    for i in range(1500):
        folder = source / str(i % 30)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / str(i)).write_text(str(i))
    begun = time.monotonic()
    copied(boxd, source, "s:many")
    copied(boxd, "s:many", tmp_path / "back")
    assert time.monotonic() - begun < 20
    assert {k: v[3] for k, v in tree(source).items()} == {
        k: v[3] for k, v in tree(tmp_path / "back").items()
    }
