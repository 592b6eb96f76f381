"""Attempts by clients that may ask boxd for boxes: read-only folders, limits, names, other tenants.

And what the attempts inside may have left behind on the host.
"""

import json
import os
import pathlib
import socket

import clientlib
from frame import blocked, escaped, first_escape

from outside import attempt, in_session, trying

# Read-only folders.


def writing(world, cmd, **spec):
    """Whether anything in the read-only folder was changed."""
    folder = world.host.folder / "read-only"
    if not folder.exists():
        world.host.make_folder("read-only")
    put_file(world, folder)
    world.run(cmd, session="x", **spec)
    world.client.call("box_delete_session", {"session_id": "x"})
    now = {path.name: path.read_text() for path in folder.iterdir()}
    return blocked("unchanged") if now == {"file": "as it was"} else escaped(json.dumps(now))


def put_file(world, folder):
    for path in folder.iterdir():
        path.unlink()
    (folder / "file").write_text("as it was")
    os.chown(folder / "file", world.owner, world.owner)


WRITES = (
    "echo changed >@/file; touch @/new; rm -f @/file; mv @/file @/moved; chmod 777 @/file; true"
)


@attempt("files", "write-to-a-read-only-workspace")
def _(world):
    folder = str(world.host.folder / "read-only")
    cmd = WRITES.replace("@", "/workspace")
    return writing(world, cmd, host_path=folder, host_path_mode="ro")


@attempt("files", "write-to-a-read-only-extra-mount")
def _(world):
    folder = str(world.host.folder / "read-only")
    extra = [{"host_path": folder, "mount_path": "/data", "mode": "ro"}]
    return writing(world, WRITES.replace("@", "/data"), extra_mounts=extra)


@attempt("files", "write-to-a-read-only-mount-by-another-way")
def _(world):
    """Read-only at one place and writable below another: each mount has its own rules."""
    folder = str(world.host.folder / "read-only")
    extra = [{"host_path": folder, "mount_path": "/data", "mode": "ro"}]
    ways = ("/proc/self/root/data", "/proc/self/cwd/../data", "/proc/thread-self/root/data")
    cmd = "; ".join(WRITES.replace("@", way) for way in ways)
    return writing(world, cmd, extra_mounts=extra)


@attempt("files", "writable-root-does-not-open-the-system")
def _(world):
    cmd = "; ".join(
        f"touch {folder}/box-escape-proof 2>/dev/null && echo came"
        for folder in ("/usr", "/usr/local", "/etc", "/dev", "/proc", "/usr/lib")
    )
    return trying(world, cmd, "came", read_only_rootfs=False)


# Limits and members of a spec.


@attempt("cgroups", "specs-without-a-limit")
def _(world):
    """Zero, negative or huge values must not mean no limit."""
    results = []
    for member in ("memory_mb", "pids_limit", "cpus"):
        for value in (0, -1, 2**63, 1e400, None, "max", "-1"):
            spec = {member: value}
            try:
                json.dumps(spec, allow_nan=False)
            except ValueError:
                continue
            answer = world.run("echo came", session="x", **spec)
            if answer["code"] != 0:
                results.append(blocked(answer["message"].split(":")[0]))
                continue
            given = answer_limits(world, "x")
            world.client.call("box_delete_session", {"session_id": "x"})
            bounded = all(given[name] and given[name] > 0 for name in given)
            results.append(
                blocked("a limit of its own") if bounded else escaped(f"{spec}: {given}")
            )
    return first_escape(results)


def answer_limits(world, session):
    listed = world.client.ask("box_get_sessions", {})["sessions"]
    found = next(one for one in listed if one["session_id"] == session)
    return {name: found[name] for name in ("memory_mb", "pids_limit", "cpus")}


@attempt("namespaces", "spec-asks-for-the-hosts-network")
def _(world):
    return first_escape(
        trying(world, "echo came", "came", network=value)
        for value in ("host", "none", "container:1", "", True, 1)
    )


@attempt("ids", "spec-asks-for-privileges")
def _(world):
    return first_escape(
        trying(world, "echo came", "came", **{name: value})
        for name, value in (
            ("privileged", True),
            ("user", "root"),
            ("uid", 0),
            ("cap_add", ["ALL"]),
            ("security_opt", ["seccomp=unconfined"]),
            ("devices", ["/dev/kvm"]),
            ("pid", "host"),
        )
    )


@attempt("fds", "environment-that-loads-code-into-init")
def _(world):
    """Variables of a spec are for the command: box-init is static and uses none."""
    marker = world.workspace / "loaded"
    variables = {
        "LD_PRELOAD": "/workspace/evil.so",
        "LD_LIBRARY_PATH": "/workspace",
        "ENV": "/workspace/e",
    }
    world.run("true", env=variables, **in_session(world))
    text = pathlib.Path(f"/proc/{world.init}/environ").read_bytes()
    maps = pathlib.Path(f"/proc/{world.init}/maps").read_text()
    if marker.exists() or b"LD_" in text or "/workspace" in maps:
        return escaped("loaded")
    return blocked("init has no environment")


@attempt("cgroups", "session-name-with-a-path")
def _(world):
    """Names become names of cgroups and records: they must not contain paths."""
    results = []
    for name in ("../../../escape", "/etc", "a/../../b", "..", ".", "x\ny", "%s%n", "a" * 300):
        answer = world.run("cat /proc/self/cgroup; pwd", session=name)
        told = answer["data"].get("stdout", "") if answer["code"] == 0 else ""
        results.append(escaped(told) if "escape" in told or "/.." in told else blocked("plain"))
        world.client.call("box_delete_session", {"session_id": name})
    strange = [path for path in pathlib.Path("/sys/fs/cgroup").glob("*/*escape*") if path.is_dir()]
    return escaped(strange) if strange else first_escape(results)


# Other tenants.


@attempt("tenants", "same-session-name")
def _(world):
    """The other tenant's session is called t; ours of that name is a different one."""
    result = trying(
        world, "cat /tmp/* /dev/shm/* /workspace/*", world.stranger["secret"], session="t"
    )
    world.client.call("box_delete_session", {"session_id": "t"}, context=world.own)
    return result


@attempt("tenants", "session-by-its-inner-name")
def _(world):
    name = clientlib.physical("t", workspace="ws2")
    results = []
    for session in (name, name[3:], f"../{name}", f"t\0{name}"):
        results.append(trying(world, "cat /tmp/*", world.stranger["secret"], session=session))
        world.client.call("box_delete_session", {"session_id": session})
    return first_escape(results)


def is_alive(world):
    listed = world.client.ask("box_get_sessions", {}, context=world.other)["sessions"]
    return [one["session_id"] for one in listed] == ["t"]


@attempt("tenants", "delete-the-strangers-session")
def _(world):
    for session in ("t", clientlib.physical("t", workspace="ws2")):
        world.client.call("box_delete_session", {"session_id": session}, context=world.own)
    return blocked("it lives") if is_alive(world) else escaped("it is gone")


@attempt("tenants", "list-the-strangers-sessions")
def _(world):
    answer = json.dumps(world.client.call("box_get_sessions", {}, context=world.own))
    told = (
        clientlib.physical("t", workspace="ws2") in answer or world.stranger["workspace"] in answer
    )
    return escaped(answer) if told else blocked("its own only")


@attempt("tenants", "context-of-another-instance")
def _(world):
    """On a connection of one instance, the name of another one is refused."""
    context = {**world.other, "instance_uuid": "somebody-else"}
    return trying(world, "cat /tmp/*", world.stranger["secret"], session="t", context=context)


@attempt("tenants", "older-generation")
def _(world):
    """An older generation must not come back."""
    world.client.call(
        "box_get_sessions", {}, context=clientlib.context(workspace="ws3", generation=5)
    )
    old = clientlib.context(workspace="ws3", generation=4)
    answer = world.client.call("box_exec", {"cmd": "echo came", "session_id": "o"}, context=old)
    return escaped(answer) if answer["code"] == 0 else blocked(answer["message"].split(":")[0])


@attempt("port", "connect-without-the-instance")
def _(world):
    """A stranger on the host's loopback, who has only the port."""
    with socket.create_connection(("127.0.0.1", world.port), 5) as sock:
        sock.settimeout(5)
        sock.sendall(
            b"GET /rpc/ws HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n"
            b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
            b"X-LangBot-Instance-Id: somebody-else\r\n\r\n"
        )
        answer = sock.recv(200)
    return escaped(answer[:40]) if b" 101 " in answer else blocked(answer[:12].decode())


@attempt("port", "connect-with-the-origin-of-a-page")
def _(world):
    with socket.create_connection(("127.0.0.1", world.port), 5) as sock:
        sock.settimeout(5)
        sock.sendall(
            b"GET /rpc/ws HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n"
            b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nOrigin: http://evil.test\r\n"
            b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
            b"X-LangBot-Instance-Id: " + clientlib.INSTANCE.encode() + b"\r\n\r\n"
        )
        answer = sock.recv(200)
    return escaped(answer[:40]) if b" 101 " in answer else blocked(answer[:12].decode())


# Marks of the attempts inside that are left on the host.


@attempt("files", "secret-file-is-unchanged")
def _(world):
    same = world.host.secret_file.read_text() == world.host.secret
    names = os.listdir(world.host.folder / "outside")
    return blocked("unchanged") if same and names == ["secret"] else escaped(names)


@attempt("files", "no-proof-on-the-host")
def _(world):
    folders = ("/", "/usr", "/usr/bin", "/usr/local", "/usr/local/bin", "/usr/lib", "/etc", "/dev")
    found = [folder for folder in folders if os.path.exists(f"{folder}/box-escape-proof")]
    for folder in found:
        os.unlink(f"{folder}/box-escape-proof")
    return escaped(found) if found else blocked("none")


@attempt("boxes", "neighbours-still-run")
def _(world):
    gone = [
        pid
        for other in (world.neighbour, world.stranger)
        for pid in other["pids"]
        if not os.path.exists(f"/proc/{pid}")
    ]
    return escaped(gone) if gone else blocked("all")


@attempt("boxes", "neighbour-keeps-its-room")
def _(world):
    """While a box uses all it may, its neighbour still has room in each of its folders."""
    fill = (
        "for d in /tmp /dev/shm /home/box /run; do cat /dev/zero >$d/fill; done 2>/dev/null; true"
    )
    world.run(f"timeout 10 sh -c '{fill}'", session="x")
    write = "head -c 1048576 /dev/zero >$d/more && rm $d/more"
    cmd = f"for d in /tmp /dev/shm /run; do {write} || exit 1; done"
    answer = world.run(cmd, session="n", host_path=world.neighbour["workspace"])
    world.client.call("box_delete_session", {"session_id": "x"})
    ok = answer["code"] == 0 and answer["data"]["exit_code"] == 0
    return blocked("it does") if ok else escaped(json.dumps(answer)[:200])
