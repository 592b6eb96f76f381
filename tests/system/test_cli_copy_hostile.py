"""box cp with what an honest box or host would not show it: answers of the box that contradict each
other, names too long, and places that are no files.
"""

import os
import stat

import clilib
import nativelib
import pytest
from clientlib import INSTANCE

WHO = {"LANGBOT_BOX_TRUSTED_INSTANCE_UUID": INSTANCE}


pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.fixture(scope="module")
def boxd(place):
    with nativelib.dialled(place) as client:
        yield client.boxd


def start(boxd, command, *args, **more):
    options = ["--endpoint", boxd.url, "--workspace", "ws1"]
    return clilib.start(command, *options, *map(str, args), private=False, env=WHO, **more)


def box(boxd, command, *args, **more):
    options = ["--endpoint", boxd.url, "--workspace", "ws1"]
    return clilib.box(command, *options, *map(str, args), private=False, env=WHO, **more)


@pytest.fixture
def session(boxd):
    assert box(boxd, "create", "s") == (0, "s\n", "")
    yield "s"
    box(boxd, "rm", "s")


def inside(boxd, script):
    code, out, err = box(boxd, "exec", "s", script)
    assert (code, err) == (0, ""), (code, out, err)
    return out


def probe_says(boxd, answer):
    """From now on the box answers the question what is there with this."""
    inside(
        boxd,
        "mkdir -p bin; printf '#!/bin/sh\\ncase $2 in s=*) echo %s; exit;; esac;"
        f" exec /bin/sh \"$@\"\\n' {answer} > bin/sh; chmod +x bin/sh;"
        "echo 'PATH=/workspace/bin:$PATH' > ~/.profile",
    )


def test_a_file_that_is_called_up(boxd, session, tmp_path):
    """A box that says of ".." that it is a file must not get at the folder above DST."""
    inside(boxd, "mkdir a; echo x > pwned")
    (tmp_path / "out").mkdir()
    probe_says(boxd, "ept:")
    code, out, err = box(boxd, "cp", "s:a/..", tmp_path / "out")
    assert (code, out) == (125, "") and "is no folder" in err
    assert os.listdir(tmp_path) == ["out"]
    assert os.listdir(tmp_path / "out") == []


@pytest.mark.parametrize("name", ["a" * 256, "a" * 300, "a" * 3000])
def test_names_too_long(boxd, session, tmp_path, name):
    inside(boxd, "mkdir d; echo x > d/f; echo x > f")
    for source in ("s:d", "s:f"):
        code, out, err = box(boxd, "cp", source, f"{tmp_path}/{name}")
        assert (code, out) == (125, "") and err.endswith(": the name is too long\n"), err
    # A box can say that it has one.
    probe_says(boxd, "dept:")
    code, out, err = box(boxd, "cp", f"s:{name}", tmp_path)
    assert (code, out) == (125, "") and err.endswith(": the name is too long\n"), err
    assert os.listdir(tmp_path) == []


def test_an_archive_without_end_ends_with_its_reader(boxd, session):
    inside(
        boxd,
        "mkdir bin d; printf '#!/bin/sh\\n[ $1 = -c ]&&exec cat /dev/zero\\n' > bin/tar; chmod +x bin/tar;"
        "echo 'PATH=/workspace/bin:$PATH' > ~/.profile",
    )
    with start(boxd, "cp", "s:d", "-") as process:
        process.stdout.read(1000)
        process.stdout.close()
        try:
            assert process.wait(10) == 141
        finally:
            process.kill()
        assert process.stderr.read() == b""


def test_a_fifo_does_not_give_way(boxd, session, tmp_path):
    """Nor does a device, which root could replace by a file."""
    inside(boxd, "echo x > f")
    os.mkfifo(tmp_path / "p")
    (tmp_path / "l").symlink_to("p")
    code, out, err = box(boxd, "cp", "s:f", tmp_path / "p")
    assert (code, out) == (125, "") and err.endswith("p: is no file, folder or link\n"), err
    assert stat.S_ISFIFO((tmp_path / "p").lstat().st_mode)
    # A link gives way itself.
    assert box(boxd, "cp", "s:f", tmp_path / "l") == (0, "", "")
    assert (tmp_path / "l").read_text() == "x\n" and not (tmp_path / "l").is_symlink()
    assert sorted(os.listdir(tmp_path)) == ["l", "p"]


def test_a_folder_that_may_not_be_written(boxd, session, tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "f").write_text("x")
    os.utime(tmp_path / "d", (1234567890, 1234567890))
    (tmp_path / "d").chmod(0o555)
    assert box(boxd, "cp", tmp_path / "d", "s:new") == (0, "", "")
    assert inside(boxd, "stat -c '%a %Y' new; cat new/f; ls -A") == "555 1234567890\nxnew\n"
