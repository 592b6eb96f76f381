"""boxd from outside: which folders it creates for its worker.

tests/drivers/fake_rpc.c is in place of box-rpc. What only root can see is skipped for others.
"""

import errno
import os
import subprocess

import pytest

from boxdlib import ROOT

EPERM, ENOTDIR, EINVAL, ELOOP = -errno.EPERM, -errno.ENOTDIR, -errno.EINVAL, -errno.ELOOP
EXDEV = -errno.EXDEV


@pytest.fixture
def host_folder(tmp_path):
    base = tmp_path / "host"
    base.mkdir()
    (base / "file").write_text("")
    (base / "real").mkdir()
    links = {
        "link": "real",
        "dangling": "nowhere",
        "loop": "loop",
        "to-etc": "/etc",
        "to-passwd": "/etc/passwd",
        "to-new-in-etc": "/etc/box-test-missing",
        "to-run": "/run",
        "to-root": "/",
        "twice": "to-etc",
        "upwards": "../" * 40 + "etc",
    }
    for name, target in links.items():
        (base / name).symlink_to(target)
    return base


FOLDERS = [
    ("BASE", 0),
    ("BASE/a/b/c", 0),
    ("BASE/a", 0),
    ("BASE/a/b/d", 0),
    ("BASE/real", 0),
    ("BASE/link", 0),
    ("BASE/link/new", 0),
    ("BASE/" + "n" * 255, 0),
    ("BASE/" + "n" * 256, -errno.ENAMETOOLONG),
    ("BASE/file", ENOTDIR),
    ("BASE/file/x", ENOTDIR),
    ("BASE/dangling", ENOTDIR),
    ("BASE/dangling/x", ENOTDIR),
    ("BASE/loop", ELOOP),
    ("BASE/to-etc", EPERM),
    ("BASE/to-etc/box-test", EPERM),
    ("BASE/to-etc/box-test/deeper", EPERM),
    ("BASE/to-etc/passwd", EPERM),
    ("BASE/to-passwd", ENOTDIR),
    ("BASE/to-new-in-etc", ENOTDIR),
    ("BASE/to-new-in-etc/x", ENOTDIR),
    ("BASE/to-run/box-test", EPERM),
    ("BASE/to-root", EPERM),
    ("BASE/to-root/etc/box-test", EPERM),
    ("BASE/to-rootBASE/through-root", 0),
    ("BASE/twice/box-test", EPERM),
    ("BASE/upwards/box-test", EPERM),
    ("/", EPERM),
    ("/etc", EPERM),
    ("/etc/passwd", EPERM),
    ("/etc/passwd/x", EPERM),
    ("/etc/box-test", EPERM),
    ("/proc", EPERM),
    ("/proc/self/cwd/box-test", EPERM),
    ("/proc/self/root/tmp/box-test", EPERM),
    ("/proc/self/fd/0", EPERM),
    ("/sys/box-test", EPERM),
    ("/dev/shm/box-test", EPERM),
    ("/root", EPERM),
    ("/root/box-test/x", EPERM),
    ("/boot/box-test", EPERM),
    ("/run/box-test", EPERM),
    ("/var/run/box-test", EPERM),
    ("", EINVAL),
    ("tmp/x", EINVAL),
    ("//tmp/x", EINVAL),
    ("BASE//x", EINVAL),
    ("BASE/x/", EINVAL),
    ("BASE/./x", EINVAL),
    ("BASE/..", EINVAL),
    ("BASE/../etc", EINVAL),
]


def ask_folders(peer, paths, base):
    return {path: int(peer.ask("folder " + path.replace("BASE", str(base)))) for path in paths}


def test_make_folder(start_boxd, host_folder):
    """Where everything may be mounted, links are followed."""
    with start_boxd(umask=0o077).connect() as peer:
        answers = ask_folders(peer, [path for path, _ in FOLDERS], host_folder)
    assert answers == dict(FOLDERS)
    for made in ("a", "a/b/c", "a/b/d", "real/new", "through-root"):
        status = (host_folder / made).stat()
        assert (status.st_mode, status.st_uid) == (0o40755, os.geteuid()), made
    assert not (host_folder / "nowhere").exists()
    for system in ("/etc", "/run", "/dev/shm", "/tmp"):
        assert not os.path.lexists(system + "/box-test"), system
    assert not os.path.lexists("/etc/box-test-missing")


# With BASE as the only mount root: no link below it is followed.
IN_ROOT = {
    "BASE": 0,
    "BASE/a/b/c": 0,
    "BASE/real": 0,
    "BASE/real/new": 0,
    "BASE/link": ELOOP,
    "BASE/link/new": ELOOP,
    "BASE/real/inner": ELOOP,
    "BASE/dangling": ELOOP,
    "BASE/dangling/x": ELOOP,
    "BASE/loop": ELOOP,
    "BASE/to-etc": ELOOP,
    "BASE/to-etc/passwd": ELOOP,
    "BASE/to-passwd": ELOOP,
    "BASE/to-root": ELOOP,
    "BASE/to-rootBASE/x": ELOOP,
    "BASE/upwards/box-test": ELOOP,
    "BASE/file": ENOTDIR,
    "BASE/file/x": ENOTDIR,
    "BASE/../outside": EINVAL,
    "ABOVE/outside": EXDEV,
    # Links above the root are the operator's and are followed; below the root the rule is the same.
    "ABOVE/to-base": 0,
    "ABOVE/to-base/by-link": 0,
    "ABOVE/to-base/link": ELOOP,
    "ABOVE/to-real": 0,
    "ABOVE/to-real/inner": ELOOP,
    "ABOVE/to-above/host/real": 0,
    "ABOVE/to-above/host/link": ELOOP,
    "ABOVE/to-outside": EXDEV,
}


def test_no_link_below_a_mount_root(start_boxd, host_folder):
    above = host_folder.parent
    (above / "outside").mkdir()
    (host_folder / "real/inner").symlink_to(".")
    for name, target in {
        "to-base": "host",
        "to-real": "host/real",
        "to-above": ".",
        "to-outside": "outside",
    }.items():
        (above / name).symlink_to(target)
    with start_boxd().connect() as peer:
        assert peer.ask(f"narrow {host_folder}") == "ok"
        paths = {path: path.replace("ABOVE", str(above)) for path in IN_ROOT}
        answers = ask_folders(peer, paths.values(), host_folder)
    assert {path: answers[paths[path]] for path in paths} == IN_ROOT
    assert sorted(os.listdir(host_folder / "real")) == ["inner", "new"]
    assert (host_folder / "by-link").is_dir()


def test_everything_is_below_the_root_of_all(start_boxd, host_folder):
    with start_boxd().connect() as peer:
        assert peer.ask("narrow /") == "ok"
        answers = ask_folders(peer, ["BASE/real", "BASE/link", "/etc"], host_folder)
    assert answers == {"BASE/real": 0, "BASE/link": 0, "/etc": EPERM}


@pytest.mark.skipif(ROOT, reason="root may write everywhere")
def test_make_folder_where_the_user_may_not(start_boxd):
    with start_boxd().connect() as peer:
        assert int(peer.ask("folder /usr/box-test")) == -errno.EACCES
        assert int(peer.ask("folder /usr")) == 0


IN_NAMESPACE = ["unshare", "--mount", "--propagation", "private", "sh", "-ec"]


def can_mount():
    return ROOT and subprocess.run([*IN_NAMESPACE, "true"], capture_output=True).returncode == 0


@pytest.mark.skipif(not can_mount(), reason="needs mounts")
def test_make_folder_behind_bind_mounts(start_boxd, host_folder):
    kinds = ("new-proc", "part-of-proc", "part-of-sys", "new-pts")
    for name in ("bound-etc", "bound-root", "self", *kinds):
        (host_folder / name).mkdir()
    script = f"""cd {host_folder}
        mount --bind /etc bound-etc
        mount --rbind / bound-root
        mount --bind {host_folder} self
        mount -t proc none new-proc
        mount --bind /proc/sys/net part-of-proc
        mount --bind /sys/kernel part-of-sys
        mount -t devpts -o newinstance none new-pts
        mount -t tmpfs none /boot
        mkdir -p /boot/a/a
        mount --bind /boot/a /boot/a/a
        exec "$@\""""
    table = [
        ("bound-etc", EPERM),
        ("bound-etc/box-test", EPERM),
        ("bound-root", EPERM),
        ("bound-root/etc/box-test", EPERM),
        ("bound-root/proc/box-test", EPERM),
        ("self/self-made", 0),
        # Refused by their type, not by their path.
        ("new-proc", EPERM),
        ("new-proc/self/box-test", EPERM),
        ("part-of-proc", EPERM),
        ("part-of-proc/ipv4", EPERM),
        ("part-of-sys", EPERM),
        ("new-pts", EPERM),
        # A folder mounted inside itself: the walk upwards must not stop between the two.
        ("to-root/boot/a/a/box-test", EPERM),
    ]
    with start_boxd(before=[*IN_NAMESPACE, script, "sh"]).connect() as peer:
        answers = [(name, int(peer.ask(f"folder {host_folder}/{name}"))) for name, _ in table]
    assert answers == table
    assert (host_folder / "self-made").is_dir()
    assert not os.path.lexists("/etc/box-test")


@pytest.mark.skipif(not can_mount(), reason="needs mounts")
def test_make_folder_makes_no_missing_system_folder(start_boxd, tmp_path):
    """A host without /boot and /run, in which a link leads to /."""
    script = """cd "$0"
        mount -t tmpfs none .
        for name in usr dev proc tmp etc; do mkdir $name; mount --rbind /$name $name; done
        for name in bin lib lib32 lib64 libx32; do
            if [ -L /$name ]; then cp -P /$name .
            elif [ -e /$name ]; then mkdir $name; mount --rbind /$name $name; fi
        done
        mkdir var
        ln -s / to-root
        exec chroot . "$@\""""
    new_root = tmp_path / "new-root"
    new_root.mkdir()
    table = [
        ("/boot", EPERM),
        ("/boot/x", EPERM),
        ("/run/x", EPERM),
        ("/var/run", EPERM),
        ("/to-root/boot", EPERM),
        ("/to-root/var/run/x", EPERM),
        ("/data/boot/run", 0),
        ("/var/lib/run", 0),
    ]
    with start_boxd(before=[*IN_NAMESPACE, script, str(new_root)]).connect() as peer:
        answers = [(path, int(peer.ask(f"folder {path}"))) for path, _ in table]
    assert answers == table
