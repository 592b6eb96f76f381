"""Root file systems of boxes by image: the operator's folders and image files, folders named by a
caller, and refused images.
"""

import os
import shutil
import stat
import subprocess
import time

import boxdlib
import imagelib
import nativelib
import pytest

pytestmark = pytest.mark.usefixtures("nothing_left")

LANGBOT = "rockchin/langbot-sandbox:latest"


class World:
    """A place with roots and image files, and a boxd that knows some of them."""

    def __init__(self, place, kinds):
        self.place = place
        self.roots = place.folder / "roots"
        self.roots.mkdir()
        self.own = place.folder / "own"  # no box may mount the folder of the operator's images
        self.own.mkdir()
        self.root = imagelib.make_root(self.own / "small", "folder")
        self.theirs = imagelib.make_root(self.roots / "theirs", "theirs")
        self.empty = imagelib.make_root(self.own / "empty", "empty", shell=False)
        imagelib.make_root(self.roots / "empty", "empty", shell=False)
        self.outside = imagelib.make_root(place.folder / "outside", "outside")
        self.images = {"small": self.root, "mapped/name:1": self.root, "empty": self.empty}
        for kind in kinds:
            source = imagelib.make_root(place.folder / f"of-{kind}", kind)
            self.images[kind] = imagelib.make_file(kind, source, self.own / f"{kind}.img")
        (self.own / "noise.img").write_bytes(os.urandom(1 << 20))
        (self.own / "link").symlink_to(self.root)
        (self.roots / "file-link").symlink_to(self.own / "noise.img")
        if boxdlib.ROOT:
            os.mknod(self.own / "device", stat.S_IFBLK | 0o600, os.makedev(7, 0))
            self.images["device"] = self.own / "device"
        os.mkfifo(self.own / "pipe")
        self.images |= {
            "noise": self.own / "noise.img",
            "link": self.own / "link",
            "gone": self.own / "gone",
            "pipe": self.own / "pipe",
        }
        lines = [f"  {name}: {path}\n" for name, path in self.images.items()]
        local = place.config.read_text() or "local:\n"
        local += f"  allowed_mount_roots: [{self.roots}]\n"
        place.config.write_text("images:\n" + "".join(lines) + local)


def kinds(mode):
    """Only root has loop devices."""
    if mode != "root":
        return []
    with open("/proc/filesystems", encoding="ascii") as known:
        here = known.read().split()
    return [k for k, tool in imagelib.MAKERS.items() if shutil.which(tool) and k in here]


@pytest.fixture(scope="module")
def world(place):
    return World(place, kinds(place.mode))


@pytest.fixture(scope="module")
def client(world):
    with nativelib.dialled(world.place) as made:
        yield made


def mark(client, image, cmd="cat /usr/mark", **spec):
    session = f"s{time.monotonic_ns()}"
    try:
        result = client.exec(cmd, session, image=image, **spec)
        assert result["exit_code"] == 0, result
        return result["stdout"].strip()
    finally:
        client.call("box_delete_session", {"session_id": session})


def refused(client, image, **spec):
    spec |= {"session_id": "refused", "image": image, "cmd": "true"}
    message = client.fail("box_exec", spec)
    assert client.ask("box_get_sessions", {})["sessions"] == []
    return message


# The operator's images.


def test_a_folder_by_its_name(client):
    assert mark(client, "small") == "folder"
    assert mark(client, "mapped/name:1") == "folder"


def test_a_folder_by_its_path(client, world):
    assert mark(client, str(world.root)) == "folder"


@pytest.mark.parametrize("kind", imagelib.MAKERS)
def test_a_file(client, world, kind):
    if kind not in world.images:
        pytest.skip(f"not here: {kind}, or the tool that makes it, or root")
    before = world.images[kind].read_bytes()
    assert mark(client, kind) == kind
    assert mark(client, str(world.images[kind])) == kind
    assert mark(client, kind, "cat /etc/of-the-image; cat /etc/hostname") == f"{kind}\nbox"
    # Not even root can write there.
    assert mark(client, kind, "touch /usr/x 2>/dev/null || echo refused") == "refused"
    assert world.images[kind].read_bytes() == before


def test_other_names_are_labels(client):
    for label in (LANGBOT, "alpine", "Small", "small/", "noise.img", "./small", ""):
        assert "folder" not in mark(client, label, "cat /usr/mark 2>/dev/null; test -d /usr/bin")


def test_what_a_box_has_of_an_image(client):
    told = mark(
        client,
        "small",
        "cat /etc/of-the-image /etc/hostname; ls -a /opt /home; ls /etc/secret 2>&1 | head -c 3;"
        " id -u; touch /usr/x 2>/dev/null || echo ro; touch ./mine && echo rw",
    )
    assert told.startswith("folder\nbox\n")
    assert "former" not in told and "box" in told
    assert told.endswith("ls:1000\nro\nrw")


def test_boxes_of_several_images_side_by_side(client):
    images = ["small", LANGBOT, "small", LANGBOT]
    for number, image in enumerate(images):
        client.ask("box_create_session", {"session_id": f"n{number}", "image": image})
    for number, image in enumerate(images):
        out = client.exec("cat /usr/mark 2>/dev/null; true", f"n{number}", image=image)["stdout"]
        assert out == ("folder" if image == "small" else "")
        client.ask("box_delete_session", {"session_id": f"n{number}"})


def test_the_image_is_part_of_the_session(client):
    client.ask("box_create_session", {"session_id": "one", "image": "small"})
    other = {"session_id": "one", "image": LANGBOT, "cmd": "true"}
    assert "already exists with image=small" in client.fail("box_exec", other)
    client.ask("box_delete_session", {"session_id": "one"})


@pytest.mark.parametrize(
    "name, text",
    [
        ("empty", "image empty: {roots}/empty has no /bin/sh, which runs commands"),
        ("noise", "is a file without a file system in it (ext4, squashfs or erofs)"),
        ("link", "image link: {roots}/link is a link"),
        ("device", "image device: {roots}/device is a device"),
        ("pipe", "image pipe: {roots}/pipe is neither a folder nor a file"),
        ("gone", "image gone: {roots}/gone: it cannot be opened: No such file or directory"),
    ],
)
def test_an_image_that_cannot_be(client, world, name, text):
    if name not in world.images:
        pytest.skip("only root can make a device")
    assert text.format(roots=world.own) in refused(client, name)
    assert mark(client, "small") == "folder"  # the other images work


def test_an_image_that_comes_later(client, world):
    """An image that appears after the start may come from anyone: the kernel never mounts it."""
    assert "cannot be opened" in refused(client, "gone")
    shutil.copytree(world.root, world.own / "gone", symlinks=True)
    assert "is checked again at the next start" in refused(client, "gone")


def loops_of(path):
    told = subprocess.run(["losetup", "--associated", path], capture_output=True, timeout=20)
    return told.stdout.split()


def test_an_image_that_cannot_be_leaves_nothing():
    """The image is tried again whenever a box asks for it."""
    if "ext4" not in kinds("root"):
        pytest.skip("not here: ext4, or the tool that makes it, or root")
    with nativelib.Place("root") as place:
        source = imagelib.make_root(place.folder / "root", "none", shell=False)
        path = imagelib.make_file("ext4", source, place.folder / "root.img")
        place.config.write_text(f"images:\n  broken: {path}\n")
        with nativelib.dialled(place) as client:
            for _ in range(3):
                assert "has no /bin/sh" in refused(client, "broken")
            boxdlib.wait_until(lambda: not loops_of(path), what="no loop device has it")


# A caller's images.


def test_a_folder_of_the_caller(client, world):
    assert mark(client, str(world.theirs)) == "theirs"
    assert mark(client, f"{world.theirs}/../theirs/.") == "theirs"
    assert mark(client, str(world.theirs), "touch /usr/x 2>/dev/null || echo ro") == "ro"
    # The folder is checked again for each box.
    (world.theirs / "usr" / "mark").write_text("changed\n")
    assert mark(client, str(world.theirs)) == "changed"


@pytest.mark.parametrize(
    "path, text",
    [
        ("{roots}/none", "does not exist"),
        ("{roots}/empty/usr", "has no /bin/sh"),
        ("{roots}/file-link", "link"),
        ("{roots}/theirs/usr/mark", "is a file: only those that the operator has named in images"),
        ("{folder}/outside", "is outside allowed_mount_roots"),
        ("/", "blocked for security"),
        ("/etc", "is blocked for security"),
        ("/proc/1/root", "is blocked for security"),
        ("/dev/loop0", "is blocked for security"),
        ("{roots}/../../../etc", "is blocked for security"),
    ],
)
def test_a_path_that_cannot_be(client, world, path, text):
    path = path.format(roots=world.roots, folder=world.place.folder)
    assert text in refused(client, path)


def test_links_and_devices_of_a_caller(client, world):
    link = world.roots / "their-link"
    link.symlink_to(world.theirs)
    assert "is a link" in refused(client, str(link))
    link.unlink()
    if boxdlib.ROOT:
        device = world.roots / "their-device"
        os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        assert "is a device" in refused(client, str(device))
        device.unlink()


def test_an_image_file_of_a_caller_is_never_mounted(client, world):
    for kind in kinds(world.place.mode):
        copy = world.roots / f"their-{kind}.img"
        shutil.copy(world.images[kind], copy)
        assert "is a file: only those that the operator has named" in refused(client, str(copy))


def test_nothing_leads_out_of_a_callers_root(client, world):
    """boxd copies /etc of the image; its links are resolved in the box."""
    evil = imagelib.make_root(world.roots / "evil", "evil")
    shutil.rmtree(evil / "etc")
    (evil / "etc").symlink_to("/etc")
    assert "Not a directory" in refused(client, str(evil))
    (evil / "etc").unlink()
    (evil / "etc").mkdir()
    secret = world.place.folder / "secret"
    secret.write_text("of the host\n")
    secret.chmod(0o644)
    (evil / "etc" / "link").symlink_to(secret)
    (evil / "etc" / "folder").symlink_to("/etc")
    os.mkfifo(evil / "etc" / "pipe")
    (evil / "secret").symlink_to(secret)
    told = mark(client, str(evil), "cat /etc/link /secret 2>/dev/null; ls /etc/folder/; echo end")
    assert "of the host" not in told and "shadow" not in told and told.endswith("end")


def test_mounts_in_a_callers_root():
    """They are made before boxd starts, so boxd sees them."""
    with nativelib.Place("root") as place:
        root = imagelib.make_root(place.folder / "root", "mounted")
        (root / "usr" / "more").mkdir()
        subprocess.run(["mount", "--bind", "/etc", root / "usr" / "more"], check=True)
        try:
            with nativelib.dialled(place) as client:
                assert "has other mounts in it" in refused(client, str(root))
        finally:
            subprocess.run(["umount", root / "usr" / "more"], check=True)


def test_with_a_folder_of_the_host_and_mounts(client, world):
    work = world.place.make("roots", "work")
    spec = {"host_path": str(work), "extra_mounts": [
        {"host_path": str(world.theirs), "mount_path": "/more", "mode": "ro"}]}  # fmt: skip
    for image in ("small", str(world.theirs)):
        told = mark(client, image, "echo x > new; cat new /more/etc/of-the-image", **spec)
        assert told == "x\ntheirs"


# local.rootfs


@pytest.mark.parametrize("kind", ["folder", "link", *imagelib.MAKERS])
def test_a_root_for_all(kind):
    if kind in imagelib.MAKERS and kind not in kinds("root"):
        pytest.skip(f"not here: {kind}, or the tool that makes it")
    with nativelib.Place("root") as place:
        path = imagelib.make_root(place.folder / "root", "for-all")
        if kind == "link":
            (place.folder / "to").symlink_to(path)
            path = place.folder / "to"
        elif kind != "folder":
            path = imagelib.make_file(kind, path, place.folder / "root.img")
        place.config.write_text(f"local:\n  rootfs: {path}\n")
        with nativelib.dialled(place) as client:
            assert mark(client, LANGBOT) == "for-all"


def test_a_root_without_a_shell():
    with nativelib.Place("root") as place:
        path = imagelib.make_root(place.folder / "root", "none", shell=False)
        place.config.write_text(f"local:\n  rootfs: {path}\n")
        with nativelib.dialled(place) as client:
            text = refused(client, LANGBOT)
            assert f"local.rootfs: {path} has no /bin/sh" in text


@pytest.mark.parametrize(
    "images, text",
    [
        ("images: [a]", "images must be an object of names and paths"),
        ("images: {a: 5}", "images.a is not a usable path"),
        ("images: {a: /}", "images.a is not a usable path"),
        ("images: {/a: /b}", "is not a valid image name"),
        ('images: {"a b": /b}', "is not a valid image name"),
        ('images: {"": /b}', "is not a valid image name"),
    ],
)
def test_a_configuration_that_is_wrong(images, text):
    with nativelib.Place("root") as place:
        place.config.write_text(f"{images}\n")
        done = subprocess.run(
            place.command("--check-config"), capture_output=True, text=True, timeout=20
        )
        assert done.returncode != 0 and text in done.stderr + done.stdout


def test_a_client_names_no_images(world):
    with nativelib.dialled(world.place, config={"images": {"evil": "/etc"}}) as client:
        assert mark(client, "evil", "test -d /usr/bin && echo usual") == "usual"
