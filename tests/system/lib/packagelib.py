"""Packages of skills, as folders and as ZIPs, for tests of `box skill`."""

import json
import zipfile

RED = "\x1b[31m"


def entry(name, description="does it", more="", instructions="Do it.\n"):
    return f"---\nname: {name}\ndescription: {json.dumps(description)}\n{more}---\n{instructions}"


def package(folder, name, **fields):
    """The folder of a skill."""
    made = folder / name
    (made / "scripts").mkdir(parents=True)
    (made / "SKILL.md").write_text(entry(name, **fields))
    (made / "scripts" / "y.py").write_text(f"print({name!r})\n")
    (made / "scripts" / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (made / "scripts" / "run.sh").chmod(0o755)
    return made


def zipped(path, files):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path
