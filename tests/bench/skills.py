#!/usr/bin/env python3
"""Measures the skill store against the reference's own, by hand: tests/bench/skills.py BUILD VENV_OLD

BUILD is a release build with -Dtests=true (skills_play is of the tests). The tree has 1,000 skills and as
many entries as discovery looks at, 10,000; "flat" has the others as files, "folders" half of them as
folders, each of which must be looked at. Lists are timed inside the programs, without their JSON. The two
take turns, and medians are compared.
"""

import os
import pathlib
import random
import statistics
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "system"))
sys.dont_write_bytecode = True

import skilllib  # noqa: E402

ROUNDS = 7
SKILLS = 1000
OTHERS = 8900
INSTRUCTIONS = "# Instructions\n\n" + "Do this, then that, and tell what came of it.\n" * 40


def make_tree(folder, with_folders):
    tenant = skilllib.Tenant(folder)
    for number in range(SKILLS):
        name = f"skill-{number}"
        text = skilllib.skill_md(name, f"Does thing {number}, as people write it.", INSTRUCTIONS)
        tenant.put(f"group{number % 20}/{name}/SKILL.md", text)
        tenant.put(f"group{number % 20}/{name}/scripts/run.py", "print(1)\n")
    for number in range(OTHERS):
        place = tenant.root / f"plain{number % 40}" / f"e{number}"
        place.parent.mkdir(exist_ok=True)
        if with_folders and number % 2:
            place.mkdir()
        else:
            place.touch()
    time.sleep(0.2)


def listed(program):
    answer = program.raw("box_list_skills")
    assert len(answer["ok"]["skills"]) == SKILLS, answer
    return answer["us"]


def measure_lists(build, base, name, with_folders):
    folder = base / name / "skills"
    make_tree(folder, with_folders)
    first, second, reference = [], [], []
    with skilllib.start_reference(folder) as other:
        for _ in range(ROUNDS):
            with skilllib.start_store(folder, build) as store:
                first.append(listed(store))
                second.append(statistics.median(listed(store) for _ in range(5)))
            reference.append(listed(other))
    ours, again, theirs = (statistics.median(rounds) for rounds in (first, second, reference))
    print(f"list, {name:8} first {ours / 1000:8.1f} ms   second {again / 1000:7.2f} ms   ", end="")
    print(f"reference {theirs / 1000:8.1f} ms   first/reference {ours / theirs:.2f}   ", end="")
    print(f"first/second {ours / again:.1f}")


def measure_installs(build, base):
    folder = base / "install" / "skills"
    skilllib.Tenant(folder)
    chance = random.Random(1)
    files = {f"pack/f{number}.txt": chance.randbytes(20000).hex() for number in range(100)}
    file = base / "upload.zip"
    file.write_bytes(skilllib.archive({"pack/SKILL.md": skilllib.skill_md("packed"), **files}))
    times = {"ours": [], "theirs": []}
    with skilllib.start_store(folder, build) as store, skilllib.start_reference(folder) as other:
        for _ in range(ROUNDS):
            for who, program in (("ours", store), ("theirs", other)):
                answer = program.raw("box_install_skill_zip", {"filename": "up.zip"}, file)
                assert "ok" in answer, answer
                times[who].append(answer["us"])
                program.ok("box_delete_skill", {"name": "packed"})
    ours, theirs = statistics.median(times["ours"]), statistics.median(times["theirs"])
    print(f"install of 100 files, 4 MB: {ours / 1000:.1f} ms   reference {theirs / 1000:.1f} ms   ", end="")
    print(f"{theirs / ours:.1f} times as fast")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip())
    build = pathlib.Path(sys.argv[1])
    os.environ["BOX_VENV_OLD"] = sys.argv[2]
    with tempfile.TemporaryDirectory() as base:
        measure_lists(build, pathlib.Path(base), "flat", False)
        measure_lists(build, pathlib.Path(base), "folders", True)
        measure_installs(build, pathlib.Path(base))


main()
