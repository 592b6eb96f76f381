"""What boxes may mount: folders below the operator's mount roots, and there nothing that belongs to
Box itself. Each test tries what a caller or another tenant's payload would.
"""

import fcntl
import os
import pathlib
import shutil
import signal
import subprocess
import time

import boxdlib
import clientlib
import imagelib
import pytest

pytestmark = pytest.mark.usefixtures("nothing_left")

OUTSIDE = "is outside allowed_mount_roots: start boxd with --mount-root "
OWN = "it is at, above or below rootfs, an image, the configuration"
STORE = "from the skill store a box gets packages of its own workspace only"
OTHER = "ws-" + "0" * 24


class World:
    """host_root with workspaces and the skill store as LangBot has them; images and rootfs beside."""

    def __init__(self, place, more=""):
        self.place = place
        self.base = place.make("base")
        self.root = place.make("base", "root")
        self.ws = place.make("base", "root", "default")
        self.image = place.make("base", "images") / "small"
        imagelib.make_root(self.image, "small")
        text = f"local:\n  degraded: true\n  host_root: {self.root}\n{more.format(w=self)}"
        text += f"images:\n  small: {self.image}\n  late: {self.base}/images/late\n"
        self.config = place.write(place.folder / "roots.yaml", text)

    def start(self, *args, **options):
        options.setdefault("mount_roots", ())
        return self.place.start("--config", str(self.config), *args, **options)


@pytest.fixture(scope="module")
def world(place):
    made = World(place)
    yield made
    shutil.rmtree(made.base)


@pytest.fixture(scope="module")
def client(world):
    with world.start() as boxd, boxd.web() as made:
        yield made.init(backend="local")


def refusals(client, path, **spec):
    """As the workspace, rw and ro, and as an extra mount."""
    for mode in ("rw", "ro"):
        ask = {"cmd": "true", "session_id": "no", "host_path": str(path), "host_path_mode": mode}
        yield client.fail("box_exec", {**ask, **spec})
    mount = {"host_path": str(path), "mount_path": "/m", "mode": "rw"}
    yield client.fail("box_exec", {"cmd": "true", "session_id": "more", "extra_mounts": [mount]})


def check(client, path, why):
    for text in refusals(client, path):
        assert text.startswith("BoxValidationError: ") and why in text, text


def test_by_default_host_root(client, world):
    result = client.exec("echo x >f; cat f", "in", host_path=str(world.ws / "a"))
    assert result["stdout"] == "x" and (world.ws / "a" / "f").exists()


@pytest.mark.parametrize("path", ["/usr", "/usr/bin", "/var/spool", "/home", "/opt", "/srv", "/tmp"])
def test_source_elsewhere(client, path):
    """Otherwise root's folders would belong to the payload."""
    check(client, path, OUTSIDE + path)


def test_source_image_or_what_has_it(client, world):
    check(client, world.image, OUTSIDE)
    check(client, world.base, OUTSIDE)


def test_image_path_elsewhere(client, world):
    outside = imagelib.make_root(world.base / "outside-root", "outside")
    spec = {"cmd": "true", "session_id": "no"}
    assert OUTSIDE in client.fail("box_exec", {**spec, "image": str(outside)})
    # The answer does not even tell whether the path exists.
    assert OUTSIDE in client.fail("box_exec", {**spec, "image": f"{world.base}/none"})


def artifact(folder, manifest):
    digest = "0" * 64
    return {
        "host_path": str(folder),
        "manifest_path": str(manifest),
        "content_digest": f"sha256:{digest}",
        "mount_path": f"/opt/langbot-artifacts/{digest}",
        "mode": "ro",
    }


def test_manifest_elsewhere(client, world):
    inside = world.ws / "package"
    inside.mkdir()
    world.place.own(inside)
    manifest = world.place.write(world.base / "manifest.json", "{}")
    spec = {"cmd": "true", "session_id": "more", "extra_mounts": [artifact(inside, manifest)]}
    assert f"manifest_path {manifest} {OUTSIDE}" in client.fail("box_exec", spec)


def test_skill_store(client, world):
    """A tenant's own packages can be mounted by path; nothing else of the store, and nothing above
    it."""
    client.ask("box_create_skill", {"skill": {"name": "mine", "instructions": "x"}})
    package = client.ask("box_get_skill", {"name": "mine"})["skill"]["package_root"]
    store = world.root / "skills"
    tenant = os.path.dirname(package)
    other = store / "tenants" / OTHER / "theirs"
    other.mkdir(parents=True)
    os.chmod(other, 0o777)
    hidden = os.path.join(tenant, ".hidden")
    os.mkdir(hidden)
    mount = {"host_path": package, "mount_path": "/m", "mode": "ro"}
    result = client.exec("ls /m", "own", extra_mounts=[mount])
    assert result["stdout"] == "SKILL.md"
    for path in (world.root, store, store / "tenants", tenant, hidden, other, other.parent):
        check(client, path, STORE)
    new = other / "made"
    for text in refusals(client, new):
        assert STORE in text
    assert not new.exists()
    spec = {"cmd": "true", "session_id": "more", "extra_mounts": [artifact(other, other / "m")]}
    assert STORE in client.fail("box_exec", spec)


def test_image_that_a_payload_makes(client, world):
    imagelib.make_root(world.base / "images" / "late", "late")
    spec = {"cmd": "true", "session_id": "late", "image": "late"}
    assert "is checked again at the next start" in client.fail("box_exec", spec)


def test_fifo_in_a_host_folder(client, world):
    """Nobody writes to the FIFO: opening it for reading would block forever."""
    pipe = world.ws / "pipe"
    os.mkfifo(pipe)
    inside = {"host_path": str(pipe), "mount_path": "/m", "mode": "ro"}
    spec = {"cmd": "true", "session_id": "more", "extra_mounts": [inside]}
    assert "BoxValidationError" in client.fail("box_exec", spec)
    spec["extra_mounts"] = [artifact(world.ws, pipe)]
    assert "BoxValidationError" in client.fail("box_exec", spec)
    assert client.exec("echo on", "still")["stdout"] == "on"


def test_no_client_widens(world):
    """Keys that a client may not set are ignored in box_init; the refusal says what an operator has
    to write."""
    elsewhere = world.place.make("langbot")
    local = {"host_root": str(elsewhere), "allowed_mount_roots": [str(elsewhere), "/tmp", "/"]}
    with world.start() as boxd, boxd.web() as client:
        client.init(backend="local", local=local)
        boxd.wait_event("config.workspace_outside")
        assert not (elsewhere / "default").exists()
        for text in refusals(client, elsewhere / "default" / "x"):
            assert OUTSIDE + f"{elsewhere}, or" in text
        client.init(backend="local", local={"skills_root": str(elsewhere / "s")})
        client.ask("box_list_skills")
        assert not (elsewhere / "s").exists()
        assert client.exec("echo x", "in", host_path=str(world.ws))["stdout"] == "x"
        client.init(backend="local", local={"allowed_mount_roots": [str(world.ws / "only")]})
        assert client.exec("echo y", "on", host_path=str(world.ws / "only"))["stdout"] == "y"
        check(client, world.ws / "more", "which the client has named itself")


def test_stdio_parent_says(place):
    """The parent of a boxd on stdio sets the mount roots where no configuration file does."""
    root = place.make("parents")
    with place.start(stdio=True, mount_roots=()) as boxd, clientlib.Stdio(boxd) as client:
        client.init(backend="local", local={"host_root": str(root)})
        assert (root / "default").is_dir()
        assert client.exec("echo x", "in", host_path=str(root / "default"))["stdout"] == "x"
        check(client, place.home, OUTSIDE)


def test_mount_root_flag(world):
    more = world.place.make("more")
    with world.start("--mount-root", str(more)) as boxd, boxd.web() as client:
        client.init(backend="local")
        assert client.exec("echo x", "a", host_path=str(more))["stdout"] == "x"
        assert client.exec("echo y", "b", host_path=str(world.ws))["stdout"] == "y"
        check(client, "/usr", OUTSIDE)


def test_anywhere_but_what_is_its_own(world):
    """With `/` the operator allows /usr, but never an image or a folder that contains one."""
    with world.start("--mount-root", "/") as boxd, boxd.web() as client:
        client.init(backend="local")
        share = {"host_path": "/usr/share", "host_path_mode": "ro"}
        assert client.exec("ls | wc -l", "a", **share)["exit_code"] == 0
        for path in (world.image, world.image / "usr", world.image.parent, world.base):
            check(client, path, OWN)
        check(client, world.root, STORE)
        check(client, "/etc", "is blocked for security")


def test_the_hosts_own_programs(place):
    """Where everything may be mounted, the host's programs and libraries may be mounted read-only."""
    if place.mode != "root":
        pytest.skip("a plain user cannot write them either")
    own = pathlib.Path(f"/usr/local/share/box-test-{os.getpid()}")
    own.mkdir()
    why = "the host's own programs and libraries"
    try:
        with place.start(mount_roots=("/",)) as boxd, boxd.web() as client:
            client.init(backend="local")
            for path in ("/usr", "/usr/bin", "/bin", "/lib", str(own)):
                assert why in client.fail("box_exec", spec_of(path, "rw")), path
                assert why in client.fail("box_create_session", host_of(path)), path
            assert "blocked" in client.fail("box_exec", spec_of("/", "rw"))
            assert client.ask("box_exec", spec_of("/usr/share", "ro"))["exit_code"] == 0
        # A folder in there that the operator has named explicitly is allowed.
        with place.start(mount_roots=(str(own),)) as boxd, boxd.web() as client:
            client.init(backend="local")
            assert client.ask("box_exec", spec_of(str(own), "rw"))["exit_code"] == 0
    finally:
        own.rmdir()


def spec_of(path, mode):
    mount = {"host_path": path, "mount_path": "/mnt", "mode": mode}
    return {"session_id": "m", "cmd": "ls /mnt", "extra_mounts": [mount]}


def host_of(path):
    return {"session_id": "h", "host_path": path, "host_path_mode": "rw"}


def test_what_boxd_was_started_with(place):
    """A payload that can reach the operator's socket as boxd's own user is the operator; one that
    can write the configuration or read the token file becomes the operator."""
    base = place.make("started")
    own = {name: place.make("started", name) for name in ("socket", "config", "token", "free")}
    text = "local: {degraded: true, allowed_mount_roots: [/]}\n"
    config = place.write(own["config"] / "box.yaml", text)
    token = place.write(own["token"] / "token", clientlib.TOKEN)
    token.chmod(0o600)
    args = ("--config", str(config), "--socket", str(own["socket"] / "box.sock"))
    args += ("--token-file", os.path.relpath(token, place.work))
    try:
        with place.start(*args, mount_roots=()) as boxd, boxd.web(token=clientlib.TOKEN) as client:
            client.init(backend="local")
            for path in (base, own["socket"], own["config"], own["token"]):
                check(client, path, OWN)
            mounted = client.ask(
                "box_exec", {"cmd": "ls /workspace", "session_id": "y", "host_path": str(own["free"])}
            )
            assert mounted["exit_code"] == 0
    finally:
        shutil.rmtree(base)


def test_root_swapped_for_a_link(place):
    """A root inside another is merged into it: a payload that has the outer one gains nothing."""
    outer = place.make("outer")
    place.make("outer", "sub")
    secret = imagelib.make_root(place.folder / "secret-root", "secret")
    text = f"local: {{degraded: true, allowed_mount_roots: ['{outer}', '{outer}/sub']}}\n"
    config = place.write(place.folder / "nested.yaml", text)
    with place.start("--config", str(config), mount_roots=()) as boxd, boxd.web() as client:
        client.init(backend="local")
        spec = {"cmd": "true", "session_id": "no", "image": str(secret)}
        assert OUTSIDE in client.fail("box_exec", spec)
        swap = f"mv sub sub2; ln -s {place.folder} sub"
        assert client.exec(swap, "evil", host_path=str(outer))["exit_code"] == 0
        assert OUTSIDE in client.fail("box_exec", spec)
        spec["image"] = f"{outer}/sub/secret-root"
        assert "link" in client.fail("box_exec", spec)


def test_root_that_comes_later(place):
    """A missing root is used once it exists, and a link in its place never is."""
    base = place.make("later")
    text = f"local: {{degraded: true, allowed_mount_roots: ['{base}/r', '{base}/l']}}\n"
    config = place.write(place.folder / "later.yaml", text)
    with place.start("--config", str(config), mount_roots=()) as boxd, boxd.web() as client:
        client.init(backend="local")
        assert client.exec("echo x", "a", host_path=f"{base}/r/ws")["stdout"] == "x"
        secret = place.make("later-secret")
        (base / "l").symlink_to(secret)
        assert OUTSIDE in client.fail(
            "box_exec", {"cmd": "true", "session_id": "no", "host_path": f"{base}/l"}
        )


LAYOUTS = {
    "image in a root": "images: {{a: '{root}/fs'}}\n",
    "image that a link leads to": "images: {{a: '{base}/leads/fs'}}\n",
    "image named by a link of a box": "images: {{a: '{base}/leads/out'}}\n",
    "image that is missing": "images: {{a: '{base}/leads/none/a.img'}}\n",
    "rootfs in a root": "  rootfs: {root}/fs\n",
    "rootfs above a root": "  rootfs: {base}\n",
    "rootfs with dot-dot": "  rootfs: {base}/fs/../root/fs\n",
    "rootfs that is relative": "  rootfs: ../layout/root/fs\n",
    "rootfs by a link to a link of a box": "  rootfs: {base}/chain\n",
    "root in rootfs": "  rootfs: {base}/fs\n  allowed_mount_roots: ['{base}/fs/srv']\n",
    "root that is a link": "  rootfs: {root}/fs\n  allowed_mount_roots: ['{base}/leads']\n",
    "store above a root": "  skills_root: {base}/leads\n",
    "store in rootfs": "  rootfs: {base}/fs\n  skills_root: {base}/fs/skills\n",
}


@pytest.fixture
def layout(place):
    """A root, a folder for boxes beside it and one inside it, and links as a box could have made
    them."""
    base = place.make("layout")
    root = place.make("layout", "root")
    for folder in (base / "fs", root / "fs"):
        imagelib.make_root(folder, "fs")
    (base / "leads").symlink_to(root)
    (root / "out").symlink_to(base / "fs")
    (base / "chain").symlink_to(root / "out")
    yield place, base, root
    shutil.rmtree(base)


def check_refused(place, base, root, text, before=()):
    """Refused at the start and, with the same text, by --check-config."""
    local = f"local:\n  degraded: true\n  host_root: {root}\n"
    config = place.write(base / "config.yaml", local + text.format(root=root, base=base))
    boxd = place.start("--config", str(config), mount_roots=(), before=before)
    try:
        assert boxd.wait(20) == 78
        (event,) = boxd.events("config.refused")
    finally:
        boxd.stop()
    command = [*before, *place.before, place.programs / "boxd", "--check-config"]
    looked = subprocess.run(
        [*command, "--config", config], capture_output=True, text=True, timeout=20, cwd=place.work
    )
    assert looked.returncode == 78, looked.stdout
    said = event["why"].partition(": ")[2]
    assert said in looked.stdout
    return said


@pytest.mark.parametrize("name", LAYOUTS)
def test_layout_that_is_refused(layout, name):
    said = check_refused(*layout, LAYOUTS[name])
    assert "the mount root" in said or "could read the skills of all" in said
    assert "move it out of there" in said or "choose another skills_root" in said


def test_second_name_of_an_image_file(layout):
    place, base, root = layout
    (base / "a.img").write_bytes(bytes(4096))
    os.link(base / "a.img", root / "b.img")
    assert "has 2 names (hard links)" in check_refused(*layout, "images: {{a: '{base}/a.img'}}\n")


BINDS = {
    "rootfs is shown in a root": ("{base}/fs", "{root}/fs"),
    "what rootfs has is shown in a root": ("{base}/fs/usr", "{root}/fs"),
    "rootfs shows what is in a root": ("{root}/fs", "{base}/fs"),
    "a root shows what rootfs has": ("{base}/fs/usr", "{root}"),
}


@pytest.mark.parametrize("name", BINDS)
def test_layout_with_a_bind_mount(layout, name):
    place, base, root = layout
    if place.mode != "root":
        pytest.skip("bind mounts need root")
    source, target = (one.format(base=base, root=root) for one in BINDS[name])
    before = ["unshare", "-m", "sh", "-c", f'mount --bind {source} {target} && exec "$@"', "sh"]
    assert "the mount root" in check_refused(*layout, "  rootfs: {base}/fs\n", before)


@pytest.mark.parametrize("flag", ["--socket", "--config", "--token-file"])
def test_own_file_in_a_root(layout, flag):
    """A box could write what boxd reads, or speak as the operator."""
    place, base, root = layout
    text = f"local: {{degraded: true, host_root: '{root}'}}\n"
    values = {
        "--socket": root / "run" / "box.sock",
        "--config": place.write(root / "config.yaml", text),
        "--token-file": place.write(root / "token", "a" * 40),
    }
    values["--token-file"].chmod(0o600)
    config = place.write(base / "config.yaml", text)
    boxd = place.start("--config", str(config), flag, str(values[flag]), mount_roots=())
    try:
        assert boxd.wait(20) == 78
        (event,) = boxd.events("config.refused")
        assert f"{values[flag]} is in the mount root {root}" in event["why"]
    finally:
        boxd.stop()


def test_socket_where_everything_may_be_mounted(layout):
    place, base, root = layout
    run = place.make("layout", "run")
    with place.start("--socket", f"{run}/box.sock", mount_roots=("/",)) as boxd:
        with boxd.web() as client:
            client.init(backend="local")
            assert client.exec("echo x", "a", host_path=str(root))["stdout"] == "x"
            check(client, run, OWN)
            check(client, base, OWN)


def test_root_swapped_before_the_start(layout):
    """The state that a box with the outer root left: the link is not used as a root, valid roots
    stay."""
    place, base, root = layout
    text = f"local: {{degraded: true, allowed_mount_roots: ['{root}', '{root}/out', '{base}/ws']}}\n"
    place.make("layout", "ws")
    config = place.write(base / "config.yaml", text)
    with place.start("--config", str(config), mount_roots=()) as boxd, boxd.web() as client:
        client.init(backend="local")
        boxd.wait_event("mount_root.merged")
        spec = {"cmd": "true", "session_id": "no"}
        assert OUTSIDE in client.fail("box_exec", {**spec, "image": f"{base}/fs"})
        check(client, base / "fs", OUTSIDE)
        check(client, root / "out", "is a link")
        for path in (root, base / "ws"):
            assert client.exec("echo x", path.name, host_path=str(path))["stdout"] == "x"


def test_empty_list_is_nothing(place):
    text = f"local: {{degraded: true, host_root: '{place.work}', allowed_mount_roots: []}}\n"
    config = place.write(place.folder / "empty.yaml", text)
    with place.start("--config", str(config), mount_roots=()) as boxd, boxd.web() as client:
        client.init(backend="local")
        check(client, place.work / "x", OUTSIDE)
        assert client.exec("echo without")["stdout"] == "without"


def test_lease_on_an_image_does_not_hold_up(place):
    """boxd opens image files without waiting for the holder of a lease on them."""
    if place.mode != "root" or not shutil.which("mkfs.ext4"):
        pytest.skip("image files need root and mkfs.ext4")
    image = place.folder / "leased.img"
    image.write_bytes(bytes(1 << 20))
    fd = os.open(image, os.O_RDWR)
    before = signal.signal(signal.SIGIO, lambda *ignored: None)  # somebody opens it
    try:
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        config = place.write(place.folder / "leased.yaml", f"images: {{a: '{image}'}}\n")
        begun = time.monotonic()
        with place.start("--config", str(config)) as boxd:
            boxd.wait_served()
        assert time.monotonic() - begun < 5 + boxdlib.STALL_SECONDS
    finally:
        os.close(fd)
        signal.signal(signal.SIGIO, before)
