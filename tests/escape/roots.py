"""Attempts to mount what the operator has not allowed: folders outside of the mount roots, Box's own
folders, skills of others. Each has a boxd of its own, with a mount root as LangBot has it.

What may be returned is as in inside/frame.py.
"""

import contextlib
import fcntl
import json
import os
import pathlib
import shutil
import signal
import time

import boxdlib
import clientlib
import imagelib
from frame import blocked, escaped, first_escape

from outside import attempt
from shares import mount as artifact
from speakers import make_folder, user_of

OTHER = clientlib.context(workspace="ws2")
LEASE_SECONDS = 6
FOLDERS_OF_ROOT = ("/usr", "/usr/bin", "/var/spool", "/var/lib", "/home", "/opt", "/srv", "/tmp")


class Layout:
    """base/root is the mount root, base/image an operator's image, base/else is neither."""

    def __init__(self, world):
        self.world = world
        self.base = make_folder(world, "layout")
        self.root = self.make("root")
        self.ws = self.make("root/default")
        for name in ("image", "else"):
            imagelib.make_root(self.base / name, f"{world.host.secret}-{name}")
        # A weakened boxd may mount it in a box, whose payload would be its owner.
        self.own(self.base / "image")

    def make(self, name):
        path = self.base / name
        path.mkdir(parents=True)
        return self.own(path)

    def own(self, path):
        os.chown(path, user_of(self.world), user_of(self.world))
        return path

    def config(self, **local):
        members = {"degraded": self.world.rootless, "host_root": str(self.root), **local}
        images = members.pop("images", {})
        path = self.base / "boxd.yaml"
        path.write_text(json.dumps({"backend": "local", "local": members, "images": images}))
        return path

    def boxd(self, *flags, before=(), **local):
        if self.world.rootless:
            uid = user_of(self.world)
            ids = ("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--")
            before = (*before, *ids)
        return boxdlib.Boxd(
            f"--config={self.config(**local)}",
            *flags,
            programs=self.world.programs,
            before=before,
            cwd=self.base,
            instance=clientlib.INSTANCE,
            mount_roots=(),
        )

    @contextlib.contextmanager
    def client(self, *flags, **local):
        with self.boxd(*flags, **local) as boxd, boxd.web() as client:
            yield client.init(backend="local")


@contextlib.contextmanager
def layout(world):
    made = Layout(world)
    try:
        yield made
    finally:
        shutil.rmtree(made.base)


def came(client, cmd, **spec):
    """A box with this spec: an escape if its command can see the folder it asked for."""
    answer = client.call("box_exec", {"cmd": f"{cmd} && echo came", "session_id": "x", **spec})
    client.call("box_delete_session", {"session_id": "x"})
    if answer["code"] == 0 and "came" in answer["data"]["stdout"]:
        return escaped(str(spec)[:100])
    return blocked((answer["message"] or "").split(":")[0])


def extra(path, mode="rw"):
    return [{"host_path": str(path), "mount_path": "/m", "mode": mode}]


def as_source(client, path):
    """With every member that names a host folder. The result is only looked at."""
    return first_escape(
        [
            came(client, "ls /workspace >/dev/null", host_path=str(path)),
            came(client, "ls /m >/dev/null", extra_mounts=extra(path)),
            came(client, "ls /m >/dev/null", extra_mounts=extra(path, "ro")),
            came(client, "ls /m >/dev/null", volumes=extra(path)),
            by_process(client, path),
        ]
    )


def by_process(client, path):
    """A managed process gets the volumes of its session; one that cannot get them ends at once."""
    volumes = [{"host_path": str(path), "mount_path": "/m", "mode": "rw"}]
    made = client.call("box_create_session", {"session_id": "p", "volumes": volumes})
    if made["code"] != 0:
        return blocked(made["message"].split(":")[0])
    spec = {"process_id": "p", "command": "ls", "args": ["/m"]}
    answer = client.call("box_start_managed_process", {"session_id": "p", "spec": spec})
    asked = {"session_id": "p", "process_id": "p"}
    while answer["code"] == 0 and answer["data"]["status"] == "running":
        time.sleep(0.02)
        answer = client.call("box_get_managed_process", asked)
    client.call("box_delete_session", {"session_id": "p"})
    code = answer["data"].get("exit_code") if answer["code"] == 0 else 127
    return escaped(f"a process has {path}") if code == 0 else blocked(f"exit {code}")


@attempt("mounts", "source-folders-of-root")
def _(world):
    """With the default configuration: host_root, and no list of roots."""
    with layout(world) as made, made.client() as client:
        return first_escape(as_source(client, path) for path in FOLDERS_OF_ROOT)


@attempt("mounts", "image-outside-the-roots")
def _(world):
    with layout(world) as made, made.client() as client:
        return came(client, "cat /usr/mark", image=str(made.base / "else"))


@attempt("mounts", "manifest-outside-the-roots")
def _(world):
    """An error about its contents is reported only for a file that was read."""
    with layout(world) as made, made.client() as client:
        (made.base / "manifest.json").write_text("{}")
        os.chown(made.base / "manifest.json", user_of(world), user_of(world))
        one = artifact("0" * 64, made.ws, made.base / "manifest.json")
        answer = client.call("box_exec", {"cmd": "true", "session_id": "x", "extra_mounts": [one]})
        assert answer["code"] == 1, answer
        refused = "allowed_mount_roots" in answer["message"]
        return blocked("refused") if refused else escaped(answer["message"])


@attempt("mounts", "source-images-of-the-operator")
def _(world):
    """Where everything may be mounted: the folder around the image, the image, and a folder in it."""
    with layout(world) as made:
        image = made.base / "image"
        images = {"small": str(image)}
        with made.client(allowed_mount_roots=["/"], images=images) as client:
            return first_escape(as_source(client, path) for path in (made.base, image, image / "usr"))


@attempt("mounts", "operators-socket-in-a-box")
def _(world):
    """Without root a command has boxd's own uid: over this socket it would be the operator."""
    with layout(world) as made:
        run = made.make("run")
        flags = ("--socket", f"{run}/box.sock")
        with made.client(*flags, allowed_mount_roots=["/"]) as client:
            assert (run / "box.sock").exists()
            return first_escape(as_source(client, path) for path in (run, made.base))


@attempt("mounts", "operators-files-in-a-root")
def _(world):
    """The configuration, the token file, the socket: in places where a box could write or use them."""
    with layout(world) as made:
        (made.ws / "token").write_text("a" * 40)
        (made.ws / "token").chmod(0o600)
        made.own(made.ws / "token")
        (made.ws / "own.yaml").write_text(made.config().read_text())
        flags = (
            ("--socket", f"{made.ws}/box.sock"),
            ("--token-file", f"{made.ws}/token"),
            ("--config", f"{made.ws}/own.yaml"),
        )
        return first_escape(starts(made, *one) for one in flags)


@attempt("mounts", "images-of-the-operator-in-a-root")
def _(world):
    """A boxd that starts with this turns the operator's mistake into a root for everyone."""
    with layout(world) as made:
        inside, fs = made.root / "fs", made.base / "image"
        imagelib.make_root(inside, "inside")
        (made.base / "leads").symlink_to(made.root)
        (made.root / "out").symlink_to(fs)
        tried = [
            {"rootfs": str(inside)},
            {"rootfs": str(made.base)},
            {"rootfs": f"{made.base}/leads/fs"},
            {"rootfs": f"{made.base}/leads/out"},
            {"images": {"a": f"{made.base}/leads/none.img"}},
        ]
        return first_escape(starts(made, **one) for one in tried)


@attempt("mounts", "images-of-the-operator-by-bind-mounts")
def _(world):
    with layout(world) as made:
        inside, fs = made.make("root/fs"), made.base / "image"
        results = []
        for source, target in ((fs, inside), (fs / "usr", inside), (fs / "usr", made.root)):
            bind = f'mount --bind {source} {target} && exec "$@"'
            before = ("unshare", "-m", "sh", "-c", bind, "sh")
            results.append(starts(made, before=before, rootfs=str(fs)))
        return first_escape(results)


@attempt("mounts", "second-name-of-an-image-file")
def _(world):
    with layout(world) as made:
        image = made.base / "a.img"
        image.write_bytes(bytes(4096))
        os.link(image, made.root / "b.img")
        return starts(made, images={"a": str(image)})


def starts(made, *flags, **options):
    boxd = made.boxd(*flags, **options)
    try:
        boxdlib.wait_until(
            lambda: boxd.events("serving") or not boxdlib.is_alive(boxd.pid), 20, "its start"
        )
        if boxd.events("serving"):
            return escaped(f"boxd serves with {flags} {options}")
        code = boxd.wait(20)
        assert code == 78, boxd.tail()
        return blocked(f"exit {code}")
    finally:
        boxd.stop()


def swapped(made, client):
    """By a box with the outer one of two roots; the folder that a box must not have."""
    swap = f"mv sub sub2; ln -s {made.base}/else sub; true"
    done = client.call("box_exec", {"cmd": swap, "session_id": "evil", "host_path": str(made.ws)})
    assert done["code"] == 0 and (made.ws / "sub").is_symlink(), done
    return str(made.base / "else")


@attempt("mounts", "root-swapped-for-a-link")
def _(world):
    with layout(world) as made:
        roots = [str(made.ws), str(made.make("root/default/sub"))]
        with made.client(allowed_mount_roots=roots) as client:
            return came(client, "true", image=swapped(made, client))


@attempt("mounts", "root-swapped-before-the-next-start")
def _(world):
    with layout(world) as made:
        roots = [str(made.ws), str(made.make("root/default/sub"))]
        with made.client(allowed_mount_roots=roots) as client:
            secret = swapped(made, client)
        with made.client(allowed_mount_roots=roots) as client:
            return came(client, "true", image=secret)


@attempt("mounts", "image-that-is-made-later")
def _(world):
    """An operator's image that was missing at the start belongs to whoever creates it."""
    with layout(world) as made, made.client(images={"late": f"{made.base}/late"}) as client:
        imagelib.make_root(made.base / "late", "late")
        return came(client, "true", image="late")


@attempt("mounts", "skills-of-another-workspace")
def _(world):
    """The package, the folder of its workspace, the store and the folder around it."""
    with layout(world) as made, made.client() as client:
        skill = {"skill": {"name": "theirs", "instructions": world.host.secret}}
        answer = client.call("box_create_skill", skill, context=OTHER)
        assert answer["code"] == 0, answer
        told = client.call("box_get_skill", {"name": "theirs"}, context=OTHER)["data"]["skill"]
        package = pathlib.Path(told["package_root"])
        paths = (package, package.parent, package.parents[1], package.parents[2], made.root)
        (package / "manifest.json").write_text("{}")
        one = artifact("0" * 64, package, package / "manifest.json")
        answer = client.call("box_exec", {"cmd": "true", "session_id": "x", "extra_mounts": [one]})
        client.call("box_delete_session", {"session_id": "x"})
        held = "skill store" in answer["message"]
        results = [blocked("no artifact") if held else escaped(answer["message"])]
        results += [as_source(client, path) for path in paths]
        file = package / "SKILL.md"
        results.append(came(client, "cat /m >/dev/null", extra_mounts=extra(file, "ro")))
        return first_escape(results)


@attempt("mounts", "roots-by-box-init")
def _(world):
    """A client sets where boxes may mount, and where the skills are."""
    with layout(world) as made, made.client() as client:
        store = made.make("store")
        before = store.stat()
        local = {"host_root": str(made.base), "allowed_mount_roots": ["/", str(made.base / "else")]}
        client.call("box_init", {"backend": "local", "local": {**local, "skills_root": str(store)}})
        client.call("box_list_skills", {})
        after = store.stat()
        taken = before.st_uid != after.st_uid or any(store.iterdir())
        results = [escaped("skills_root was made and given away") if taken else blocked("left")]
        results.append(came(client, "ls /m >/dev/null", extra_mounts=extra(made.base / "else")))
        return first_escape(results)


@attempt("neighbours", "lease-on-an-image")
def _(world):
    """The holder of a lease on an operator's image would block boxd, and with it everyone."""
    with layout(world) as made:
        image = made.base / "leased.img"
        image.write_bytes(bytes(1 << 20))
        fd = os.open(image, os.O_RDWR)
        before = signal.signal(signal.SIGIO, lambda *ignored: None)
        begun = time.monotonic()
        boxd = None
        try:
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            made.own(image)
            boxd = made.boxd(images={"a": str(image)})
            with contextlib.suppress(AssertionError):
                boxdlib.wait_until(lambda: boxd.events("serving"), LEASE_SECONDS)
            took = time.monotonic() - begun
        finally:
            os.close(fd)
            signal.signal(signal.SIGIO, before)
            if boxd:
                boxd.stop()
        said = f"{took:.1f} s"
        return escaped(said) if took >= LEASE_SECONDS else blocked(said)
