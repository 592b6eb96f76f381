"""The files of weaken/: what each changes, and whether it still matches the sources."""

import collections
import pathlib
import subprocess

HERE = pathlib.Path(__file__).resolve().parent


class Weakening:
    def __init__(self, path):
        self.name = path.stem
        self.group = None
        self.opens = []
        self.edits = collections.defaultdict(list)  # file -> sed commands
        file = None
        for line in path.read_text().splitlines():
            key, _, value = line.removeprefix("# ").partition(": ")
            if line.startswith("# group: "):
                self.group = value
            elif line.startswith("# opens: "):
                self.opens += value.split()
            elif line.startswith("# file: "):
                file = value
            elif line.strip() and not line.startswith("#"):
                self.edits[file].append(line)
        assert self.group and self.opens and self.edits and None not in self.edits, path


def read_all():
    return [Weakening(path) for path in sorted((HERE / "weaken").glob("*.sed"))]


def apply(one, source):
    """Edits the files in this folder; returns a line for each command that matched nothing."""
    misfits = []
    for name, commands in one.edits.items():
        path = source / name
        if not path.is_file():
            misfits.append(f"weaken/{one.name}.sed: there is no {name}")
            continue
        for command in commands:
            before = path.read_text()
            done = subprocess.run(["sed", "-E", command], input=before, capture_output=True, text=True)
            if done.returncode != 0 or done.stdout == before:
                misfits.append(f"weaken/{one.name}.sed: {name} has nothing for {command}")
            path.write_text(done.stdout if done.returncode == 0 else before)
    return misfits
