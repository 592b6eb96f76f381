"""Builds boxd with defences removed, and checks that the attempts which they stop then succeed.

Each file of weaken/ is one defence: comments that say which group it is built with, which attempts
it opens and which file is changed, and sed commands for that file. A command that changes nothing
is an error: the defence has moved, and the file must be updated. A group has defences that do not
interfere with each other; each group is one incremental build of a copy of the sources.
"""

import collections
import pathlib
import shutil
import subprocess
import sys
import time

import attack
import outside
import weakening

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PLACE = ROOT / "build" / "escape"
PROGRAMS = ("boxd", "box-rpc", "box-init", "box-skills")
LEFT_OUT = ("build", "tests", ".git")  # of the sources
LEAST = 25  # attempts that must succeed


def run(*command, **options):
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=900, **options
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


def copy_sources():
    """Unchanged files keep their time stamps, so that only changes are rebuilt."""
    source = PLACE / "source"
    wanted = {str(path.relative_to(ROOT)) for path in ROOT.glob("meson*") if path.is_file()}
    for folder in [path for path in ROOT.iterdir() if path.name not in LEFT_OUT]:
        wanted |= {str(path.relative_to(ROOT)) for path in folder.rglob("*") if path.is_file()}
    for name in wanted:
        target = source / name
        if not target.exists() or target.read_bytes() != (ROOT / name).read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target)
    for path in [path for path in source.rglob("*") if path.is_file()]:
        if str(path.relative_to(source)) not in wanted:
            path.unlink()
    return source


def build(source):
    folder = PLACE / "build"
    if not (folder / "build.ninja").exists():
        flags = ["--buildtype=release", "-Dtests=false", "-Doptimization=1"]
        run("meson", "setup", folder, source, *flags)
    run("ninja", "-C", folder, *PROGRAMS)
    return folder


def edit(source, one):
    misfits = weakening.apply(one, source)
    if misfits:
        sys.exit("\n".join(misfits))


def make(group, members, source):
    """The folder with the programs of this group."""
    originals = {name: (source / name).read_text() for one in members for name in one.edits}
    try:
        for one in members:
            edit(source, one)
        built = build(source)
        folder = PLACE / group
        folder.mkdir(exist_ok=True)
        for name in PROGRAMS:
            shutil.copy(built / name, folder / name)
        return folder
    finally:
        for name, text in originals.items():
            (source / name).write_text(text)


def first_line(text):
    return text.splitlines()[0][:80] if text else ""


def try_group(group, members, source):
    """Whether everything that should succeed did."""
    start = time.monotonic()
    programs = make(group, members, source)
    built = time.monotonic() - start
    names = {name for one in members for name in one.opens}
    outside.tries_max = 1
    try:
        rows = attack.run(programs, only=names)
    except Exception as error:
        rows = [("suite", "world", "ERROR", f"{type(error).__name__}: {error}")]
    rows = {name: (verdict, how) for _, name, verdict, how in rows}
    print(f"\n{group}: built in {built:.0f} s, tried in {time.monotonic() - start - built:.0f} s")
    seen = set()
    for one in members:
        print(f"  without {one.name}")
        for name in one.opens:
            verdict, how = rows.get(name, ("NOT TRIED", ""))
            print(f"    {verdict:9} {name:46} {first_line(how)}")
            if verdict == "ESCAPED":
                seen.add(name)
    strange = set(rows) - names
    for name in strange:
        print(f"    {rows[name][0]} {name}: {rows[name][1][:400]}")
    return seen, names - seen, bool(strange)


def main(chosen):
    weakenings = weakening.read_all()
    unknown = set(chosen) - {one.name for one in weakenings} - {one.group for one in weakenings}
    if unknown:
        sys.exit(f"no such weakening: {sorted(unknown)}")
    groups = collections.defaultdict(list)
    for one in weakenings:
        if not chosen or one.name in chosen or one.group in chosen:
            groups[one.group].append(one)
    known = {name for _, name in attack.known()}
    assert all(name in known for one in weakenings for name in one.opens), "an unknown attempt"
    source = copy_sources()
    start, seen, failed = time.monotonic(), set(), set()
    for group, members in sorted(groups.items()):
        more, less, strange = try_group(group, members, source)
        seen |= more
        failed |= {f"{group}:{name}" for name in less} | ({f"{group}:suite"} if strange else set())
    count = sum(len(members) for members in groups.values())
    print(
        f"\n{count} defences taken out in {len(groups)} builds: {len(seen)} attempts succeeded, "
        f"{len(failed)} did not ({time.monotonic() - start:.0f} s)"
    )
    for name in sorted(failed):
        print(f"did not succeed: {name}")
    enough = bool(chosen) or len(seen) >= LEAST
    return 0 if not failed and enough else 1
