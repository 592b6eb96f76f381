"""The released programs carry the hardening that the build promises.

Read with readelf from the build that BOX_RELEASE names (default: build/release-check).
"""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

import testpaths

ROOT = testpaths.ROOT
RELEASE = Path(os.environ.get("BOX_RELEASE") or ROOT / "build" / "release-check")
PROGRAMS = ("boxd", "box-rpc")


def readelf(option: str, program: Path) -> str:
    done = subprocess.run(
        ["readelf", "--wide", option, str(program)],
        check=True,
        capture_output=True,
        text=True,
        env=dict(os.environ, LC_ALL="C"),
    )
    return done.stdout


def segments(program: Path) -> list[tuple[str, str]]:
    """(type, flags) of each program header; flags are letters of "RWE" without spaces."""
    row = re.compile(r"^\s+([A-Z_]+)(?:\s+0x[0-9a-f]+){5}\s+([RWE ]+?)\s+0x[0-9a-f]+$", re.M)
    found = [(kind, flags.replace(" ", "")) for kind, flags in row.findall(readelf("-l", program))]
    assert any(kind == "LOAD" for kind, _ in found), "readelf's segments were not understood"
    return found


def dynamic(program: Path) -> dict[str, list[str]]:
    """The dynamic section: tag -> values."""
    row = re.compile(r"^\s*0x[0-9a-f]+\s+\((\w+)\)\s+(.*)$", re.M)
    entries: dict[str, list[str]] = {}
    for tag, value in row.findall(readelf("-d", program)):
        entries.setdefault(tag, []).append(value.strip())
    return entries


def imports(program: Path) -> set[str]:
    """Names of the undefined dynamic symbols, without versions."""
    rows = (line.split() for line in readelf("--dyn-syms", program).splitlines())
    return {row[7].split("@")[0] for row in rows if len(row) >= 8 and row[6] == "UND"}


def flags_1(program: Path) -> set[str]:
    return {flag for value in dynamic(program).get("FLAGS_1", []) for flag in value.split()}


@pytest.fixture(params=PROGRAMS)
def program(request) -> Path:
    path = RELEASE / request.param
    assert path.is_file(), f"{path} is not there: run scripts/build release-check"
    return path


def test_position_independent(program):
    kind = re.search(r"^\s*Type:\s+(\w+)", readelf("-h", program), re.M)
    assert kind and kind.group(1) == "DYN"
    assert "PIE" in flags_1(program)


def test_full_relro(program):
    assert "GNU_RELRO" in [kind for kind, _ in segments(program)]
    flags = {flag for value in dynamic(program).get("FLAGS", []) for flag in value.split()}
    assert "BIND_NOW" in flags or "NOW" in flags_1(program)


def test_stack_is_not_executable(program):
    assert [flags for kind, flags in segments(program) if kind == "GNU_STACK"] == ["RW"]


def test_nothing_is_writable_and_executable(program):
    assert [entry for entry in segments(program) if "W" in entry[1] and "E" in entry[1]] == []


def test_stack_protector(program):
    assert "__stack_chk_fail" in imports(program)


def test_fortified(program):
    checked = {name for name in imports(program) if re.fullmatch(r"__\w+_chk", name)}
    assert checked != set()


def test_no_library_path_is_built_in(program):
    assert {"RPATH", "RUNPATH"} & set(dynamic(program)) == set()


def test_stack_clash_protection():
    """It leaves no trace in a binary, so the compiler's command lines are checked."""
    commands = json.loads((RELEASE / "compile_commands.json").read_text())
    assert commands != []
    flag = "-fstack-clash-protection"
    without = [entry["file"] for entry in commands if flag not in entry["command"].split()]
    assert without == []
