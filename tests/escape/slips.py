"""Attempts that exploit a mistake in the operator's own configuration: a misspelt or misplaced key,
an empty list. Each has a boxd of its own.

A boxd that does not start is safe. One that starts must enforce what was meant. What may be returned is
as in inside/frame.py.
"""

import contextlib
import json
import signal

import boxdlib
from frame import blocked, escaped, first_escape

from outside import attempt
from speakers import make_folder, runtime

# Keys that restrict boxes or clients, misspelt and misplaced as people do.
SLIPS = (
    {"local": {"seccmop": "strict"}},
    {"local": {"Seccomp": "strict"}},
    {"seccomp": "strict"},
    {"local": {"rootf": "/srv"}},
    {"rootfs": "/srv"},
    {"limits": {"max_memory_mbs": 64}},
    {"limits": {"max-pids": 16}},
    {"max_pids": 16},
    {"limit": {"max_pids": 16}},
    {"require-context": True},
    {"local": {"require_context": True}},
    {"admission": {"requird": True}},
    {"required": True},
    {"Admission": {"required": True}},
)
ROOT_SLIPS = (
    {"allowed_mount_roots": []},
    {"allowed-mount-roots": []},
    {"local": {"allowed_mount_root": []}},
    {"local": {"allowed-mount-roots": []}},
    {"local": {"AllowedMountRoots": []}},
    {"limits": {"allowed_mount_roots": []}},
)


def merged(slip, host_root):
    return {**slip, "local": {**slip.get("local", {}), "host_root": host_root}}


def started(boxd):
    """Whether it serves; None once it has ended."""
    boxdlib.wait_until(lambda: boxd.process.poll() is not None or boxd.events("serving"), 20)
    return boxd.process.poll() is None


@contextlib.contextmanager
def configured(world, config, variable=None):
    """A boxd with this configuration file, and no mount roots on its command line."""
    if world.rootless:
        config = {**config, "local": {**config.get("local", {}), "degraded": True}}
    path = make_folder(world, "file") / "boxd.yaml"
    path.write_text(json.dumps(config))
    path.chmod(0o644)
    with runtime(world, f"--config={path}", mount_roots=(), config=variable) as boxd:
        yield boxd, path


def judge_mount(world, boxd, folder):
    """A client mounts from the file's host root, although the file allows no mounts."""
    if not started(boxd):
        return blocked(f"exit {boxd.process.returncode}")
    spec = {"session_id": "s", **world.spec(host_path=str(folder))}
    with boxd.web() as client:
        answer = client.call("box_exec", {"cmd": "cat /workspace/secret", **spec})
    stolen = answer["code"] == 0 and world.host.secret in answer["data"]["stdout"]
    return escaped("read") if stolen else blocked(answer["message"])


def with_secret(world):
    folder = make_folder(world, "root") / "inside"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    (folder / "secret").write_text(world.host.secret)
    (folder / "secret").chmod(0o644)
    return folder


@attempt("configuration", "mount-by-a-misspelt-list-of-roots")
def _(world):
    folder, results = with_secret(world), []
    for slip in ROOT_SLIPS:
        whole = merged(slip, str(folder.parent))
        for config in (whole, {"box": whole}):
            with configured(world, config) as (boxd, _):
                results.append(judge_mount(world, boxd, folder))
    return first_escape(results)


@attempt("configuration", "mount-by-an-empty-list-of-roots")
def _(world):
    folder, results = with_secret(world), []
    for roots in ([], [None], [""]):
        config = {"local": {"host_root": str(folder.parent), "allowed_mount_roots": roots}}
        with configured(world, config) as (boxd, _):
            results.append(judge_mount(world, boxd, folder))
    return first_escape(results)


@attempt("configuration", "mount-by-no-list-of-roots")
def _(world):
    """The file says nothing about mounts: folders beside boxd's own data/box must not be mounted."""
    folder = with_secret(world)
    with configured(world, {}) as (boxd, _):
        return judge_mount(world, boxd, folder)


@attempt("configuration", "misspelt-members")
def _(world):
    results = []
    for slip in SLIPS:
        for config in (slip, {"box": slip}):
            with configured(world, config) as (boxd, _):
                serves = started(boxd)
                results.append(escaped(f"serves with {slip}") if serves else blocked("refused"))
    return first_escape(results)


@attempt("configuration", "misspelt-members-of-the-variable")
def _(world):
    results = []
    for slip in ({"local": {"allowed_mount_root": []}}, {"admission": {"requird": True}}):
        with configured(world, {}, slip) as (boxd, _):
            serves = started(boxd)
            results.append(escaped(f"serves with {slip}") if serves else blocked("refused"))
    return first_escape(results)


@attempt("configuration", "slip-in-a-reload")
def _(world):
    """The typo would reset a limit to its default."""
    with configured(world, {"limits": {"max_sessions": 2}}) as (boxd, path):
        assert started(boxd)
        path.write_text(json.dumps({"limits": {"max_sesions": 2}}))
        boxd.signal(signal.SIGHUP)
        boxdlib.wait_until(
            lambda: boxd.events("config.reloaded") or boxd.events("config.unchanged"), 20
        )
        with boxd.web() as client:
            most = client.ask("box_status")["limits"]["max_sessions"]
    return blocked("2 sessions still") if most == 2 else escaped(f"{most} sessions")
