"""Which seccomp filter PID 1, the mounter and their commands are under."""

import pathlib

import pytest

import nativelib
import proclib

pytestmark = pytest.mark.usefixtures("nothing_left")

BEHIND = "2"  # a filter, in /proc/PID/status


def status(pid):
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def filters(pid):
    facts = status(pid)
    return facts["Seccomp"], int(facts["Seccomp_filters"])


def mounter_of(init):
    (found,) = [pid for pid in nativelib.descendants(init) if status(pid)["Name"] == "box-mounter"]
    return found


@pytest.mark.parametrize("seccomp", ["default", "strict"])
@pytest.mark.parametrize("mode", nativelib.MODES)
def test_all_of_a_box_are_behind_filters(mode, seccomp):
    """The mounter has a capability that no other process has, and a filter of its own. Its children
    also have the filter of commands."""
    nativelib.skip_if_missing(mode)
    plain, mounted = nativelib.marker(), nativelib.marker()
    degraded = "true" if mode == "rootless" else "false"
    operator = f"local:\n  seccomp: {seccomp}\n  degraded: {degraded}\n"
    with nativelib.Place(mode, operator=operator) as place:
        data = str(place.make("data"))
        with nativelib.dialled(place) as client:
            client.exec(f"sleep {plain} &", "s")
            mount = {"host_path": data, "mount_path": "/data"}
            client.exec(f"sleep {mounted} &", "s", extra_mounts=[mount])
            init = proclib.init_of(proclib.find_one(plain))
            assert filters(init) == (BEHIND, 1)
            assert filters(mounter_of(init)) == (BEHIND, 1)
            assert filters(proclib.find_one(plain)) == (BEHIND, 1)
            told = filters(proclib.find_one(mounted))
            assert told == (BEHIND, 2), told
