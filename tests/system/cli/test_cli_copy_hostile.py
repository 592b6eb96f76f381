"""`box cp` against hostile boxes and hosts: contradictory answers, archives from a payload's own
`tar`, names that are too long, and sources or targets that are not regular files.
"""

import os
import stat
import tarfile

import clilib
import nativelib
import pytest
from copylib import WHO, archive_of, box, copied, entry, inside, options, start, tree

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


def probe_says(boxd, answer):
    """From now on the box gives this answer about the type of a path."""
    inside(
        boxd,
        "mkdir -p bin; printf '#!/bin/sh\\ncase $2 in s=*) echo %s; exit;; esac;"
        f" exec /bin/sh \"$@\"\\n' {answer} > bin/sh; chmod +x bin/sh;"
        "echo 'PATH=/workspace/bin:$PATH' > ~/.profile",
    )


def test_a_file_that_is_called_up(boxd, session, tmp_path):
    """A box that claims ".." is a file must not get at the folder above DST."""
    inside(boxd, "mkdir a; echo x > pwned")
    (tmp_path / "out").mkdir()
    probe_says(boxd, "ept:")
    code, out, err = box(boxd, "cp", "s:a/..", tmp_path / "out")
    assert (code, out) == (125, "") and "not a folder" in err
    assert os.listdir(tmp_path) == ["out"]
    assert os.listdir(tmp_path / "out") == []


@pytest.mark.parametrize("name", ["a" * 256, "a" * 300, "a" * 3000])
def test_names_too_long(boxd, session, tmp_path, name):
    inside(boxd, "mkdir d; echo x > d/f; echo x > f")
    for source in ("s:d", "s:f"):
        code, out, err = box(boxd, "cp", source, f"{tmp_path}/{name}")
        assert (code, out) == (125, "") and err.endswith(": the name is too long\n"), err
    # A box can claim to have such a file.
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
    """Nor is a device, which root could replace by a file."""
    inside(boxd, "echo x > f")
    os.mkfifo(tmp_path / "p")
    (tmp_path / "l").symlink_to("p")
    code, out, err = box(boxd, "cp", "s:f", tmp_path / "p")
    assert (code, out) == (125, "") and err.endswith("p: is not a file, folder or link\n"), err
    assert stat.S_ISFIFO((tmp_path / "p").lstat().st_mode)
    # A link is replaced, not followed.
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


# Archives from a `tar` of the payload's own.


def make_hostile(boxd, archive):
    """From now on `tar` in the box is the payload's own."""
    inside(boxd, "mkdir -p bin d")
    feed = [*options(boxd), "s", "--", "sh", "-c", "cat > /workspace/evil"]
    assert clilib.box("exec", *feed, private=False, env=WHO, data=archive)[0] == 0
    inside(
        boxd,
        "printf '#!/bin/sh\\nexec cat /workspace/evil\\n' > bin/tar; chmod +x bin/tar;"
        "echo 'PATH=/workspace/bin:$PATH' > ~/.profile",
    )


SYMLINK, HARD = tarfile.SYMTYPE, tarfile.LNKTYPE
FOLDER = tarfile.DIRTYPE

HOSTILE = {
    "absolute": ([entry("{out}/pwned", b"x")], "has an absolute name"),
    "up": ([entry("d/../../out/pwned", b"x")], 'has ".." in its name'),
    "up by pax": ([entry("d/ok", b"x", path="../out/pwned")], 'has ".." in its name'),
    "long and up": ([entry("d/" + LONG + "/../../../out/pwned", b"x")], 'has ".." in its name'),
    "through a link": (
        [entry("d/l", kind=SYMLINK, link="{out}"), entry("d/l/pwned", b"x")],
        "a link or a file is in place of one of its folders",
    ),
    "through a relative link": (
        [entry("d/l", kind=SYMLINK, link="../../out"), entry("d/l/pwned", b"x")],
        "a link or a file is in place of one of its folders",
    ),
    "a folder through a link": (
        [entry("d/l", kind=SYMLINK, link="{out}"), entry("d/l/pwned", kind=FOLDER)],
        "a link or a file is in place of one of its folders",
    ),
    "a link as a folder": (
        [entry("d/l", kind=SYMLINK, link="{out}"), entry("d/l", kind=FOLDER, mode=0o777)],
        "a link or a file is in place of one of its folders",
    ),
    "hard link out": (
        [entry("d/h", kind=HARD, link="{out}/secret")],
        "is a hard link to something outside",
    ),
    "hard link up": (
        [entry("d/h", kind=HARD, link="../out/secret")],
        "is a hard link to something outside",
    ),
    "hard link by a link": (
        [entry("d/l", kind=SYMLINK, link="{out}"), entry("d/h", kind=HARD, link="d/l/secret")],
        "a link or a file is in place of one of its folders",
    ),
    "hard link to a link": (
        [entry("d/l", kind=SYMLINK, link="{out}/secret"), entry("d/h", kind=HARD, link="d/l")],
        "Operation not permitted",
    ),
    "a device": ([entry("d/null", kind=tarfile.CHRTYPE)], "a device"),
    "a disk": ([entry("d/disk", kind=tarfile.BLKTYPE)], "a device"),
    "a FIFO": ([entry("d/fifo", kind=tarfile.FIFOTYPE)], "a FIFO"),
    "sparse": ([entry("d/s", b"x", **{"GNU.sparse.major": "1"})], "a sparse file"),
    "old sparse": ([entry("d/s", b"", kind=tarfile.GNUTYPE_SPARSE)], "a sparse file"),
    "an unknown kind": ([entry("d/u", kind=b"Z")], "of an unknown kind"),
    "a folder in the place of a file": (
        [entry("d/x", kind=FOLDER), entry("d/x", b"y")],
        "a folder of this name exists",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_is_written_outside(boxd, session, tmp_path, name):
    entries, why = HOSTILE[name]
    outside = tmp_path / "out"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (outside / "secret").chmod(0o600)
    before = tree(outside)
    target = tmp_path / "target"
    target.mkdir()
    real = []
    for info, data in entries:
        info = info.replace()
        info.name = info.name.replace("{out}", str(outside))
        info.linkname = info.linkname.replace("{out}", str(outside))
        real.append((info, data))
    make_hostile(boxd, archive_of(*real, entry("d/good", b"good")))
    code, out, err = box(boxd, "cp", "s:d", target)
    assert (code, out, err[:5]) == (125, "", "box: "), err
    assert err.endswith(f": not copied: {why}\n"), err
    assert len(err.splitlines()) == 1
    assert tree(outside) == before
    assert outside.stat().st_mode & 0o777 == 0o755
    # The valid entries are unpacked, and nothing else is written anywhere.
    assert (target / "d" / "good").read_bytes() == b"good"
    assert sorted(os.listdir(tmp_path)) == ["out", "target"]
    assert (outside / "secret").stat().st_nlink == 1


def test_links_that_were_there_are_not_followed(boxd, session, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "target" / "d").mkdir(parents=True)
    (tmp_path / "target" / "d" / "l").symlink_to(tmp_path / "out")
    (tmp_path / "target" / "d" / "f").symlink_to(tmp_path / "out" / "pwned")
    inside(boxd, "mkdir -p d/l; echo x > d/l/pwned; echo y > d/f")
    code, out, err = box(boxd, "cp", "s:d", tmp_path / "target")
    assert code == 125 and "d/l" in err
    assert os.listdir(tmp_path / "out") == []
    # A link in place of a file is replaced, not followed.
    assert not (tmp_path / "target" / "d" / "f").is_symlink()
    assert (tmp_path / "target" / "d" / "f").read_text() == "y\n"


def test_no_setuid_comes_out(boxd, session, tmp_path):
    entries = [
        entry("d", kind=FOLDER, mode=0o7755),
        entry("d/s", b"x", mode=0o6755),
        entry("d/t", b"x", mode=0o1777),
    ]
    make_hostile(boxd, archive_of(*entries))
    copied(boxd, "s:d", tmp_path)
    # A single file gets the mode that the box's stat reports.
    inside(boxd, "echo x > f; printf '#!/bin/sh\\necho 6755:2:1\\n' > bin/stat; chmod +x bin/stat")
    copied(boxd, "s:f", tmp_path)
    for name, mode in [("d", 0o755), ("d/s", 0o755), ("d/t", 0o777), ("f", 0o755)]:
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == mode, name


@pytest.mark.parametrize(
    "archive, why",
    [
        (b"no archive at all" * 100, "this is not a tar archive"),
        (archive_of(entry("d/f", b"x" * 5000))[:3000], "the archive is truncated"),
        (archive_of(entry("d/f", b"x", size="-1")), "an invalid size in a pax header"),
    ],
)
def test_broken_archives(boxd, session, tmp_path, archive, why):
    make_hostile(boxd, archive)
    code, out, err = box(boxd, "cp", "s:d", tmp_path / "t")
    assert code == 125 and why in err
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_complaints_are_bounded_and_cannot_steer_a_terminal(boxd, session, tmp_path):
    entries = [entry(f"d/\x1b[31m\x9b31m{i}", kind=tarfile.FIFOTYPE) for i in range(1000)]
    make_hostile(boxd, archive_of(*entries))
    code, out, err = box(boxd, "cp", "s:d", tmp_path)
    assert code == 125 and "\x1b" not in err and "\x9b" not in err
    assert 1 < len(err.splitlines()) < 50


def test_hard_links_inside_stay(boxd, session, tmp_path):
    inside(boxd, "mkdir d; echo x > d/a; ln d/a d/b")
    copied(boxd, "s:d", tmp_path)
    assert (tmp_path / "d" / "a").stat().st_ino == (tmp_path / "d" / "b").stat().st_ino
