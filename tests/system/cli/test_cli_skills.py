"""`box skill` against a real boxd, as root and as an ordinary user: skills are installed from
folders and ZIPs, shown, edited and removed. Refusals name the reason, control characters of a
package never reach the terminal, and nothing is left behind.
"""

import json
import os
import pathlib
import re
import stat
import zipfile

import clilib
import nativelib
import pytest
import ttylib
from clientlib import INSTANCE
from packagelib import RED, entry, package, zipped

WHO = {"LANGBOT_BOX_TRUSTED_INSTANCE_UUID": INSTANCE}
NASTY = f"{RED}red\x07 \u009b2J\u202e end"

pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.fixture(scope="module")
def client(place):
    with nativelib.dialled(place) as made:
        yield made


@pytest.fixture
def skill(client, tmp_path):
    """Runs `box skill`; removes all skills at the end."""
    drafts = tmp_path / "drafts"
    drafts.mkdir()

    def run(*args, env=None, **more):
        found = {**WHO, "TMPDIR": str(drafts), **(env or {})}
        command = ["skill", "--workspace", "ws1", "--endpoint", client.boxd.url, *map(str, args)]
        return clilib.box(*command, private=False, env=found, **more)

    run.drafts = drafts
    yield run
    for found in client.ask("box_list_skills")["skills"]:
        client.ask("box_delete_skill", {"name": found["name"]})


def names(skill):
    code, out, err = skill("ls", "--json")
    assert (code, err) == (0, "")
    return sorted(found["name"] for found in json.loads(out))


def assert_plain(text):
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text), text


# -- add


def test_add_folder(skill, tmp_path, place):
    folder = package(tmp_path, "one")
    (folder / "requirements.txt").write_text("x\n")
    (folder / ".git").mkdir()
    (folder / ".git" / "link").symlink_to("/etc")
    assert skill("add", folder) == (0, "one\n", "")
    assert skill("cat", "one", "SKILL.md") == (0, entry("one"), "")
    code, out, _ = skill("files", "one", "scripts")
    assert code == 0 and re.findall(r"scripts/\S+", out) == ["scripts/run.sh", "scripts/y.py"]
    code, out, err = skill("ls")
    assert (code, err) == (0, "")
    head, row = out.splitlines()
    assert head.split() == ["NAME", "UPDATED", "PYTHON", "DESCRIPTION"]
    assert re.fullmatch(r"one +20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d yes +does it", row)
    shown = json.loads(skill("show", "one", "--json")[1])
    assert shown["name"] == "one" and "warnings" not in shown
    assert pathlib.Path(shown["package_root"]).name == "one"
    root = pathlib.Path(shown["package_root"])
    assert stat.S_IMODE((root / "scripts" / "run.sh").stat().st_mode) & 0o111
    assert not (root / ".git").exists()


def test_first_request_of_a_store(place, tmp_path):
    """The archive is sent to a box-skills that is started for this request."""
    folder = package(tmp_path, "early")
    with place.start() as boxd:
        boxd.wait_served()
        args = ["skill", "add", "--workspace", "early", "--endpoint", boxd.url, str(folder)]
        assert clilib.box(*args, private=False, env=WHO) == (0, "early\n", "")
        args[1:2] = ["rm", "-y"]
        assert clilib.box(*args[:-1], "early", private=False, env=WHO) == (0, "early\n", "")


def test_add_again(skill, tmp_path):
    folder = package(tmp_path, "twice")
    assert skill("add", folder)[0] == 0
    code, out, err = skill("add", folder)
    assert (code, out) == (125, "")
    assert err.startswith("box: BoxValidationError: Skill directory already exists: ")


def test_add_by_a_relative_path(skill, tmp_path):
    folder = package(tmp_path, "here")
    assert skill("add", ".", cwd=folder) == (0, "here\n", "")
    assert skill("add", "--name", "other", "../here/", cwd=folder)[0] == 0
    roots = {found["package_root"] for found in json.loads(skill("ls", "--json")[1])}
    assert {pathlib.Path(root).name for root in roots} == {"here", "other"}


@pytest.mark.parametrize("top", ["", "pdf-main/"])
def test_add_zip(skill, tmp_path, top):
    """The folder is named after the skill, as the format requires, whatever the ZIP is called."""
    files = {f"{top}SKILL.md": entry("pdf"), f"{top}a/b.txt": "text"}
    archive = zipped(tmp_path / "download (1).zip", files)
    code, out, err = skill("check", archive)
    assert (code, err) == (1 if top else 0, "")
    said = "name: must be the name of the package's folder" if top else "conforms"
    assert out == f"pdf: {said}\n"
    assert skill("add", archive) == (0, "pdf\n", "")
    assert skill("cat", "pdf", "a/b.txt") == (0, "text", "")
    assert skill("check", "pdf") == (0, "pdf: conforms\n", "")


def test_suffix(skill, tmp_path):
    code, out, err = skill("add", "--suffix", "v2", package(tmp_path, "named"))
    assert (code, out) == (0, "named\n")
    assert err == "box: warning: named: name: must be the name of the package's folder\n"
    shown = json.loads(skill("show", "named", "--json")[1])
    assert shown["package_root"].endswith("/named-v2")


def test_warnings(skill, tmp_path):
    folder = package(tmp_path, "Strange_One", more="colour: blue\n")
    wanted = [
        "Strange_One: colour: is not a field of the format",
        "Strange_One: name: must be lowercase",
        "Strange_One: name: only letters, digits and hyphens are allowed",
    ]
    warned = "".join(f"box: warning: {line}\n" for line in wanted)
    code, out, err = skill("add", "--dry-run", folder)
    assert (code, err) == (0, warned) and out.split() == ["Strange_One", "."]
    assert names(skill) == []
    assert skill("add", folder) == (0, "Strange_One\n", warned)
    told = "".join(f"{line}\n" for line in wanted)
    assert skill("check", "Strange_One") == (1, told, "")
    assert skill("check", folder) == (1, told, "")
    code, out, err = skill("show", "Strange_One")
    assert code == 0 and "Warnings:      colour: is not a field of the format\n" in out


def test_several(skill, tmp_path):
    for name in ("a", "b", "c"):
        package(tmp_path / "repo" / "skills", name)
    repo = tmp_path / "repo"
    code, out, err = skill("add", repo)
    assert (code, out) == (125, "")
    lines = err.splitlines()
    assert lines[0] == "box: several skills found: choose with --from, or use --all"
    assert [line.split() for line in lines[1:]] == [[n, f"skills/{n}"] for n in "abc"]
    assert names(skill) == []

    assert skill("add", "--from", "skills/b/", repo) == (0, "b\n", "")
    assert skill("add", "--from", "./skills/a", "--from", "skills/c", repo) == (0, "a\nc\n", "")
    assert names(skill) == ["a", "b", "c"]
    assert skill("rm", "-y", "a", "b", "c") == (0, "a\nb\nc\n", "")
    assert skill("add", "--all", repo) == (0, "a\nb\nc\n", "")


def test_one_in_another(skill, tmp_path):
    """Whatever it contains, it counts as one package."""
    outer = package(tmp_path, "outer")
    package(outer, "inner")
    assert skill("add", "--dry-run", outer)[1].split() == ["outer", "."]
    assert skill("add", "--from", ".", outer) == (0, "outer\n", "")
    assert names(skill) == ["outer"]


def test_from_nowhere(skill, tmp_path):
    said = 'box: --from: no skill in "nowhere"\n'
    assert skill("add", "--from", "nowhere", package(tmp_path, "x")) == (125, "", said)
    said = "box: skill add: --from and --all cannot be combined (see box skill add --help)\n"
    assert skill("add", "--all", "--from", "x", tmp_path) == (125, "", said)


# -- refusals


@pytest.mark.parametrize("kind", ["link", "fifo", "name", "many", "large"])
def test_folder_is_refused(skill, tmp_path, kind):
    folder = package(tmp_path, "bad")
    if kind == "link":
        (folder / "scripts" / "secret").symlink_to("/etc/shadow")
        said = "bad/scripts/secret: is a symbolic link, which is not allowed in a skill"
    elif kind == "fifo":
        os.mkfifo(folder / "pipe")
        said = "bad/pipe: is a FIFO, which is not allowed in a skill"
    elif kind == "name":
        (folder / f"{RED}x").write_text("")
        said = "Archive contains an unsafe path: bad/\\x1b[31mx (control character)"
    elif kind == "many":
        for i in range(513):
            (folder / f"f{i}").write_text("")
        said = "bad: has more than 512 entries, the limit of a skill"
    else:
        with open(folder / "large", "wb") as large:
            large.truncate((16 << 20) + 1)
        said = "bad/large: is larger than 16 MiB"
    refused = (125, "", f"box: BoxValidationError: {said}\n")
    assert skill("add", folder) == refused
    # Refused without a runtime.
    assert clilib.box("skill", "add", "--endpoint", "ws://127.0.0.1:9", str(folder)) == refused
    assert names(skill) == []


@pytest.mark.parametrize(
    "name, said",
    [
        ("../up", "Archive contains an unsafe path: ../up"),
        ("/etc/x", "Archive contains an unsafe path: /etc/x"),
        ("a\\b", "Archive contains an unsafe path: a\\b (backslash)"),
        (f"{RED}x", "Archive contains an unsafe path: \\x1b[31mx (control character)"),
        ("skill.md", "Archive contains a duplicate path: skill.md"),
    ],
)
def test_zip_is_refused(skill, tmp_path, name, said):
    archive = zipped(tmp_path / "x.zip", {"SKILL.md": entry("x"), name: "y"})
    assert skill("add", archive) == (125, "", f"box: BoxValidationError: {said}\n")
    assert names(skill) == []


def test_zip_with_a_link(skill, tmp_path):
    archive = tmp_path / "x.zip"
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("SKILL.md", entry("x"))
        link = zipfile.ZipInfo("secret")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        made.writestr(link, "/etc/shadow")
    said = "box: BoxValidationError: Archive contains a symbolic link: secret\n"
    assert skill("add", archive) == (125, "", said)


def test_zip_that_lies(skill, tmp_path):
    """Faults that only show during unpacking are refused by the runtime, which also names the
    entry."""
    archive = zipped(tmp_path / "x.zip", {"SKILL.md": entry("x"), "data": "some text " * 99})
    held = bytearray(archive.read_bytes())
    at = held.index(b"data") + 4
    held[at + 3] ^= 0xFF
    archive.write_bytes(held)
    code, out, err = skill("add", archive)
    assert (code, out) == (125, "")
    assert err.startswith("box: BoxValidationError: ") and "data" in err
    assert names(skill) == []


def test_no_skill_in_it(skill, tmp_path):
    (tmp_path / "empty").mkdir()
    code, out, err = skill("add", tmp_path / "empty")
    assert (code, out) == (125, "") and "No SKILL.md found in the uploaded archive" in err
    code, out, err = skill("add", tmp_path / "none")
    assert (code, out, err) == (125, "", f"box: {tmp_path}/none: No such file or directory\n")
    (tmp_path / "x.zip").write_text("no archive")
    said = "box: BoxValidationError: Uploaded file must be a valid .zip archive\n"
    assert skill("add", tmp_path / "x.zip") == (125, "", said)


# -- untrusted text


def test_hostile_texts(skill, client, tmp_path):
    folder = package(tmp_path, "nice", description=NASTY, instructions=f"{NASTY}\n\tindented\r\n")
    (folder / "raw").write_text(f"{NASTY}\n")
    assert skill("add", folder)[0] == 0
    for args in (["ls"], ["show", "nice"], ["ls", "--json"], ["show", "nice", "--json"]):
        code, out, err = skill(*args)
        assert code == 0 and "31mred" in out, args
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", out + err), args
    assert json.loads(skill("show", "nice", "--json")[1])["description"] == NASTY
    # A file gets the text unchanged; on a terminal no control sequence has an effect.
    assert skill("cat", "nice", "raw")[1] == f"{NASTY}\n"
    args = ["skill", "cat", "--workspace", "ws1", "--endpoint", client.boxd.url, "nice", "raw"]
    with ttylib.Pty(*args, env=WHO) as pty:
        assert pty.end() == 0
        assert pty.out.decode() == "?[31mred? ?2J? end\r\n"


def test_hostile_file_names(skill, client, tmp_path):
    skill("add", package(tmp_path, "odd"))
    root = pathlib.Path(client.ask("box_get_skill", {"name": "odd"})["skill"]["package_root"])
    (root / f"{NASTY}.txt").write_text("x")
    code, out, err = skill("files", "odd")
    assert (code, err) == (0, "") and "?[31mred? ?2J? end.txt\n" in out
    assert_plain(out.replace("\n", ""))


def test_fits_the_terminal(skill, client, tmp_path):
    skill("add", package(tmp_path, "wide", description="技能 " * 100))
    args = ["skill", "ls", "--workspace", "ws1", "--endpoint", client.boxd.url]
    with ttylib.Pty(*args, env=WHO, size=(24, 80)) as pty:
        assert pty.end() == 0
        row = pty.out.decode().splitlines()[1]
    assert row.endswith("...")
    assert 76 <= sum(2 if c in "技能" else 1 for c in row) <= 80


def test_broken_packages_are_told(skill, client, tmp_path):
    skill("add", package(tmp_path, "broken"))
    root = pathlib.Path(client.ask("box_get_skill", {"name": "broken"})["skill"]["package_root"])
    (root / "SKILL.md").write_text("---\nname: [\n---\n")
    code, out, err = skill("ls")
    assert code == 0 and len(out.splitlines()) == 1
    assert err.startswith(f"box: warning: skipped: {root}: ")
    for command in ("show", "check"):
        code, out, err = skill(command, "broken")
        assert (code, out) == (125, "")
        assert err.startswith('box: BoxValidationError: Skill "broken" not found: ')
    (root / "SKILL.md").write_text(entry("broken"))


# -- files and cat


def test_files(skill, tmp_path):
    folder = package(tmp_path, "full")
    (folder / ".hidden").write_text("h")
    skill("add", folder)
    code, out, _ = skill("files", "full")
    rows = [line.split() for line in out.splitlines()]
    assert rows[0] == ["SIZE", "PATH"]
    assert rows[1][1] == "SKILL.md" and rows[2] == ["-", "scripts/"] and len(rows) == 3
    assert ".hidden" in skill("files", "-a", "full")[1]
    listed = json.loads(skill("files", "full", "scripts", "--json")[1])
    assert [found["path"] for found in listed] == ["scripts/run.sh", "scripts/y.py"]


@pytest.mark.parametrize("path", ["../../x", "/etc/passwd", "none", "scripts"])
def test_cat_what_is_not_there(skill, tmp_path, path):
    skill("add", package(tmp_path, "closed"))
    code, out, err = skill("cat", "closed", path)
    assert (code, out) == (125, "") and err.startswith("box: BoxValidationError: ")


@pytest.mark.parametrize("command", ["show", "files", "check", "edit"])
def test_unknown_skill(skill, command):
    said = 'box: BoxValidationError: Skill "none" not found\n'
    assert skill(command, "none", env={"EDITOR": "touch"}) == (125, "", said)


# -- edit


def test_edit(skill, tmp_path):
    skill("add", package(tmp_path, "draft"))
    seen = tmp_path / "seen"
    look = f'{{ stat -c %a "$1" "$(dirname "$1")"; basename "$1"; }} > {seen}'
    editor = {"VISUAL": "", "EDITOR": f'f() {{ {look}; sed -i s/Do/Undo/ "$1"; }}; f'}
    assert skill("edit", "draft", env=editor) == (0, "", "")
    assert skill("cat", "draft", "SKILL.md")[1] == entry("draft", instructions="Undo it.\n")
    assert seen.read_text().split() == ["600", "700", "SKILL.md"]
    assert skill("edit", "draft", env=editor)[0] == 0
    said = "box: nothing was changed\n"
    assert skill("edit", "draft", "scripts/y.py", env={"EDITOR": "true"}) == (0, "", said)
    assert not list(skill.drafts.iterdir())


def test_edit_makes_a_new_file(skill, tmp_path):
    skill("add", package(tmp_path, "fresh"))
    editor = {"EDITOR": "f() { echo new > \"$1\"; }; f"}
    assert skill("edit", "fresh", "docs/deep/new.md", env=editor) == (0, "", "")
    assert skill("cat", "fresh", "docs/deep/new.md") == (0, "new\n", "")
    assert skill("edit", "fresh", "docs/none.md", env={"EDITOR": "true"})[0] == 0
    assert "none.md" not in skill("files", "fresh", "docs")[1]
    assert skill("edit", "fresh", "docs", env=editor) == (125, "", "box: docs: is a folder\n")
    assert not list(skill.drafts.iterdir())


def test_editor_that_fails(skill, tmp_path):
    skill("add", package(tmp_path, "kept"))
    editor = {"EDITOR": "f() { echo bad > \"$1\"; exit 3; }; f"}
    code, out, err = skill("edit", "kept", env=editor)
    assert (code, out) == (125, "") and err.endswith(" exited with 3: nothing was written\n")
    assert skill("cat", "kept", "SKILL.md")[1] == entry("kept")
    assert not list(skill.drafts.iterdir())


@pytest.mark.parametrize("path", ["SKILL.md", "new.txt"])
def test_changed_meanwhile(skill, client, tmp_path, path):
    """The edited text is kept in a file, and the message names it."""
    skill("add", package(tmp_path, "shared"))
    root = client.ask("box_get_skill", {"name": "shared"})["skill"]["package_root"]
    script = f'echo more >> "$1"; echo theirs >> {root}/{path}'
    code, out, err = skill("edit", "shared", path, env={"EDITOR": f"f() {{ {script}; }}; f"})
    assert (code, out) == (125, "")
    said = f"{path} of shared was changed by somebody else meanwhile: nothing was written"
    first, second = err.splitlines()
    assert first == f"box: {said}"
    kept = pathlib.Path(second.removeprefix("box: your text is in "))
    assert kept.read_text().endswith("more\n") and stat.S_IMODE(kept.stat().st_mode) == 0o600
    held = pathlib.Path(root, path).read_text()
    assert held.endswith("theirs\n") and "more" not in held


def test_edit_that_would_lose_the_skill(skill, tmp_path):
    skill("add", package(tmp_path, "alive"))
    for bad in ("printf -- '---\\nname: [\\n---\\n'", "printf '\\377'"):
        editor = {"EDITOR": f"f() {{ {bad} > \"$1\"; }}; f"}
        code, out, err = skill("edit", "alive", env=editor)
        assert (code, out) == (125, "") and "box: your text is in " in err
    assert skill("cat", "alive", "SKILL.md")[1] == entry("alive")
    editor = {"EDITOR": "sed -i 's/name: alive/name: Other/'"}
    code, out, err = skill("edit", "alive", "./SKILL.md", env=editor)
    assert (code, out) == (0, "")
    assert "box: warning: the skill is renamed to Other\n" in err
    assert "box: warning: alive: name: must be lowercase\n" in err
    assert names(skill) == ["Other"]


def test_too_long_to_write(skill, tmp_path):
    skill("add", package(tmp_path, "long"))
    editor = {"EDITOR": "f() { head -c 1048577 /dev/zero | tr '\\0' a > \"$1\"; }; f"}
    code, out, err = skill("edit", "long", "x", env=editor)
    assert (code, out) == (125, "") and "File too large" in err and "your text is in" in err


# -- rm


def test_rm_needs_a_yes(skill, client, tmp_path):
    skill("add", package(tmp_path, "dear"))
    said = "box: skill rm: stdin is not a terminal, cannot ask for confirmation: use -y (see box skill rm --help)\n"
    assert skill("rm", "dear") == (125, "", said)
    args = ["skill", "rm", "--workspace", "ws1", "--endpoint", client.boxd.url, "dear"]
    with ttylib.Pty(*args, env=WHO) as pty:
        pty.until(b"Remove skill dear with all files? [y/N] ").type(b"n\n")
        assert pty.end() == 125 and b"nothing was removed" in pty.out
    assert names(skill) == ["dear"]
    with ttylib.Pty(*args, env=WHO) as pty:
        pty.until(b"[y/N] ").type(b"y\n")
        assert pty.end() == 0
    assert names(skill) == []


def test_rm_goes_on(skill, tmp_path):
    skill("add", package(tmp_path, "last"))
    said = 'box: BoxValidationError: Skill "none" not found\n'
    assert skill("rm", "-y", "none", "last") == (125, "last\n", said)
    assert names(skill) == []


# -- in boxes


def test_seen_by_a_command(skill, client, tmp_path):
    skill("add", package(tmp_path, "tool"))
    there = ["--workspace", "ws1", "--endpoint", client.boxd.url]
    command = ["--skill", "tool", "--", "sh", "-c", "python3 .skills/tool/scripts/y.py"]
    assert clilib.box("run", *there, *command, env=WHO) == (0, "tool\n", "")
    assert clilib.box("create", *there, "b", env=WHO)[0] == 0
    command = ["--skill=tool", "b", ".skills/tool/scripts/run.sh"]
    assert clilib.box("exec", *there, *command, env=WHO) == (0, "ran\n", "")
    said = 'box: BoxValidationError: Skill "none" not found\n'
    assert clilib.box("exec", *there, "--skill", "none", "b", "true", env=WHO) == (125, "", said)
    assert clilib.box("rm", *there, "b", env=WHO)[0] == 0


@pytest.mark.parametrize(
    "args", [["ls"], ["show", "out"], ["cat", "out", "SKILL.md"], ["check", "out"]]
)
def test_full_disk(skill, tmp_path, args):
    skill("add", package(tmp_path, "out"))
    with open("/dev/full", "w") as full:
        code, _, err = skill(*args, stdout=full)
    assert (code, err) == (125, "box: stdout: No space left on device\n")
