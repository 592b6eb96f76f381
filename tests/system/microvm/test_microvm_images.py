"""Roots of microVM boxes by image: a caller's folders as root and as an ordinary user, and an
ordinary user's images by name. Native boxes are in test_images.py.
"""

import pytest

import imagelib
import microvmlib

pytestmark = [
    pytest.mark.microvm,
    pytest.mark.whole,
    pytest.mark.usefixtures("nothing_left"),
]


@pytest.fixture(scope="module", params=["root", "rootless"])
def runtime(nothing_left, request):
    with microvmlib.Place(request.param) as place:
        roots = place.folder / "roots"
        roots.mkdir()
        imagelib.make_root(place.folder / "named", "named")
        imagelib.make_root(roots / "theirs", "theirs")
        imagelib.make_root(roots / "empty", "empty", shell=False)
        imagelib.make_root(place.folder / "outside", "outside")
        (roots / "link").symlink_to(roots / "theirs")
        local = place.config.read_text() or "local:\n"
        local += f"  allowed_mount_roots: [{roots}]\n"
        place.config.write_text(f"images:\n  named: {place.folder / 'named'}\n{local}")
        with microvmlib.Runtime(place) as made:
            made.roots = roots
            yield made


def test_folders(runtime):
    """By the operator's name and by the caller's path; both are read-only."""
    cmd = "cat /usr/mark; (: >/usr/new) 2>/dev/null || echo no; : >/tmp/x; echo kept >f; cat f"
    for name, image in {"named": "named", "theirs": str(runtime.roots / "theirs")}.items():
        assert runtime.out(cmd, name, image=image) == f"{name}\nno\nkept"
        runtime.delete(name)
        where = runtime.place.folder if name == "named" else runtime.roots
        assert not (where / name / "usr" / "new").exists()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("roots/link", "link"),
        ("roots/empty", "has no /bin/sh"),
        ("roots/theirs/usr/mark", "is a file"),
        ("roots/none", "does not exist"),
        ("outside", "is outside allowed_mount_roots"),
    ],
)
def test_what_is_no_root_of_a_caller(runtime, name, words):
    text = runtime.fail("true", "bad", image=str(runtime.place.folder / name))
    assert text.startswith("BoxValidationError: ") and words in text, text
    runtime.await_boxes(0)
