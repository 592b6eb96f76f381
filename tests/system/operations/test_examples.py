"""The example configurations in README.md and docs/ are valid, and their layouts are allowed."""

import re
import subprocess

import imagelib
import nativelib
import testpaths
import pytest

ROOT = testpaths.ROOT
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
MEMBERS = re.compile(r"^(local|images|limits|admission|backend):", re.M)
INLINE = re.compile(r"`(local: \{[^`]*\})`")


def examples():
    """Configuration examples for boxd's own file; those for LangBot's file contain its endpoint
    only."""
    for page in PAGES:
        text = page.read_text()
        blocks = re.findall(r"^```yaml\n(.*?)^```", text, re.M | re.S)
        for number, one in enumerate([*filter(MEMBERS.search, blocks), *INLINE.findall(text)]):
            yield pytest.param(one, id=f"{page.name}-{number}")


def test_there_are_some():
    names = [one.id for one in examples()]
    assert "configuration.md-0" in names and "langbot.md-0" in names, names


@pytest.mark.parametrize("text", list(examples()))
def test_example(text):
    """The example's folders exist here instead of in /srv."""
    with nativelib.Place("root" if nativelib.missing("root") is None else "rootless") as place:
        srv = place.make("srv")
        for path in set(re.findall(r"(?:rootfs|python): /srv/(\S+)", text)):
            imagelib.make_root(srv / path.rstrip(","), "example")
        for path in set(re.findall(r"host_root: /srv/([^\s,}]+)", text)):
            place.make("srv", path)
        # The test host has less than 24 GB, and its boxes may have no limits.
        text = text.replace("/srv/", f"{srv}/").replace("degraded: false", "degraded: true")
        config = place.write(place.folder / "example.yaml", text)
        command = [*place.before, place.programs / "boxd", "--check-config", "--config", config]
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, cwd=place.work)
        assert (done.returncode, done.stdout) == (0, f"{config}: good\n"), done.stdout
        with place.start("--config", str(config), mount_roots=()) as boxd:
            boxd.wait_served()
