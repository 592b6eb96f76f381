"""Artifact mounts: a tree named by its digest is checked once, copied to a place where nobody can
change it, and mounted from there. A tree that does not match its digest is refused.
"""

import hashlib
import json
import os
import re

import pytest

import nativelib

FAILED = "BoxError: Immutable artifact preparation failed: "
MALFORMED = "Artifact manifest is malformed"
MIB = 1 << 20

pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.fixture(scope="module")
def client(place):
    with nativelib.dialled(place) as made:
        yield made


def own_folder(place, path):
    path.mkdir()
    return place.own(path)


class Artifact:
    """A package and its manifest, as LangBot's skill store has them."""

    names = iter(range(10**6))

    def __init__(self, place, files, executable=()):
        self.place = place
        self.folder = place.make(f"artifact-{next(self.names)}")
        self.package = own_folder(place, self.folder / "package")
        self.files = files
        for path, content in files.items():
            self.put(path, content)
        entries = [
            {
                "path": path,
                "size": len(content),
                "sha256": hashlib.sha256(content).hexdigest(),
                "executable": path in executable,
            }
            for path, content in files.items()
        ]
        self.manifest = {
            "algorithm": "sha256-tree-v1",
            "files": entries,
            "total_bytes": sum(map(len, files.values())),
        }
        self.write()

    def put(self, path, content):
        target = self.package / path
        for parent in reversed(target.relative_to(self.package).parents[:-1]):
            if not (self.package / parent).exists():
                own_folder(self.place, self.package / parent)
        target.write_bytes(content)
        self.place.own(target)

    def write(self, text=None):
        canonical = json.dumps(
            self.manifest, sort_keys=True, separators=(",", ":"), ensure_ascii=False
        )
        self.digest = hashlib.sha256(canonical.encode()).hexdigest()
        self.place.write(
            self.folder / "manifest.json", json.dumps(self.manifest) if text is None else text
        )

    def mount(self, **changed):
        digest = changed.pop("digest", self.digest)
        return {
            "host_path": str(self.package),
            "mount_path": f"/opt/langbot-artifacts/{digest}",
            "mode": "ro",
            "content_digest": f"sha256:{digest}",
            "manifest_path": str(self.folder / "manifest.json"),
            **changed,
        }


def refusal(client, mount, session="refused"):
    data = {"cmd": "true", "session_id": session, "extra_mounts": [mount]}
    return client.fail("box_exec", data)


def test_what_is_mounted(place, client):
    """The files of the manifest and no others, unchanged whatever happens to the source."""
    files = {
        "SKILL.md": "---\nname: x\n---\ngrüße\n".encode(),
        "scripts/run.sh": b"#!/bin/sh\necho ran\n",
        "a/b/c/deep \"nämé\"": b"",
        "big": os.urandom(3 * MIB),
    }
    artifact = Artifact(place, files, executable=["scripts/run.sh"])
    artifact.put("not in the manifest", b"x")
    (artifact.package / "link").symlink_to("/etc/passwd")
    at = f"/opt/langbot-artifacts/{artifact.digest}"
    cmd = (
        f"cd {at} && find . | LC_ALL=C sort && sha256sum big | cut -c1-64 && ./scripts/run.sh && "
        "stat -c %a SKILL.md scripts/run.sh scripts && touch x; echo x >> SKILL.md; rm big"
    )
    result = client.exec(cmd, "mounted", extra_mounts=[artifact.mount()])
    assert result["stdout"].splitlines() == [
        *[".", "./SKILL.md", "./a", "./a/b", "./a/b/c", './a/b/c/deep "nämé"', "./big"],
        *["./scripts", "./scripts/run.sh"],
        *[hashlib.sha256(files["big"]).hexdigest(), "ran", "444", "555", "755"],
    ]
    for why in ("touch: cannot touch .x.: Read-only", "cannot create SKILL.md: Perm", "rm: .*: Read-only"):
        assert re.search(why, result["stderr"]), result
    # Later changes of the source have no effect.
    artifact.put("SKILL.md", b"changed")
    again = client.exec(f"cat {at}/SKILL.md", "another", extra_mounts=[artifact.mount()])
    assert again["stdout"] == files["SKILL.md"].decode().strip()


def test_session_stays(place, client):
    """An artifact belongs to one command, not to the session: it is mounted for the command only."""
    artifact = Artifact(place, {"f": b"x"})
    at = f"/opt/langbot-artifacts/{artifact.digest}"
    client.exec("echo kept > /tmp/f", "stays")
    with_it = client.exec(f"cat /tmp/f {at}/f", "stays", extra_mounts=[artifact.mount()])
    assert with_it["stdout"] == "kept\nx"
    assert client.exec(f"cat /tmp/f; ls {at}", "stays")["stdout"].split() == ["kept"]


# -- refusals


def spoil_size(artifact):
    artifact.put("f", b"longer than it was")


def spoil_content(artifact):
    artifact.put("f", b"other")


def spoil_missing(artifact):
    (artifact.package / "f").unlink()


@pytest.mark.parametrize("spoil", [spoil_size, spoil_content, spoil_missing])
def test_changed_source(place, client, spoil):
    artifact = Artifact(place, {"e": spoil.__name__.encode(), "f": b"right"})
    spoil(artifact)
    assert refusal(client, artifact.mount()) == f"{FAILED}Artifact source changed: f"
    # A refusal is not remembered: once the source matches, it is accepted.
    artifact.put("f", b"right")
    assert client.exec("true", "mended", extra_mounts=[artifact.mount()])["exit_code"] == 0


@pytest.mark.parametrize("kind", ["link", "folder link", "fifo", "folder"])
def test_irregular_source(place, client, kind):
    artifact = Artifact(place, {"d/f": b"root:x:0:0"})
    target = artifact.package / "d" / "f"
    target.unlink()
    if kind == "link":
        target.symlink_to("/etc/passwd")
    elif kind == "folder link":
        target.parent.rmdir()
        target.parent.symlink_to("/etc")
    elif kind == "fifo":
        os.mkfifo(target)
        place.own(target)
    else:
        own_folder(place, target)
    text = refusal(client, artifact.mount())
    assert text == f"{FAILED}Artifact source must be a regular file"


def test_wrong_digest(place, client):
    artifact = Artifact(place, {"f": b"x"})
    other = Artifact(place, {"f": b"y"})
    text = refusal(client, artifact.mount(digest=other.digest))
    assert text == f"{FAILED}Artifact manifest does not match content_digest"
    # Nor is the other tenant's tree used in its place when it exists.
    assert client.exec("true", "other", extra_mounts=[other.mount()])["exit_code"] == 0
    assert client.exec("true", "one", extra_mounts=[artifact.mount()])["exit_code"] == 0


def entry(path="f", **changed):
    return {"path": path, "size": 0, "sha256": hashlib.sha256(b"").hexdigest(),
            "executable": False, **changed}


@pytest.mark.parametrize(
    "files, total",
    [
        *[([entry(path)], 0) for path in ("", "/f", "../f", "a/../f", "./f", "a//f", "f/", "a\\f")],
        ([entry("a\0b")], 0),
        ([entry("f"), entry("f")], 0),
        ([entry("f"), entry("f.d"), entry("f/g")], 0),
        ([entry()], 1),
        ([entry(size=-1)], -1),
        ([entry(size="0")], 0),
        ([entry(executable=0)], 0),
        ([entry(sha256="A" * 64)], 0),
        ([entry(mode=511)], 0),
        ({"f": entry()}, 0),
    ],
)
def test_malformed_manifest(place, client, files, total):
    artifact = Artifact(place, {"f": b""})
    artifact.manifest = {"algorithm": "sha256-tree-v1", "files": files, "total_bytes": total}
    artifact.write()
    assert refusal(client, artifact.mount()) == FAILED + MALFORMED


def test_manifest_that_is_none(place, client):
    artifact = Artifact(place, {"f": b""})
    for text in ("", "{", "[]", "null", '{"a": ' * 100):
        artifact.write(text)
        assert refusal(client, artifact.mount()) == FAILED + MALFORMED
    artifact.write("[" + " " * (4 * MIB) + "]")
    assert "larger than 4 MiB" in refusal(client, artifact.mount())
    artifact.manifest["algorithm"] = "sha512-tree-v1"
    artifact.write()
    assert refusal(client, artifact.mount()) == FAILED + MALFORMED


def test_limits_connections(place, client):
    artifact = Artifact(place, {"f": b""})
    artifact.manifest["files"] = [entry(f"f{n}") for n in range(2049)]
    artifact.write()
    assert "too many files" in refusal(client, artifact.mount())
    artifact.manifest["files"] = [entry("f", size=256 * MIB), entry("g", size=1)]
    artifact.manifest["total_bytes"] = 256 * MIB + 1
    artifact.write()
    assert "larger than 256 MiB" in refusal(client, artifact.mount())


def test_paths_are_held_to_the_rules(place, client):
    """Limits of the folder and of the manifest apply also when the tree is already there."""
    artifact = Artifact(place, {"f": b"x"})
    assert client.exec("true", "first", extra_mounts=[artifact.mount()])["exit_code"] == 0
    for changed in ({"host_path": "/etc"}, {"manifest_path": "/etc/passwd"}):
        assert "is blocked for security" in refusal(client, artifact.mount(**changed))
    gone = str(artifact.folder / "gone")
    for changed in ({"host_path": gone}, {"manifest_path": gone}):
        assert "does not exist" in refusal(client, artifact.mount(**changed))


def test_many_at_once(place, client):
    """One copy for all boxes, and many trees in one box."""
    shared = Artifact(place, {"f": os.urandom(8 * MIB)})
    asked = [
        client.start(
            "box_exec",
            {
                "cmd": f"sha256sum < /opt/langbot-artifacts/{shared.digest}/f",
                "session_id": f"many-{n}",
                "extra_mounts": [shared.mount()],
            },
        )
        for n in range(8)
    ]
    wanted = hashlib.sha256(shared.files["f"]).hexdigest()
    for seq in asked:
        assert client.wait(seq)["data"]["stdout"].split()[0] == wanted
    trees = [Artifact(place, {"f": str(n).encode()}) for n in range(20)]
    cmd = "cat /opt/langbot-artifacts/*/f | tr -d '\\n' | wc -c"
    result = client.exec(cmd, "all", extra_mounts=[tree.mount() for tree in trees])
    assert result["stdout"] == "30", result


def test_cache_of_a_box(place, client):
    """One box can have 256 MiB of trees; more need another box."""
    blob = bytes(90 * MIB)
    trees = [Artifact(place, {"f": blob, "n": str(n).encode()}) for n in range(3)]
    for tree in trees[:2]:
        assert client.exec("true", "full", extra_mounts=[tree.mount()])["exit_code"] == 0
    text = refusal(client, trees[2].mount(), "full")
    assert text == f"{FAILED}Immutable artifact cache limit reached; acquire a new Box"
    assert client.exec("true", "full", extra_mounts=[trees[0].mount()])["exit_code"] == 0
    assert client.exec("true", "fresh", extra_mounts=[trees[2].mount()])["exit_code"] == 0


def test_after_the_death_of_the_worker(place, client):
    """boxd keeps the trees."""
    artifact = Artifact(place, {"f": b"x"})
    at = f"/opt/langbot-artifacts/{artifact.digest}/f"
    assert client.exec(f"cat {at}", "lives", extra_mounts=[artifact.mount()])["stdout"] == "x"
    client.boxd.kill_worker()
    client.boxd.wait_served(2)
    with client.boxd.web() as after:
        after.init(backend="local")
        result = after.exec(f"cat {at}", "lives", extra_mounts=[artifact.mount()])
        assert result["stdout"] == "x"
