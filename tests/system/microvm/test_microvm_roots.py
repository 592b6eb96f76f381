"""Roots of microVM boxes by image: folders, image files, and what is refused."""

import os
import shutil
import stat

import pytest

import boxdlib
import leftoverlib
import imagelib
import microvmlib
from microvmlib import only_microvms

pytestmark = [pytest.mark.microvm, pytest.mark.usefixtures("nothing_left")]


def make_images(place):
    """name -> path; only root can have image files."""
    roots = place.make("roots")
    small = imagelib.make_root(roots / "small", "folder")
    inside = shutil.copytree(small, roots / "inside", symlinks=True)
    (inside / "usr" / "mark").write_text("file\n")
    shutil.copytree(small, roots / "bare", symlinks=True)
    (roots / "bare" / "usr" / "bin" / "sh").unlink()
    (roots / "link").symlink_to(small)
    os.mknod(roots / "device", stat.S_IFBLK | 0o600, os.makedev(7, 0))
    (roots / "noise").write_bytes(os.urandom(1 << 16))
    imagelib.make_file("ext4", inside, roots / "file")
    return {name: roots / name for name in ("small", "file", "bare", "link", "device", "noise")}


@pytest.fixture(scope="module")
def runtime(nothing_left):
    with microvmlib.Place("root") as place:
        lines = [f"  {name}: {path}\n" for name, path in make_images(place).items()]
        place.config.write_text("images:\n" + "".join(lines))
        with microvmlib.Runtime(place) as made:
            yield made


@pytest.mark.parametrize(
    "name, mark", [pytest.param("small", "folder", marks=pytest.mark.whole), ("file", "file")]
)
def test_a_root_by_image(runtime, name, mark):
    cmd = "cat /usr/mark /etc/of-the-image; cat /etc/secret; touch /usr/x; echo kept >f; cat f"
    result = runtime.run(cmd, name, image=name)
    assert result["stdout"].split() == [mark, "folder", "kept"], result
    assert "/etc/secret: No such" in result["stderr"], result  # nobody but root may read it
    assert "/usr/x': Read-only" in result["stderr"], result
    runtime.delete(name)


REFUSED = {
    "bare": "image bare: {roots}/bare has no /bin/sh, which runs commands",
    "link": "image link: {roots}/link is a link",
    "device": "image device: {roots}/device is a device",
    "noise": "image noise: {roots}/noise is a file without a file system in it",
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_image_that_cannot_be(runtime, name):
    roots = runtime.place.folder / "roots"
    assert REFUSED[name].format(roots=roots) in runtime.fail("true", name, image=name)
    runtime.await_boxes(0)


# Broken libraries.


@only_microvms
@pytest.mark.parametrize(
    "what, text",
    [
        ("other", "this KVM cannot run a guest: the microVM ended before the guest reported"),
        ("empty", "libkrunfw: "),
    ],
)
def test_a_kernel_that_is_none(nothing_left, note, tmp_path, what, text):
    """The host is probed before the first box, and the error says what is wrong."""
    libraries = boxdlib.build().parent / "libkrun"
    (tmp_path / "libkrun.so.1").symlink_to(libraries / "libkrun.so.1")
    kernel = tmp_path / "libkrunfw.so.5"
    shared = ["-shared", "-fPIC", "-Wl,-soname,libkrunfw.so.5"]
    if what == "other":
        leftoverlib.compile_program("other_kernel.c", kernel, *shared)
    else:
        leftoverlib.compile_program("other_kernel.c", kernel, *shared, "-Dkrunfw_get_kernel=none")
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)  # the trial is an ordinary user's
    with microvmlib.Place("root") as place:
        place.install(boxdlib.build() / "box-vmm", tmp_path)
        with microvmlib.Runtime(place) as runtime:
            told = runtime.fail("true")
            assert told.startswith("BoxBackendUnavailableError: no microVM can be made here: ")
            assert text in told, told
