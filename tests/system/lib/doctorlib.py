"""`box doctor` and `box plan` as children of a test, on hosts that lack something.

Features are hidden from the child only: by mount and network namespaces of its own, a seccomp
filter, or missing programs. The host itself is not changed.
"""

import contextlib
import ctypes
import os
import pathlib
import struct
import subprocess

import pytest

import boxdlib
import nativelib

SECONDS = 60
CGROUPS = pathlib.Path("/sys/fs/cgroup")
CONTROLLERS = ("pids", "memory", "cpu")
needs_root = pytest.mark.skipif(not boxdlib.ROOT, reason="what is taken away, root takes away")


class Host:
    """A folder with all programs, and the `box` in it, run as root or as an ordinary user."""

    def __init__(self, mode):
        self.place = nativelib.Place(mode)
        self.programs = self.place.programs
        nativelib.copy([boxdlib.build() / "box"], self.programs)

    def __enter__(self):
        self.place.__enter__()
        return self

    def __exit__(self, *ignored):
        self.place.__exit__(*ignored)

    def box(self, *args, inside=None, joins=(), **options):
        """Runs box to its end: (code, stdout, stderr).

        `inside` is a line of shell that root runs before in a mount namespace of its own; `joins`
        are cgroups that it is put into.
        """
        command = [*self.place.before, str(self.programs / "box"), *args]
        joined = [f"echo $$ >{group}/cgroup.procs" for group in joins]
        if inside or joins:
            before = ["unshare", "-m"] if inside else []
            lines = [*joined, *([inside] if inside else []), 'exec "$@"']
            command = [*before, "sh", "-ec", "\n".join(lines), "sh", *command]
        env = self.place.environment(**options.pop("env", {}))
        env.pop("BOX_ENDPOINT", None)
        done = subprocess.run(
            command,
            env=env,
            cwd=self.place.work,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            **options,
        )
        out, err = done.stdout.decode(), done.stderr.decode()
        assert "Sanitizer" not in err and "runtime error:" not in err, err
        return done.returncode, out, err


def own_groups():
    """The cgroup of this process in each hierarchy of version 1: controller -> folder."""
    found = {}
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        for name in names.split(","):
            found[name] = CGROUPS / name / path.lstrip("/")
    return found


@contextlib.contextmanager
def delegated(mode):
    """Groups of the caller's own, as a service manager gives them.

    That they can be removed in the end shows that nothing was left in them.
    """
    own = own_groups()
    if not boxdlib.ROOT:
        pytest.skip("a cgroup for an ordinary user is made by root")
    if not all(name in own and own[name].is_dir() for name in CONTROLLERS):
        if mode == "rootless":
            pytest.skip("the controllers are not in hierarchies of version 1 here")
        yield []
        return
    made = []
    try:
        for name in CONTROLLERS:
            group = own[name] / f"box-test-doctor-{os.getpid()}"
            group.mkdir()
            made.append(group)
            for path in (group, group / "cgroup.procs", group / "tasks"):
                if mode == "rootless":
                    os.chown(path, nativelib.USER, nativelib.USER)
        yield made
    finally:
        for group in made:
            boxdlib.wait_until(lambda group=group: removed(group), 5, f"{group} can be removed")


@contextlib.contextmanager
def nothing_left():
    """Compares before and after: processes, mounts, network links."""

    def seen():
        links = set(os.listdir("/sys/class/net"))
        return {*nativelib.children(), *nativelib.mounts(), *links}

    with nativelib.subreaper():
        before = seen()
        yield
        nativelib.bury(before)
        boxdlib.wait_until(lambda: seen() <= before, 5, lambda: f"left: {seen() - before}")


def removed(group):
    with contextlib.suppress(OSError):
        group.rmdir()
    return not group.exists()


# -- seccomp, as containers have it

RET_ALLOW, RET_ERRNO = 0x7FFF0000, 0x00050000
LOAD, JUMP_EQUAL, JUMP_SET, RETURN = 0x20, 0x15, 0x45, 0x06
CLONE, UNSHARE, LANDLOCK, CLONE3 = 56, 272, 444, 435
NEWUSER = 0x10000000
EPERM, ENOSYS = 1, 38


def refuse(rules):
    """A preexec_fn: each (call, mask of its first argument or 0, errno) is refused from then on."""
    if os.uname().machine != "x86_64":
        pytest.skip("the filter of this test is for x86_64")
    program = []
    for number, mask, error in rules:
        part = [(RETURN, 0, 0, RET_ERRNO | error)]
        if mask:
            part = [(LOAD, 0, 0, 16), (JUMP_SET, 0, 1, mask), *part, (LOAD, 0, 0, 0)]
        program += [(JUMP_EQUAL, 0, len(part), number), *part]
    program = [(LOAD, 0, 0, 0), *program, (RETURN, 0, 0, RET_ALLOW)]
    code = b"".join(struct.pack("HBBI", *one) for one in program)
    libc = ctypes.CDLL(None, use_errno=True)
    kept = ctypes.create_string_buffer(code)
    head = struct.pack("HxxxxxxQ", len(program), ctypes.addressof(kept))

    def install(kept=kept):
        assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
        assert libc.prctl(22, 2, head, 0, 0) == 0  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER

    return install
