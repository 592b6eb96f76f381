"""What an attacker has who has taken over the process that runs the guest: only what the box was
given.

The real box-vmm in its real jail, with a hostile libkrun (hostile_libkrun.c). It boots no guest, so
it needs no working KVM; but where /dev/kvm cannot be opened, boxd starts no box-vmm.
"""

import os
import pathlib
import re
import tempfile

import pytest

import boxdlib
import leftoverlib
import microvmlib

pytestmark = [
    leftoverlib.needs_root,
    pytest.mark.usefixtures("nothing_left", "note"),
    pytest.mark.skipif(not os.access("/dev/kvm", os.R_OK | os.W_OK), reason="no /dev/kvm"),
    pytest.mark.skipif(microvmlib.BACKEND != "krun", reason="not true of native boxes"),
]

ATTEMPTS = 19
FAST = "BOX_RELEASE_FAKE" if os.environ.get("BOX_RELEASE_FAKE") else "BOX_BUILD"


def libraries(folder):
    """One library, under both names."""
    made = leftoverlib.compile_program("hostile_libkrun.c", folder / "broken.so", "-shared", "-fPIC")
    for name in ("libkrun.so.1", "libkrunfw.so.5"):
        (folder / name).symlink_to(made)
    top = pathlib.Path(tempfile.gettempdir())
    for above in (folder, *folder.parents):
        if not above.is_relative_to(top) or above == top:
            break
        above.chmod(0o755)  # the probe of the host runs as an ordinary user
    return folder


@pytest.mark.parametrize("mode", ["root", "rootless"])
def test_nothing_is_got(tmp_path, mode):
    if mode == "rootless" and os.stat("/dev/kvm").st_mode & 0o006 != 0o006:
        pytest.skip("/dev/kvm is not for everybody here")
    with microvmlib.Place(mode, build=FAST) as place:
        place.install(boxdlib.build(FAST) / "box-vmm", libraries(tmp_path))
        with microvmlib.Runtime(place) as runtime:
            told = runtime.fail("true")
            found = re.search(r"its console: has(.*) tried (\d+) got(.*) end\|its guest", told)
            assert found, told
            assert found[1].split() == ["machine", "files"], told
            assert int(found[2]) == ATTEMPTS
            assert found[3].split() == [], told
            runtime.await_boxes(0)
