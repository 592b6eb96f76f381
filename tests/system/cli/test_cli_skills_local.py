"""`box skill` without a runtime: checks of folders, help, and errors where a runtime is needed."""

import clilib
import pytest
from packagelib import RED, package


# -- check


def test_check_needs_no_runtime(tmp_path):
    good = package(tmp_path, "good")
    nowhere = {"BOX_ENDPOINT": "ws://127.0.0.1:9"}
    assert clilib.box("skill", "check", str(good), env=nowhere) == (0, "good: conforms\n", "")
    assert clilib.box("skill", "check", ".", env=nowhere, cwd=good)[0] == 0
    (good / "SKILL.md").write_text("no front matter\n")
    said = "good: front matter: is required\n"
    assert clilib.box("skill", "check", str(good), env=nowhere) == (1, said, "")
    (good / "SKILL.md").write_text(f"---\nname: \"{RED[1:]}\n---\n")
    code, out, err = clilib.box("skill", "check", str(good), env=nowhere)
    assert (code, err) == (1, "") and out.startswith(f"{good}: ")
    (good / "SKILL.md").unlink()
    (good / "SKILL.md").symlink_to("/etc/passwd")
    code, out, err = clilib.box("skill", "check", str(good), env=nowhere)
    assert (code, err) == (1, "") and "symbolic link" in out


def test_check_several(tmp_path):
    package(tmp_path / "repo", "a")
    package(tmp_path / "repo", "b", more="odd: 1\n")
    code, out, err = clilib.box("skill", "check", str(tmp_path / "repo"))
    assert (code, err) == (1, "")
    assert out == "a: conforms\nb: odd: is not a field of the format\n"


@pytest.mark.parametrize("what", ["none/", "empty"])
def test_check_nothing(tmp_path, what):
    (tmp_path / "empty").mkdir()
    code, out, err = clilib.box("skill", "check", f"{tmp_path}/{what}")
    assert (code, out) == (125, "") and err.startswith("box: ")


# -- the command line


@pytest.mark.parametrize(
    "args",
    [["ls"], ["show", "x"], ["files", "x"], ["cat", "x", "y"], ["rm", "-y", "x"], ["edit", "x"]],
)
def test_no_runtime(args):
    code, out, err = clilib.box("skill", *args, "--endpoint", "ws://127.0.0.1:9")
    assert (code, out) == (125, "") and err.startswith("box: BoxRuntimeUnavailableError: ")


@pytest.mark.parametrize(
    "args, said",
    [
        ([], "skill: no command"),
        (["lss"], "unknown command skill lss"),
        (["shaw"], "unknown command skill shaw, did you mean show?"),
        (["show"], "skill show: expected one NAME"),
        (["ls", "x"], "skill ls: takes no arguments"),
        (["rm", "-y"], "skill rm: expected at least one NAME"),
        (["cat", "x"], "skill cat: expected NAME PATH"),
        (["add"], "skill add: expected one PATH"),
        (["add", "--al", "x"], "unknown option --al (did you mean --all?)"),
        (["show", b"\xff"], "the name is not valid UTF-8"),
    ],
)
def test_misused(args, said):
    code, out, err = clilib.box("skill", *args)
    assert (code, out) == (125, "") and err.startswith(f"box: {said}")


@pytest.mark.parametrize("name", ["", "ls", "show", "add", "rm", "check", "files", "cat", "edit"])
def test_help(name):
    code, out, err = clilib.box("skill", *([name] if name else []), "--help")
    assert (code, err) == (0, "")
    assert out.startswith(f"Usage: box skill {name}".rstrip())
    assert max(map(len, out.splitlines())) <= 80
