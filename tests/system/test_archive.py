"""Uploaded ZIPs, by tests/unit/archive_play.c: every malicious kind is refused by name,
nothing lies outside of the folder or above the limits; what packers write is unpacked."""

import io
import os
import pathlib
import shutil
import stat
import struct
import subprocess
import zipfile

import boxlib
import pytest
import ziplib
from ziplib import DEFLATED, Entry, archive, noise

MIB = 1 << 20
VALID = "Uploaded file must be a valid .zip archive"
UNSAFE = "Archive contains an unsafe path"
FINE = Entry(b"fine.txt", b"hello " * 100, DEFLATED)


def play():
    found = [path for path in sorted(boxlib.build().rglob("archive_play")) if path.is_file()]
    assert found, f"no archive_play in {boxlib.build()}"
    return found[0]


@pytest.fixture
def unpack(tmp_path):
    """unpack(bytes) gives (error or "", folder), and sees that nothing lies beside the folder."""
    folder = tmp_path / "out"
    folder.mkdir()
    upload = tmp_path / "upload.zip"

    def run(data):
        upload.write_bytes(data)
        done = subprocess.run(
            [play(), "unpack", upload, folder], capture_output=True, text=True, timeout=90
        )
        assert done.returncode in (0, 1), done.stderr
        kind, text, _ = done.stdout.splitlines()
        assert kind == ("BoxValidationError" if text else "ok"), done.stdout
        assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "upload.zip"]
        return text, folder

    return run


def tree(folder):
    """{path: (mode, content or None)} of all below a folder, links not followed."""
    found = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        content = path.read_bytes() if stat.S_ISREG(mode) else None
        found[path.relative_to(folder).as_posix()] = (mode, content)
    return found


def zip64_extra(size, packed):
    return struct.pack("<HHQQ", 1, 16, size, packed)


def nested(levels):
    """Ten archives in each archive, and zeros at last: 8 GiB for three levels."""
    data = archive(Entry(b"zeros", bytes(8 * MIB), DEFLATED))
    for level in range(levels):
        data = archive(*(Entry(b"%d-%d.zip" % (level, n), data, DEFLATED) for n in range(10)))
    return data


LIES = {
    # kind: (entries, what the error says)
    "absolute": ([Entry(b"/etc/cron.d/x", b"x")], f"{UNSAFE}: /etc/cron.d/x"),
    "up": ([Entry(b"../x", b"x")], f"{UNSAFE}: ../x"),
    "up inside": ([Entry(b"a/../../x", b"x")], f"{UNSAFE}: a/../../x"),
    "empty": ([Entry(b"", b"x")], "Archive contains an unsafe empty or NUL path: (entry 2)"),
    "NUL": ([Entry(b"x\0.md", b"x")], "Archive contains an unsafe empty or NUL path: x\\x00.md"),
    "backslash": ([Entry(b"..\\x", b"x")], f"{UNSAFE}: ..\\x (backslash)"),
    "drive": ([Entry(b"C:/x", b"x")], f"{UNSAFE}: C:/x"),
    "control": ([Entry(b"a\x1b[2Jb", b"x")], f"{UNSAFE}: a\\x1b[2Jb (control character)"),
    "no UTF-8": ([Entry(b"\xe9", b"x")], f"{UNSAFE}: \\xe9 (not UTF-8)"),
    "deep": ([Entry(b"d/" * 32 + b"x", b"x")], f"{UNSAFE}: {'d/' * 32}x (too deep)"),
    "long": ([Entry(b"n" * 256, b"x")], f"{UNSAFE}: {'n' * 255}... (component too long)"),
    "twice": ([Entry(b"x", b"1"), Entry(b"x", b"2")], "Archive contains a duplicate path: x"),
    "case": (
        [Entry(b"SKILL.md", b"1"), Entry(b"skill.MD", b"2")],
        "Archive contains a duplicate path: skill.MD",
    ),
    "file as folder": (
        [Entry(b"x", b"1"), Entry(b"x/y", b"2")],
        "Archive contains a duplicate path: x/y",
    ),
    "link": (
        [Entry(b"l", b"/etc", mode=0o120777), Entry(b"l/passwd", b"x")],
        "Archive contains a symbolic link: l",
    ),
    "FIFO": ([Entry(b"p", mode=0o010644)], "Archive contains a non-regular entry: p"),
    "device": ([Entry(b"d", mode=0o060644)], "Archive contains a non-regular entry: d"),
    "encrypted": ([Entry(b"e", b"x", flags=1)], "Archive contains an encrypted entry: e"),
    "bzip2": (
        [Entry(b"b", b"x", method=12)],
        "Archive entry has a compression that is not supported: b",
    ),
    "other name": ([Entry(b"a", b"x", local={"name": b"b"})], f"{VALID}: its headers disagree: a"),
    "other size": ([Entry(b"a", b"x", local={"size": 9})], f"{VALID}: its headers disagree: a"),
    "other method": (
        [Entry(b"a", b"x", local={"method": 8})],
        f"{VALID}: its headers disagree: a",
    ),
    "other flags": ([Entry(b"a", b"x", local={"flags": 8})], f"{VALID}: its headers disagree: a"),
    "descriptor missing": (
        [Entry(b"a", b"x", flags=8, local={"crc": 0, "packed": 0, "size": 0})],
        f"{VALID}: its headers disagree: a",
    ),
    "descriptor lies": (
        [Entry(b"a", b"x", flags=8, descriptor=(0, 1, 1))],
        f"{VALID}: its headers disagree: a",
    ),
    "zip64 lies": (
        [Entry(b"a", b"x", size=0xFFFFFFFF, extra=zip64_extra(1 << 40, 1))],
        f"{VALID}: ZIP64 is not supported: a",
    ),
    "zip64 in the local header": (
        [Entry(b"a", b"x", local={"extra": zip64_extra(1 << 40, 1)})],
        f"{VALID}: ZIP64 is not supported: a",
    ),
    "checksum": ([Entry(b"a", b"x", crc=1)], f"{VALID}: wrong checksum: a"),
    "larger than it says": (
        [Entry(b"a", b"x" * 999, DEFLATED, size=998)],
        "Archive entry size changed while extracting: a",
    ),
    "smaller than it says": (
        [Entry(b"a", b"x" * 999, DEFLATED, size=1000)],
        "Archive entry size changed while extracting: a",
    ),
    "bomb that says it is none": (
        [Entry(b"a", bytes(64 * MIB), DEFLATED, size=100)],
        "Archive entry size changed while extracting: a",
    ),
    "ratio": (
        [Entry(b"a", bytes(8 * MIB), DEFLATED)],
        "Archive entry exceeds the compression ratio limit: a",
    ),
    "large entry": (
        [Entry(b"a", noise(MIB) * 17, DEFLATED)],
        "Archive entry exceeds the uncompressed size limit: a",
    ),
    "large sum": (
        [Entry(b"a%d" % n, (noise(9000, n) + bytes(91000)) * 150, DEFLATED) for n in range(5)],
        "Archive exceeds the total uncompressed size limit: a4",
    ),
    "entries": (
        [Entry(b"%d" % n) for n in range(512)],
        "Archive contains too many entries (maximum 512)",
    ),
    "65,535 entries": (
        [Entry(b"%d" % n) for n in range(65534)],
        "Archive contains too many entries (maximum 512)",
    ),
    "folders": (
        [Entry(b"%d/" % n * 30 + b"x") for n in range(50)],
        "Archive contains too many folders (maximum 1024): " + "34/" * 30 + "x",
    ),
}


@pytest.mark.parametrize("kind", LIES)
def test_a_malicious_entry_is_refused_by_name(unpack, kind):
    entries, text = LIES[kind]
    error, folder = unpack(archive(FINE, *entries))
    assert error == text
    left = tree(folder)
    # Faults that only the data show are found after the entries before them are there.
    assert set(left) <= {"fine.txt"}, left


WHOLE = {
    "nothing": (b"PK", VALID),
    "text": (b"not a zip\n" * 10, VALID),
    "prepended": (
        archive(FINE, before=b"#!/bin/sh\n"),
        f"{VALID}: data outside of entries, before: fine.txt",
    ),
    "program before": (
        b"#!/bin/sh\n" + archive(FINE),
        f"{VALID}: its directory is not where it should be",
    ),
    "between": (
        archive(FINE, between=b"hidden"),
        f"{VALID}: data between its entries and its directory",
    ),
    "appended": (archive(FINE, after=b"x"), f"{VALID}: data after its end"),
    "an end in the comment": (
        archive(FINE, comment=ziplib.end_bytes(0, 0, 0)),
        f"{VALID}: it has two ends",
    ),
    "split": (archive(FINE, disk=1), f"{VALID}: part of a split archive"),
    "fewer than there are": (
        archive(FINE, Entry(b"x"), count=1),
        f"{VALID}: its directory has more than it counts",
    ),
    "65,535 by word": (
        archive(FINE, count=65535),
        "Archive contains too many entries (maximum 512)",
    ),
    "one place for two": (
        archive(FINE, Entry(b"fine.tx2", FINE.content, DEFLATED, offset=0)),
        f"{VALID}: its headers disagree: fine.tx2",
    ),
}


@pytest.mark.parametrize("kind", WHOLE)
def test_a_malicious_archive_is_refused(unpack, kind):
    data, text = WHOLE[kind]
    error, folder = unpack(data)
    assert error == text
    assert tree(folder) == {}


def test_an_archive_that_is_cut_is_refused_wherever(unpack):
    data = archive(Entry(b"a", b"hello"), Entry(b"b/c", b"hello hello", DEFLATED))
    for size in range(1, len(data), 7):
        error, folder = unpack(data[:size])
        assert error.startswith(VALID)
        assert tree(folder) == {}


def test_files_that_share_their_data_are_refused(unpack):
    data = ziplib.overlap_bomb(files=30, kernel_size=MIB)
    # It is a working bomb: another reader gets 30 MiB out of less than 100 KiB.
    with zipfile.ZipFile(io.BytesIO(data)) as reader:
        assert len(data) < 100_000
        assert sum(len(reader.read(info)) for info in reader.infolist()) > 30 * MIB
    error, folder = unpack(data)
    assert error == "Archive contains overlapping entries: f1"
    assert tree(folder) == {}


def test_archives_in_an_archive_stay_packed(unpack):
    error, folder = unpack(nested(3))
    assert error == ""
    assert list(tree(folder)) == [f"2-{number}.zip" for number in range(10)]
    assert sum(len(content) for _, content in tree(folder).values()) < MIB


# --- what packers write ---


def fill(folder):
    (folder / "pkg/scripts").mkdir(parents=True)
    (folder / "pkg/SKILL.md").write_text("---\nname: pkg\n---\n" + "text " * 1000)
    (folder / "pkg/empty").touch()
    (folder / "pkg/données.txt").write_text("é")
    (folder / "pkg/noise").write_bytes(noise(300_000))
    (folder / "pkg/scripts/run.sh").write_text("#!/bin/sh\necho hi\n")
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() or path.suffix == ".sh" else 0o644)


class Pipe(io.RawIOBase):
    """A stream that cannot be gone back in: sizes follow the data."""

    def __init__(self):
        self.data = b""

    def writable(self):
        return True

    def write(self, data):
        self.data += bytes(data)
        return len(data)


def by_python(folder, target, method=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(target, "w", method) as writer:
        for path in sorted(folder.rglob("*")):
            writer.write(path, path.relative_to(folder))
        writer.comment = b"84e0a6f84e0a6f84e0a6f84e0a6f84e0a6f84e0a6f"


def pack(packer, folder, target):
    if packer == "python":
        by_python(folder, target)
    elif packer == "stored":
        by_python(folder, target, zipfile.ZIP_STORED)
    elif packer == "streamed":
        pipe = Pipe()
        by_python(folder, pipe)
        target.write_bytes(pipe.data)
    elif packer == "git":
        git = ["git", "-c", "user.name=x", "-c", "user.email=x@x", "-C", folder]
        for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
            subprocess.run([*git, *words], check=True, timeout=30)
        subprocess.run([*git, "archive", "-o", target, "HEAD"], check=True, timeout=30)
        shutil.rmtree(folder / ".git")
    else:
        words = [packer, "-qr", target, "."] if packer == "zip" else [packer, "a", target, "."]
        subprocess.run(words, check=True, cwd=folder, timeout=30, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize("packer", ["python", "stored", "streamed", "git", "zip", "7z"])
def test_what_packers_write_is_unpacked(tmp_path_factory, unpack, packer):
    if packer in ("git", "zip", "7z") and not shutil.which(packer):
        pytest.skip(f"no {packer}")
    base = tmp_path_factory.mktemp("packed")
    folder = base / "tree"
    fill(folder)
    pack(packer, folder, base / "x.zip")
    error, out = unpack((base / "x.zip").read_bytes())
    assert error == ""
    assert tree(out) == tree(folder)


# --- beside the reference ---

REFERENCE = """
import sys, tempfile
from langbot_plugin.box.skill_store import BoxSkillStore
with tempfile.TemporaryDirectory() as folder:
    for path in sys.argv[1:]:
        try:
            data = open(path, "rb").read()
            target = tempfile.mkdtemp(dir=folder)
            BoxSkillStore({})._extract_uploaded_skill_to_temp(data, target)
            print("ok")
        except Exception as error:
            print(str(error).replace(chr(10), " "))
"""


def test_what_the_reference_refuses_is_refused_in_its_words(tmp_path_factory, unpack):
    """Ours may say more behind them: which entry, or why."""
    kinds = ["absolute", "up", "up inside", "drive", "twice", "link", "FIFO", "device", "ratio"]
    kinds += ["large entry", "large sum", "entries", "checksum"]
    venv = os.environ.get("BOX_VENV_OLD")
    if not venv:
        pytest.skip("BOX_VENV_OLD names no client")
    base = tmp_path_factory.mktemp("lies")
    uploads = []
    for number, kind in enumerate(kinds):
        uploads.append(base / f"{number}.zip")
        uploads[-1].write_bytes(archive(FINE, *LIES[kind][0]))
    python = pathlib.Path(venv) / "bin/python"
    done = subprocess.run(
        [python, "-c", REFERENCE, *uploads], capture_output=True, text=True, timeout=90
    )
    theirs = done.stdout.splitlines()
    assert len(theirs) == len(kinds), done.stderr
    for kind, upload, text in zip(kinds, uploads, theirs, strict=True):
        error, folder = unpack(upload.read_bytes())
        assert text != "ok" and error.startswith(text), (kind, text, error)
        (folder / "fine.txt").unlink(missing_ok=True)
