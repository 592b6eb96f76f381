"""Attempts of one workspace to get at another's data, or to use up what all of them share.

The attacker is the client's own workspace; the victim is `world.other`. What may be returned is
as in inside/frame.py.
"""

import fcntl
import hashlib
import json
import os
import signal
import time

from frame import blocked, escaped
from outside import attempt

MIB = 1 << 20
ETC_FILES = 16000


def own(world, path):
    os.chown(path, world.owner, world.owner)
    return path


def artifact(world, name, content, wrong=False):
    """A mount of one file, with the digest of its manifest."""
    folder = world.host.make_folder(name)
    package = folder / "package"
    package.mkdir()
    own(world, package)
    entry = {"path": "file", "size": len(content), "executable": False}
    entry["sha256"] = hashlib.sha256(content).hexdigest()
    manifest = {"algorithm": "sha256-tree-v1", "files": [entry], "total_bytes": len(content)}
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"))
    (package / "file").write_bytes(content[:-1] + b"\xff" if wrong else content)
    own(world, package / "file")
    (folder / "manifest.json").write_text(text)
    own(world, folder / "manifest.json")
    return mount(hashlib.sha256(text.encode()).hexdigest(), package, folder / "manifest.json")


def mount(digest, package, manifest):
    return {
        "host_path": str(package),
        "mount_path": f"/opt/langbot-artifacts/{digest}",
        "mode": "ro",
        "content_digest": f"sha256:{digest}",
        "manifest_path": str(manifest),
    }


def delete(world, *sessions, context=...):
    members = {} if context is ... else {"context": context}
    for session in sessions:
        world.client.call("box_delete_session", {"session_id": session}, **members)


@attempt("neighbours", "artifact-by-digest-alone")
def _(world):
    """A tenant that knows a digest, but does not have the tree, reads it."""
    secret = f"{world.host.secret}-in-an-artifact"
    theirs = artifact(world, "art-secret", secret.encode())
    first = world.run("true", "art", context=world.other, extra_mounts=[theirs])
    assert first["code"] == 0, first
    empty = world.host.make_folder("art-empty")
    (empty / "manifest.json").write_text("{}")
    own(world, empty / "manifest.json")
    digest = theirs["content_digest"].removeprefix("sha256:")
    mine = mount(digest, empty, empty / "manifest.json")
    answer = world.run(f"cat {mine['mount_path']}/file", "x", extra_mounts=[mine])
    delete(world, "x")
    delete(world, "art", context=world.other)
    if answer["code"] == 0 and secret in answer["data"]["stdout"]:
        return escaped("read what another workspace has brought")
    return blocked(answer["message"][:80])


@attempt("neighbours", "false-fill-of-an-artifact")
def _(world):
    """A source that does not match its digest, sent first, makes the neighbour's valid one fail."""
    content = os.urandom(20 * MIB)
    wrong = artifact(world, "art-wrong", content, wrong=True)
    right = artifact(world, "art-right", content)
    data = {"cmd": "true", **world.spec()}
    for members in ({}, {"context": world.other}):
        made = {"session_id": "fill", **world.spec()}
        assert world.client.call("box_create_session", made, **members)["code"] == 0
    mine = world.client.start("box_exec", {**data, "session_id": "fill", "extra_mounts": [wrong]})
    theirs = world.client.start(
        "box_exec",
        {**data, "session_id": "fill", "extra_mounts": [right]},
        context=world.other,
    )
    answers = [world.client.wait(seq, 60) for seq in (mine, theirs)]
    delete(world, "fill")
    delete(world, "fill", context=world.other)
    assert answers[0]["code"] == 1, answers[0]
    if answers[1]["code"] == 1:
        return escaped(answers[1]["message"])
    return blocked("the neighbour's own source was taken")


@attempt("neighbours", "memory-of-artifacts")
def _(world):
    """Boxes of 64 MiB hold 60 MiB of artifacts that are charged to none of them."""
    names = [f"hold{number}" for number in range(3)]
    came = 0
    for name in names:
        held = artifact(world, f"art-{name}", os.urandom(20 * MIB))
        came += world.run("true", name, extra_mounts=[held])["code"] == 0
    delete(world, *names)
    return escaped("60 MiB held") if came == len(names) else blocked(f"{came} of {len(names)}")


@attempt("neighbours", "all-sessions-taken")
def _(world):
    names = [f"many{number}" for number in range(40)]
    answers = [world.client.call("box_create_session", {"session_id": one}) for one in names]
    other = world.run("true", "late", context=world.other)
    delete(world, *names)
    delete(world, "late", context=world.other)
    assert any(answer["code"] == 1 for answer in answers), "there are more than were tried"
    return escaped(other["message"]) if other["code"] == 1 else blocked("one was left")


@attempt("neighbours", "unbounded-spec")
def _(world):
    results = []
    for name, value in (("memory_mb", 4_000_000), ("cpus", 4000), ("pids_limit", 4_000_000)):
        answer = world.run("true", "x", **{name: value})
        delete(world, "x")
        results.append(name if answer["code"] == 0 else None)
    taken = [one for one in results if one]
    return escaped(f"taken: {taken}") if taken else blocked("refused by name")


def quickest_and_slowest(world, seconds):
    times = []
    until = time.monotonic() + seconds
    while time.monotonic() < until or len(times) < 3:
        start = time.monotonic()
        answer = world.run("true", "quick", context=world.other)
        assert answer["code"] == 0, answer
        delete(world, "quick", context=world.other)
        times.append(time.monotonic() - start)
    return sorted(times)[len(times) // 2], max(times)


def root_folder(world, name):
    root = world.host.make_folder(name)
    (root / "bin").mkdir()
    (root / "bin" / "sh").write_text("")
    (root / "bin" / "sh").chmod(0o755)
    (root / "etc").mkdir()
    return root


@attempt("neighbours", "lease-in-the-etc-of-an-image")
def _(world):
    """Opening a file with a lease blocks for up to 45 s, opening a FIFO forever."""
    root = root_folder(world, "leased")
    os.mkfifo(root / "etc" / "fifo")
    (root / "etc" / "leased").write_text("")
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    idle, _ = quickest_and_slowest(world, 0.5)
    with open(root / "etc" / "leased", "r+b") as file:
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        data = {"cmd": "true", "session_id": "leased", **world.spec(), "image": str(root)}
        asked = world.client.start("box_exec", data)
        _, worst = quickest_and_slowest(world, 0.5)
    world.client.wait(asked, 120)
    delete(world, "leased")
    said = f"{worst:.2f} s, alone {idle:.2f}"
    return escaped(said) if worst > 12 * idle + 1 else blocked(said)


@attempt("neighbours", "large-etc-of-an-image", measured=True)
def _(world):
    """Boxes with a large etc in their image, while a neighbour asks for boxes of its own."""
    root = root_folder(world, f"large-{os.urandom(4).hex()}")
    for number in range(ETC_FILES):
        (root / "etc" / f"file-{number}").write_bytes(b"")
    idle, _ = quickest_and_slowest(world, 0.5)
    data = {"cmd": "true", **world.spec(), "image": str(root)}
    asked = [
        world.client.start("box_exec", {**data, "session_id": f"large{number}"})
        for number in range(16)
    ]
    _, worst = quickest_and_slowest(world, 0.5)
    for seq in asked:
        world.client.wait(seq, 120)
    delete(world, *(f"large{number}" for number in range(16)))
    said = f"{worst / idle:.0f} times as long as alone"
    return escaped(said) if worst > 12 * idle + 0.2 else blocked(said)
