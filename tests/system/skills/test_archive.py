"""Uploaded ZIPs, by tests/drivers/archive_driver.c: every malicious kind is refused with its
reason, nothing is written outside the folder or beyond the limits, and what common packers write is
unpacked.
"""

import io
import os
import pathlib
import shutil
import stat
import subprocess
import zipapp
import zipfile

import boxdlib
import pytest
from ziplib import DEFLATED, STORED, Entry, archive, noise, quine
from badziplib import FINE, LIES, OVERLAPPING, VALID, WHOLE, bomb, chain, overlap_bomb

MIB = 1 << 20


def play():
    found = [path for path in sorted(boxdlib.build().rglob("archive_driver")) if path.is_file()]
    assert found, f"no archive_driver in {boxdlib.build()}"
    return found[0]


@pytest.fixture
def unpack(tmp_path):
    """unpack(bytes) returns (error or "", folder), and checks that nothing was written beside the
    folder."""
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
    """{path: (mode, content or None)} of everything below a folder; links are not followed."""
    found = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        content = path.read_bytes() if stat.S_ISREG(mode) else None
        found[path.relative_to(folder).as_posix()] = (mode, content)
    return found


@pytest.mark.parametrize("kind", LIES)
def test_a_malicious_entry_is_refused_by_name(unpack, kind):
    entries, text = LIES[kind]
    error, folder = unpack(archive(FINE, *entries))
    assert error == text
    assert tree(folder) == {}


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
    data = overlap_bomb()
    # The bomb works: another reader gets 30 MiB out of less than 100 KiB.
    with zipfile.ZipFile(io.BytesIO(data)) as reader:
        assert len(data) < 100_000
        assert sum(len(reader.read(info)) for info in reader.infolist()) > 30 * MIB
    error, folder = unpack(data)
    assert error == OVERLAPPING
    assert tree(folder) == {}


def test_the_nested_bombs_are_bombs():
    """Another reader would unpack gigabytes from one, and never reach the end of the other."""
    with zipfile.ZipFile(io.BytesIO(bomb(3))) as reader:
        assert len(reader.infolist()) == 10
        assert len(bomb(3)) < 10_000
    with zipfile.ZipFile(io.BytesIO(quine())) as reader:
        assert reader.read(reader.infolist()[0]) == quine()


@pytest.mark.parametrize("method", [STORED, DEFLATED])
@pytest.mark.parametrize("kind", [kind for kind in LIES if kind.startswith("nested")])
def test_nothing_is_written_before_archives_in_it_are_judged(unpack, kind, method):
    """However the nested archive is packed, and also after valid entries."""
    (entry,), text = LIES[kind]
    error, folder = unpack(archive(FINE, Entry(entry.name, entry.content, method)))
    # One that compresses well already exceeds the ratio by itself.
    assert error == text or (method == DEFLATED and "ratio limit" in error)
    assert tree(folder) == {}


def zipped(method=zipfile.ZIP_DEFLATED, zip64=False, **contents):
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", method) as writer:
        for name, content in contents.items():
            with writer.open(zipfile.ZipInfo(name), "w", force_zip64=zip64) as file:
                file.write(content)
    return target.getvalue()


def test_archives_in_an_archive_stay_packed(unpack, tmp_path_factory):
    """Documents, programs and libraries are archives, too."""
    base = tmp_path_factory.mktemp("inner")
    (base / "app").mkdir()
    (base / "app/__main__.py").write_text("print(1)\n" * 100)
    zipapp.create_archive(base / "app", base / "app.pyz", interpreter="/usr/bin/python3")
    xml = b"<w:t>text</w:t>" * 2000 + noise(3000).hex().encode()
    document = zipped(word=xml, styles=xml[:9999])
    contents = {
        "a.docx": document,
        "lib.jar": zipped(a=b"\xca\xfe\xba\xbe" + noise(9000), b=document),
        "stored.whl": zipped(zipfile.ZIP_STORED, a=xml, document=document),
        "stream.xlsx": zipped(zip64=True, sheet=xml),
        "app.pyz": (base / "app.pyz").read_bytes(),
        "signed.apk": bytes(archive(Entry(b"a", xml, DEFLATED), between=noise(5000))),
        "deepest.zip": chain(4),
        "empty.zip": zipped(),
        "zipfile.pyc": b"\xcb\r\r\n" + noise(500) + b"PK\x01\x02PK\x05\x06PK\x03\x04" + noise(500),
    }
    entries = [Entry(name.encode(), content, DEFLATED) for name, content in contents.items()]
    error, folder = unpack(archive(*entries))
    assert error == ""
    assert {name: content for name, (_, content) in tree(folder).items()} == contents


def test_only_the_right_to_run_is_kept_of_modes(unpack):
    """No setuid, setgid or sticky bit, not writable for others, readable for the owner."""
    modes = {b"s": 0o106755, b"g": 0o102755, b"t": 0o101777, b"w": 0o100666, b"n": 0o100000}
    entries = [Entry(name, b"x", mode=mode) for name, mode in modes.items()]
    error, folder = unpack(archive(*entries, Entry(b"d/", mode=0o047777), Entry(b"d/x", b"x")))
    assert error == ""
    kept = {name: stat.S_IMODE(mode) for name, (mode, _) in tree(folder).items()}
    files = {"s": 0o755, "g": 0o755, "t": 0o755, "w": 0o644, "n": 0o644, "d/x": 0o644}
    assert kept == {**files, "d": 0o755}


# --- output of common packers ---


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
    """Written to a stream that cannot seek: sizes follow the data."""

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


# --- compared with the reference ---

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
    """Our errors may add the entry or the reason."""
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
