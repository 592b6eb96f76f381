"""Benchmarks of skills: the store beside the reference's own, and libbox's list of mounts.

The tree has 1,000 skills and nearly as many entries as discovery looks at, 10,000; half of the
other entries are folders, each of which must be looked at. Lists and installs are timed inside the
programs, without the JSON around them.
"""

import os
import pathlib
import random
import statistics
import subprocess
import sys
import time

from servers import Broken

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "system" / name) for name in ("lib", "scripts")]

import skilllib  # noqa: E402

# How many rounds, and how many with --quick.
ROUNDS = {
    "skills": (7, 3),
    "installs": (31, 5),
    "mounts": (5, 2),
}
SKILLS = 1000
OTHERS = 8900
MOUNTS = 100
INSTRUCTIONS = "# Instructions\n\n" + "Do this, then that, and tell what came of it.\n" * 40


def make_tree(folder):
    tenant = skilllib.Tenant(folder)
    for number in range(SKILLS):
        name = f"skill-{number}"
        text = skilllib.skill_md(name, f"Does thing {number}, as people write it.", INSTRUCTIONS)
        tenant.put(f"group{number % 20}/{name}/SKILL.md", text)
        tenant.put(f"group{number % 20}/{name}/scripts/run.py", "print(1)\n")
    for number in range(OTHERS):
        place = tenant.root / f"plain{number % 40}" / f"e{number}"
        place.parent.mkdir(exist_ok=True)
        if number % 2:
            place.mkdir()
        else:
            place.touch()
    time.sleep(0.2)  # times of files are coarse: what is younger is read again


def answered(program, action, data=None, archive=None):
    answer = program.raw(action, data, archive)
    if "ok" not in answer:
        raise Broken(f"{action}: {answer}")
    return answer


def list_ms(program):
    answer = answered(program, "box_list_skills")
    if len(answer["ok"]["skills"]) != SKILLS:
        raise Broken(f"box_list_skills: {len(answer['ok']['skills'])} skills")
    return answer["us"] / 1e3


class Skills:
    def __init__(self, bench, build, venv_old):
        self.bench, self.note = bench, bench.note
        self.build = pathlib.Path(build)
        os.environ["BOX_VENV_OLD"] = venv_old
        self.base = pathlib.Path(bench.folder) / "skills"

    def measure(self):
        self.measure_lists()
        self.measure_installs()
        self.measure_mounts()

    def measure_lists(self):
        folder = self.base / "list" / "skills"
        make_tree(folder)
        with skilllib.start_reference(folder) as other:
            for _ in self.bench.rounds("skills"):
                with skilllib.start_store(folder, self.build) as store:
                    first = list_ms(store)
                    again = statistics.median(list_ms(store) for _ in range(5))
                self.note("list of 1,000 skills", "box", first)
                self.note("list of 1,000 skills", "reference", list_ms(other))
                self.note("second list of 1,000 skills", "box", again)
                self.note("second list of 1,000 skills", "the first", first)

    def measure_installs(self):
        folder = self.base / "install" / "skills"
        skilllib.Tenant(folder)
        chance = random.Random(1)
        files = {f"pack/f{number}.txt": chance.randbytes(20000).hex() for number in range(100)}
        file = self.base / "upload.zip"
        file.write_bytes(skilllib.archive({"pack/SKILL.md": skilllib.skill_md("packed"), **files}))
        with skilllib.start_store(folder, self.build) as store:
            with skilllib.start_reference(folder) as other:
                for _ in self.bench.rounds("installs"):
                    for who, program in (("box", store), ("reference", other)):
                        # The measurement ends with the answer; Box syncs to disk after it.
                        # No leftovers of others may be written meanwhile.
                        os.sync()
                        data = {"filename": "up.zip"}
                        answer = answered(program, "box_install_skill_zip", data, file)
                        self.note("answer to an install of a ZIP, 100 files, 4 MB", who, answer["us"] / 1e3)
                        answered(program, "box_delete_skill", {"name": "packed"})

    def measure_mounts(self):
        folder = self.base / "mounts"
        for number in range(MOUNTS):
            (folder / f"skill-{number}").mkdir(parents=True)
        program = self.build / "tests" / "drivers" / "mounts_driver"
        for _ in self.bench.rounds("mounts"):
            argv = [program, folder, str(MOUNTS)]
            done = subprocess.run(argv, capture_output=True, text=True)
            if done.returncode != 0:
                raise Broken(f"mounts_driver: {done.stderr}")
            took = statistics.median(float(line) for line in done.stdout.split())
            self.note("mounts of 100 skills", "box", took / 1e3)
