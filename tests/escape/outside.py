"""Attempts by clients that may ask boxd for boxes: working folders, sources and targets of mounts.

An attempt is a function of the world; what it may return is as in inside/frame.py.
"""

import contextlib
import os

from frame import blocked, escaped, first_escape

tries_max = 3  # of a measured attempt; with a defence taken out 1, because then the first success counts

attempts = {}  # name -> (class, function)


def attempt(kind, name, measured=False):
    """`measured`: it compares totals or times of the whole host, which other programs change, too; it
    counts as escaped only if it escapes in each of TRIES tries."""

    def put(function):
        assert name not in attempts, name
        attempts[name] = (kind, repeated(function) if measured else function)
        return function

    return put


def repeated(function):
    def tries(world):
        for _ in range(tries_max):
            verdict, how = function(world)
            if verdict != "ESCAPED":
                break
        return verdict, how

    return tries


def run(world, names=()):
    rows = []
    for name in names or attempts:
        kind, function = attempts[name]
        try:
            verdict, how = function(world)
        except Exception as error:
            verdict, how = "ERROR", f"{type(error).__name__}: {error}"
        rows.append((kind, name, verdict, how[:400]))
    return rows


def trying(world, cmd, wanted, session="x", **spec):
    """One command with this spec: an escape if it prints `wanted`, otherwise a refusal."""
    answer = world.run(cmd, session=session, **spec)
    if session == "x":
        world.client.call("box_delete_session", {"session_id": "x"})
    if answer["code"] != 0:
        return blocked(answer["message"].split(":")[0])
    data = answer["data"]
    if wanted in data["stdout"]:
        return escaped(data["stdout"][:100])
    return blocked(f"exit {data['exit_code']}")


def stealing(world, cmd, **spec):
    return trying(world, cmd, world.host.secret, **spec)


# The working folder.


def in_session(world):
    return {"session": "s", "host_path": str(world.workspace)}


@attempt("fds", "workdir-proc-self-fd-3-to-1023")
def _(world):
    """As in CVE-2024-21626: an open folder of the runtime as the working folder."""
    cmd = f"cat .{world.host.secret_file} ../../../..{world.host.secret_file}; ls /proc/self/cwd/"
    paths = [f"/proc/self/fd/{fd}" for fd in [*range(3, 64), *range(64, 1024, 16), 1023]]
    results = [stealing(world, cmd, workdir=path, **in_session(world)) for path in paths]
    return first_escape(results)


@attempt("fds", "workdir-is-one-of-inits-fds")
def _(world):
    """No command may have a working folder that only box-init has open, whichever it is."""
    results = []
    for fd in range(3, 16):
        answer = world.run("pwd -P; ls -a", workdir=f"/proc/self/fd/{fd}", **in_session(world))
        came = answer["code"] == 0 and answer["data"]["exit_code"] == 0
        results.append(escaped(f"{fd}: {answer['data']['stdout']}") if came else blocked("refused"))
    return first_escape(results)


@attempt("fds", "workdir-by-proc-1")
def _(world):
    cmd = f"cat .{world.host.secret_file}"
    paths = ("/proc/1/root", "/proc/1/cwd", "/proc/2/root", "/proc/self/root", "/proc/1/fd/3")
    return first_escape(stealing(world, cmd, workdir=path, **in_session(world)) for path in paths)


@attempt("fds", "workdir-by-a-link-of-the-payload")
def _(world):
    world.run("ln -sfn /proc/1/root /workspace/way; ln -sfn / /workspace/top", **in_session(world))
    cmd = f"cat .{world.host.secret_file}"
    return first_escape(
        stealing(world, cmd, workdir=path, **in_session(world))
        for path in ("/workspace/way", "/workspace/top", "/workspace/top/proc/self/fd/4")
    )


@attempt("fds", "workdir-with-dot-dot")
def _(world):
    cmd = f"cat .{world.host.secret_file}"
    paths = ("/workspace/../../../..", "../../..", "/workspace/../proc/1/root")
    return first_escape(stealing(world, cmd, workdir=path, **in_session(world)) for path in paths)


@attempt("fds", "workdir-made-on-the-host")
def _(world):
    """A missing working folder is created inside the box only, with the privileges of commands."""
    target = world.host.folder / "made-by-workdir"
    results = []
    for path in (str(target), f"/workspace/../../..{target}", "/usr/made", "/proc/made"):
        world.run("true", workdir=path, **in_session(world))
        made = target.exists() or os.path.exists("/usr/made")
        results.append(escaped(path) if made else blocked("not made"))
    return first_escape(results)


# Sources of mounts.


def as_source(world, path, cmd, wanted, **more):
    """Both ways to name a host path."""
    extra = [{"host_path": str(path), "mount_path": "/data", "mode": "ro"}]
    return first_escape(
        [
            trying(world, cmd.replace("@", "/workspace"), wanted, host_path=str(path), **more),
            trying(world, cmd.replace("@", "/data"), wanted, extra_mounts=extra, **more),
        ]
    )


REFUSED = {
    "etc": "/etc",
    "below-etc": "/etc/ssl",
    "proc": "/proc",
    "sys": "/sys",
    "dev": "/dev",
    "roots-home": "/root",
    "boot": "/boot",
    "run": "/run",
    "var-run": "/var/run",
    "root": "/",
}


def source(name, path):
    @attempt("mounts", f"source-{name}")
    def _(world):
        return as_source(world, path, "ls @ >/dev/null && echo came", "came")


for key, value in REFUSED.items():
    source(key, value)


@attempt("mounts", "source-link-to-etc")
def _(world):
    links = []
    for number, target in enumerate(("/etc", "/proc/self/root/etc", "../../../../../etc")):
        link = world.host.folder / f"link-{number}"
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        links.append(link)
    return first_escape(
        as_source(world, link, "cat @/passwd", "root:x:0:0:root:/root:/") for link in links
    )


@attempt("mounts", "source-below-a-link")
def _(world):
    link = world.host.folder / "link-below"
    link.unlink(missing_ok=True)
    link.symlink_to("/")
    return as_source(world, link / "etc", "cat @/passwd", "root:x:0:0:root:/root:/")


@attempt("mounts", "source-bind-mount-of-etc")
def _(world):
    """Another name for the same folder, which comparing texts cannot detect."""
    return as_source(world, world.bound, "cat @/passwd", "root:x:0:0:root:/root:/")


@attempt("mounts", "source-with-dot-dot")
def _(world):
    path = f"{world.host.folder}/../../etc"
    return as_source(world, path, "cat @/passwd", "root:x:0:0:root:/root:/")


@attempt("mounts", "source-by-proc-self-fd")
def _(world):
    paths = ("/proc/self/root/etc", "/proc/self/cwd", "/proc/self/fd/3", "/dev/fd/4")
    return first_escape(
        as_source(world, path, "ls @ >/dev/null && echo came", "came") for path in paths
    )


@attempt("mounts", "source-socket-fifo-device")
def _(world):
    fifo = world.host.folder / "fifo"
    with contextlib.suppress(FileExistsError):
        os.mkfifo(fifo)
    return first_escape(
        as_source(world, path, "test -e @ && ! test -d @ && echo came", "came")
        for path in (world.host.socket_file, fifo, "/dev/null", "/dev/mem")
    )


@attempt("mounts", "source-shadow-file")
def _(world):
    return as_source(world, "/etc/shadow", "cat @ && echo came", "came")


@attempt("mounts", "source-link-to-a-file")
def _(world):
    link = world.host.folder / "link-to-shadow"
    link.unlink(missing_ok=True)
    link.symlink_to("/etc/shadow")
    return as_source(world, link, "cat @ && echo came", "came")


@attempt("mounts", "source-made-below-a-refused-folder")
def _(world):
    """Missing host folders are created, but not there."""
    results = []
    for path in (
        "/etc/box-escape",
        "/run/box-escape",
        "/root/box-escape",
        "/dev/shm/../box-escape",
    ):
        results.append(as_source(world, path, "echo came", "came"))
        if os.path.isdir(path):
            os.rmdir(path)
            results.append(escaped(f"{path} was made"))
    return first_escape(results)


# Targets of mounts.

TARGETS = (
    "/",
    "/proc",
    "/proc/sys",
    "/etc",
    "/usr",
    "/usr/bin",
    "/dev",
    "/dev/null",
    "/bin",
    "/lib",
)


@attempt("mounts", "target-over-the-system")
def _(world):
    folder = str(world.workspace)
    results = []
    for target in TARGETS:
        extra = [{"host_path": folder, "mount_path": target, "mode": "rw"}]
        cmd = f"test -e {target}/of-the-owner && echo came"
        results.append(trying(world, cmd, "came", extra_mounts=extra))
        results.append(trying(world, cmd, "came", host_path=folder, mount_path=target))
    return first_escape(results)


@attempt("mounts", "target-by-a-link-of-the-payload")
def _(world):
    """As in CVE-2021-30465: the payload prepares the path, box-init follows it."""
    world.run(
        "cd /workspace; ln -sfn /etc into-etc; ln -sfn / into-root; ln -sfn /proc into-proc",
        **in_session(world),
    )
    results = []
    for target in ("into-etc", "into-root/usr/local", "into-proc/sys", "into-etc/deep"):
        extra = [{"host_path": str(world.workspace), "mount_path": f"/workspace/{target}"}]
        place = f"/workspace/{target}/of-the-owner"
        cmd = f"test -e {place} && test ! -L /workspace/into-etc && echo came"
        results.append(trying(world, cmd, "came", extra_mounts=extra, **in_session(world)))
        for real in ("/etc", "/usr/local", "/proc/sys"):
            cmd = f"test -e {real}/of-the-owner && echo came"
            results.append(trying(world, cmd, "came", extra_mounts=extra, **in_session(world)))
    return first_escape(results)


@attempt("mounts", "target-with-dot-dot")
def _(world):
    results = []
    for target in ("/workspace/../etc", "/data/../../proc", "data", "/data/./x/../../usr"):
        extra = [{"host_path": str(world.workspace), "mount_path": target}]
        cmd = (
            "ls /etc/of-the-owner /proc/of-the-owner /usr/of-the-owner 2>/dev/null | sed s/^/came/"
        )
        results.append(trying(world, cmd, "came", extra_mounts=extra))
    return first_escape(results)


@attempt("mounts", "target-folder-made-through-the-workspace")
def _(world):
    """Missing parts of a target are created with the privileges of commands: nothing appears
    outside."""
    target = world.host.folder / "outside"
    link = world.workspace / "to-outside"
    with contextlib.suppress(FileExistsError):
        link.symlink_to(target)
    extra = [{"host_path": str(world.workspace), "mount_path": "/workspace/to-outside/made"}]
    world.run("true", extra_mounts=extra, **in_session(world))
    return escaped("made") if (target / "made").exists() else blocked("not made")


@attempt("mounts", "mounts-of-one-command-in-another")
def _(world):
    """Mounts of one command are gone for the next one of the same session."""
    extra = [{"host_path": str(world.host.folder / "outside"), "mount_path": "/data", "mode": "ro"}]
    came = world.run("cat /data/secret", extra_mounts=extra, **in_session(world))
    assert came["data"]["stdout"] == world.host.secret, came
    return stealing(world, "cat /data/secret; ls /data", **in_session(world))
