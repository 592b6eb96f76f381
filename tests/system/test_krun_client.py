"""MicroVM boxes by the real clients: what works in a native box works in one with its own kernel."""

import os
import platform

import pytest

import krunlib
import nativelib
from krunlib import BACKEND, MEMORY_MB, SPEC, only_microvms

pytestmark = [pytest.mark.microvm, pytest.mark.usefixtures("nothing_left")]

SECRET = "of-the-host-alone"
ONE = {"do": "exec", "session_id": "one", **SPEC}
TWO = {"do": "exec", "session_id": "two", **SPEC}
KERNEL_MB = 64  # at most that much more is seen by the guest: what its kernel takes is not the box's
EXCESS = "exec tail /dev/zero"  # keeps a line that never ends


def make_steps():
    return {
        "init": {"do": "init", "backend": BACKEND},
        "first": {**ONE, "cmd": "echo out; echo err >&2; exit 3"},
        "info": {"do": "info"},
        "killed": {**ONE, "cmd": "kill -9 $$"},
        "who": {**ONE, "cmd": "id -un; id -u; id -G; hostname; pwd; echo $HOME"},
        "kernel": {**ONE, "cmd": "uname -r"},
        "machine": {**ONE, "cmd": "nproc; sed -n 's/^MemTotal: *//p' /proc/meminfo"},
        "write": {**ONE, "cmd": "echo 1 >/tmp/f; echo 2 >f; echo 3 >~/f; sleep 86400 &"},
        "read": {**ONE, "cmd": "cat /tmp/f f ~/f; pgrep -cx sleep"},
        "elsewhere": {**TWO, "cmd": "ls -A . /tmp ~; pgrep -cx sleep; echo mine >/tmp/f"},
        "again": {**ONE, "cmd": "cat /tmp/f"},
        "environment": {
            **ONE,
            "cmd": "env | cut -d= -f1 | sort; cat /proc/cmdline /proc/[0-9]*/environ",
            "env": {"GIVEN": "1"},
        },
        "excess": {**ONE, "cmd": EXCESS},
        "after excess": {**ONE, "cmd": "cat /tmp/f; pgrep -cx sleep"},
        "together": {"do": "together", "specs": [spec_of(ONE, n) for n in range(8)]},
        "listed": {"do": "list"},
        "start": {"do": "start", "session_id": "one", "process_id": "p", "command": "sleep",
                  "args": ["1000"]},
        "process": {"do": "process", "session_id": "one", "process_id": "p"},
        "stop": {"do": "stop", "session_id": "one", "process_id": "p"},
        "late": {**TWO, "cmd": "echo so far; exec sleep 100", "timeout_sec": 2},
        "deleted": {"do": "delete", "session_id": "one"},
        "got deleted": {"do": "get", "session_id": "one"},
    }  # fmt: skip


def spec_of(spec, number):
    made = {key: value for key, value in spec.items() if key != "do"}
    return {**made, "cmd": f"echo {number}"}


@pytest.fixture(scope="module")
def flow(nothing_left):
    """The steps by the newer client."""
    with pytest.MonkeyPatch.context() as patch, krunlib.Place("root") as place:
        patch.setenv("SECRET", SECRET)
        patch.setenv("BOX_SECRET", SECRET)
        steps = make_steps()
        results = nativelib.drive(
            "NEW", "websocket", place, steps, seconds=krunlib.FLOW_SECONDS
        )
        yield nativelib.Results(results, place)


def text_of(flow, name):
    result = flow.gave(name)
    assert (result["status"], result["exit_code"], result["stderr"]) == ("completed", 0, ""), result
    return result["stdout"]


def test_backend(flow):
    assert flow.gave("info") == {"name": BACKEND, "available": True}


def test_streams_and_exit_codes(flow):
    first = flow.gave("first")
    assert (first["stdout"], first["stderr"], first["exit_code"]) == ("out", "err", 3)
    assert flow.gave("killed")["exit_code"] == 137


def test_who(flow):
    assert text_of(flow, "who") == "box\n1000\n1000\nbox\n/workspace\n/home/box"


@only_microvms
def test_a_kernel_of_its_own(flow):
    assert text_of(flow, "kernel") != platform.release()


@only_microvms
def test_memory_and_processors_of_its_own(flow):
    cpus, memory = text_of(flow, "machine").splitlines()
    assert cpus == "1"
    assert 0.9 * MEMORY_MB < int(memory.split()[0]) / 1024 <= MEMORY_MB + KERNEL_MB, memory


def test_files_and_processes_persist(flow):
    assert flow.gave("write")["exit_code"] == 0
    assert text_of(flow, "read") == "1\n2\n3\n1"


def test_boxes_do_not_see_each_other(flow):
    other = flow.gave("elsewhere")
    assert other["stdout"] == ".:\n\n/home/box:\n\n/tmp:\n0", other
    assert text_of(flow, "again") == "1"


def test_nothing_of_the_host_s_environment(flow):
    result = flow.gave("environment")
    assert "GIVEN" in result["stdout"].split()
    assert SECRET not in result["stdout"]
    names = set(result["stdout"].split())
    assert not names & (set(os.environ) - {"HOME", "PATH", "USER", "SHELL", "LANG", "TERM", "PWD"})


def test_memory_excess_ends_the_command_only(flow):
    excess = flow.gave("excess")
    assert (excess["status"], excess["exit_code"], excess["stdout"]) == ("completed", 137, "")
    assert text_of(flow, "after excess") == "1\n1"


def test_side_by_side(flow):
    results = flow.gave("together")
    assert [one["gave"]["stdout"] for one in results] == [str(n) for n in range(8)]


def test_listed(flow):
    assert {one["session_id"] for one in flow.gave("listed")} == {"one", "two"}
    assert {one["backend_name"] for one in flow.gave("listed")} == {BACKEND}


def test_managed_process(flow):
    assert flow.gave("start")["status"] == "running"
    assert flow.gave("process")["status"] == "running"
    assert "gave" in flow["stop"], flow["stop"]


def test_timeout(flow):
    late = flow.gave("late")
    assert (late["status"], late["exit_code"], late["stdout"]) == ("timed_out", None, "so far")


def test_deleted(flow):
    assert flow.gave("deleted") is None
    assert flow.raised("got deleted")[0] == "BoxSessionNotFoundError"
