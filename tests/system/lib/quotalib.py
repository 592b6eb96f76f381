"""Workspaces with a quota: folders of tenants, their images, and checks that nothing is left of
them.
"""

import contextlib
import errno
import json
import os
import pathlib
import subprocess

import boxdlib
import nativelib

MIB = 1 << 20
STORE = ".box-quota"
DATA = "data-"
OWNER = 0xF0000000


def mounted(path):
    return str(path) in nativelib.mounts()


def loops(folder):
    """Loop devices on files below a folder, also on deleted files."""
    found = subprocess.run(
        ["losetup", "--json", "--output", "NAME,BACK-FILE,AUTOCLEAR"],
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    ).stdout
    devices = json.loads(found)["loopdevices"] if found.strip() else []
    # A file that was opened in another mount namespace has a path without its beginning.
    ours = [one for one in devices if f"/{DATA}{folder.name}/" in str(one["back-file"])]
    assert all(one["autoclear"] for one in ours), f"they would stay: {ours}"
    return [one["name"] for one in ours]


def release(folder):
    """Unmounts what boxd left mounted below a folder, as an operator would."""
    for point in sorted(nativelib.mounts(), reverse=True):
        if point.startswith(f"{folder}/"):
            subprocess.run(["umount", point], check=True, timeout=20)


def share(place):
    """Makes mounts shared, as they are on most hosts: what is mounted or unmounted here also
    changes in other mount namespaces. Otherwise the namespaces of other tests' boxd would keep our
    loop devices."""
    for options in (("--bind", place.folder), ("--make-shared",)):
        subprocess.run(["mount", *options, place.folder], check=True, timeout=20)


@contextlib.contextmanager
def tenants(mode="root", operator=None, shared=True):
    """A place with a folder for tenants; afterwards no mounts and no loop devices are left."""
    with nativelib.Place(mode, operator) as place:
        place.tenants = place.make(DATA + place.folder.name, "tenants")
        if shared and boxdlib.ROOT:
            share(place)
        try:
            yield place
            if shared:
                release(place.folder)
                # The kernel releases them a moment later.
                boxdlib.wait_until(
                    lambda: not loops(place.folder), 10, lambda: f"left: {loops(place.folder)}"
                )
        finally:
            release(place.folder)
            if shared and boxdlib.ROOT:
                subprocess.run(["umount", place.folder], check=True, timeout=20)


@contextlib.contextmanager
def in_container(place, *shares):
    """The command before boxd that makes it believe it runs in a container with this volume."""
    volume = f"mount --bind {place.tenants} {place.tenants}"
    steps = [volume, *(f"{share} {place.tenants}" for share in shares), 'exec "$@"']
    command = ("unshare", "-m", "--propagation", "private", "sh", "-c", " && ".join(steps), "sh")
    yield {"before": command, "env": {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}}


def tenant(place, name):
    """An existing folder of a tenant."""
    return place.make(*place.tenants.relative_to(place.folder).parts, name)


def image(folder):
    return folder.parent / STORE / f"{folder.name}.img"


def fill(file):
    """Writes until there is no room for another page, and returns the size."""
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_SYNC)
    try:
        for piece in (MIB, 64 << 10, 4096):
            try:
                while True:
                    os.write(fd, bytes(piece))
            except OSError as error:
                assert error.errno == errno.ENOSPC
        return os.fstat(fd).st_size
    finally:
        os.close(fd)


def tree(folder):
    """The contents of a folder: kind, mode, owner, times and content of everything."""
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
