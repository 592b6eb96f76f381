"""Workspaces with a quota: tenants' folders, their images, and how a test leaves nothing of them."""

import contextlib
import json
import os
import pathlib
import re
import subprocess

import boxlib
import nativelib

MIB = 1 << 20
STORE = ".box-quota"
OWNER = 0xF0000000


def mounted(path):
    return str(path) in nativelib.mounts()


def loops(folder):
    """Loop devices on files below a folder, those of files that are gone too."""
    found = subprocess.run(
        ["losetup", "--json", "--output", "NAME,BACK-FILE"],
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    ).stdout
    devices = json.loads(found)["loopdevices"] if found.strip() else []
    return [one["name"] for one in devices if str(one["back-file"]).startswith(str(folder))]


def release(folder):
    """Unmounts what boxd has left mounted below a folder, as an operator would."""
    for point in sorted(nativelib.mounts(), reverse=True):
        if point.startswith(f"{folder}/"):
            subprocess.run(["umount", point], check=True, timeout=20)


@contextlib.contextmanager
def tenants(mode="root", operator=None):
    """A place with a folder for tenants; afterwards neither mounts nor loop devices are left."""
    with nativelib.Place(mode, operator) as place:
        place.tenants = place.make("data", "tenants")
        try:
            yield place
        finally:
            release(place.folder)
            # The kernel lets go of them a moment later.
            boxlib.wait_until(
                lambda: not loops(place.folder), 5, lambda: f"left: {loops(place.folder)}"
            )


def image(folder):
    return folder.parent / STORE / f"{folder.name}.img"


def tree(folder):
    """What is in a folder: kind, mode, owner, times and content of everything."""
    found = {}
    for path in sorted(pathlib.Path(folder).rglob("*")):
        status = os.lstat(path)
        content = None
        if path.is_symlink():
            content = os.readlink(path)
        elif path.is_file():
            content = path.read_bytes()
        found[str(path.relative_to(folder))] = (
            oct(status.st_mode),
            status.st_uid,
            status.st_gid,
            status.st_mtime_ns,
            content,
        )
    return found


def fields(text):
    return dict(re.findall(r"(\w+)=(\S+)", text))
