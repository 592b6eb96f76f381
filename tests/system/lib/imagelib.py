"""Small root file systems for boxes: a shell, a few tools, and the libraries that they link to."""

import re
import shutil
import subprocess

TOOLS = ("cat", "head", "id", "ls", "touch")


def libraries(program):
    told = subprocess.run(["ldd", program], capture_output=True, text=True, timeout=20).stdout
    return re.findall(r"(/\S+) \(0x", told)


def make_root(folder, mark, shell=True):
    """A root with merged /usr, and a line of text that identifies it from inside."""
    folder.mkdir(parents=True)
    for name in ("usr/bin", "usr/lib", "usr/lib64", "etc", "opt", "home/former"):
        (folder / name).mkdir(parents=True)
    for name in ("bin", "lib", "lib64"):
        (folder / name).symlink_to(f"usr/{name}")
    (folder / "usr" / "mark").write_text(f"{mark}\n")
    (folder / "etc" / "of-the-image").write_text(f"{mark}\n")
    (folder / "etc" / "secret").write_text("no\n")
    (folder / "etc" / "secret").chmod(0o600)
    for tool in (*TOOLS, *(["sh"] if shell else [])):
        source = shutil.which(tool)
        shutil.copy2(source, folder / "usr" / "bin" / tool)
        for library in libraries(source):
            target = folder / library[1:]
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(library, target)
    subprocess.run(["chmod", "-R", "go=u,go-w", folder / "usr"], check=True)
    folder.chmod(0o755)
    return folder


def run(*command):
    subprocess.run(list(map(str, command)), check=True, capture_output=True, timeout=60)


def make_file(kind, root, path):
    """An image file made from a root folder."""
    if kind == "ext4":
        run("truncate", "-s", "64M", path)
        run("mkfs.ext4", "-q", "-F", "-d", root, path)
    elif kind == "squashfs":
        run("mksquashfs", root, path, "-quiet", "-no-progress")
    else:
        run("mkfs.erofs", "-x-1", path, root)
    return path


MAKERS = {"ext4": "mkfs.ext4", "squashfs": "mksquashfs", "erofs": "mkfs.erofs"}
