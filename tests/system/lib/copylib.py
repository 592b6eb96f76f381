"""`box cp` in tests: the command, and the contents of boxes, folders and archives."""

import io
import os
import stat
import tarfile

import clilib
from clientlib import INSTANCE

WHO = {"LANGBOT_BOX_TRUSTED_INSTANCE_UUID": INSTANCE}


def options(boxd):
    return ["--endpoint", boxd.url, "--workspace", "ws1"]


def box(boxd, command, *args, **more):
    return clilib.box(
        command, *options(boxd), *map(str, args), private=False, env=WHO, **more
    )


def start(boxd, command, *args, **more):
    return clilib.start(
        command, *options(boxd), *map(str, args), private=False, env=WHO, **more
    )


def inside(boxd, script):
    code, out, err = box(boxd, "exec", "s", script)
    assert (code, err) == (0, ""), (code, out, err)
    return out


def copied(boxd, source, target, **more):
    assert box(boxd, "cp", source, target, **more) == (0, "", "")


def tree(folder):
    """Everything below: path -> (kind, mode, mtime, content)."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        mode = stat.S_IMODE(status.st_mode)
        if path.is_symlink():
            told = ("l", None, None, os.readlink(path))
        elif path.is_dir():
            told = ("d", mode, int(status.st_mtime), None)
        else:
            told = ("f", mode, int(status.st_mtime), path.read_bytes())
        found[str(path.relative_to(folder))] = told
    return found


def entry(name, data=b"", kind=tarfile.REGTYPE, link="", mode=0o644, **pax):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode, info.pax_headers = kind, link, mode, pax
    info.size = len(data)
    return info, data


def archive_of(*entries, form=tarfile.PAX_FORMAT):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for info, data in entries:
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()
