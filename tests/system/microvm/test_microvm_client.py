"""MicroVM boxes with the real clients: what works in a native box works in a microVM."""

import os
import pathlib
import testpaths
import platform
import re

import pytest

import clientlib
import microvmlib
import nativelib
import relaylib
import skilllib
import testpaths
from microvmlib import BACKEND, MEMORY_MB, SPEC, only_microvms

pytestmark = [pytest.mark.microvm, pytest.mark.usefixtures("nothing_left")]

SECRET = "of-the-host-alone"
ONE = {"do": "exec", "session_id": "one", **SPEC}
TWO = {"do": "exec", "session_id": "two", **SPEC}
KERNEL_MB = 64  # the guest sees at most that much more: its kernel's memory does not count for the box
JAIL_MB = 128  # additional memory per box
OWN = ("HOME", "LANG", "LOGNAME", "PATH", "PYTHONUNBUFFERED", "SHELL", "USER")  # variables of every command
LINES = ["one", "zwei é", "x" * 100_000]
EXCESS = "exec tail /dev/zero"  # buffers a line that never ends


def newer_steps():
    """Steps of the client of 0.7."""
    orders = [["INPUT", {"data": "back\n"}], ["INPUT", {"data": "", "eof": True}]]
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
            "cmd": "env | cut -d= -f1; echo ; cat /proc/cmdline /proc/[0-9]*/environ",
            "env": {"GIVEN": "1"},
        },
        "excess": {**ONE, "cmd": EXCESS},
        "after excess": {**ONE, "cmd": "cat /tmp/f; pgrep -cx sleep"},
        "together": {"do": "together", "specs": [spec_of(ONE, n) for n in range(8)]},
        "streamed": {"do": "stream", "orders": orders, "stdin": True, **spec_of(ONE, 0),
                     "cmd": "echo there; cat; echo err >&2; exit 5"},
        "listed": {"do": "list"},
        "start": {"do": "start", "session_id": "one", "process_id": "p", "command": "cat",
                  "args": []},
    }  # fmt: skip


def older_steps(place):
    """Steps of the client of 0.5, which keeps skills in the runtime; it finds the same sessions."""
    upload = place.folder / "x.zip"
    files = {"x/SKILL.md": skilllib.skill_md("x"), "x/run.sh": "echo ran $1\n"}
    upload.write_bytes(skilllib.archive(files))
    write = "(echo x >.skills/x/run.sh); : >.skills/x/new"
    return {
        "process": {"do": "process", "session_id": "one", "process_id": "p"},
        "stop": {"do": "stop", "session_id": "one", "process_id": "p"},
        "installed": {"do": "install", "upload": str(upload), "filename": "x.zip"},
        "skill": {**TWO, "cmd": "sh .skills/x/run.sh 7", "skill_name": "x"},
        "skill written": {**TWO, "cmd": write, "skill_name": "x"},
        "skill again": {**TWO, "cmd": "cat .skills/x/run.sh; ls .skills/x", "skill_name": "x"},
        "late": {**TWO, "cmd": "echo so far; exec sleep 100", "timeout_sec": 10},
        "deleted": {"do": "delete", "session_id": "one"},
        "got deleted": {"do": "get", "session_id": "one"},
        "crowd": {"do": "together", "specs": crowd()},
    }


def crowd():
    """50 at once, each for a third of the host's memory. Native boxes would all be made."""
    meminfo = pathlib.Path("/proc/meminfo").read_text()
    total_mb = int(re.search(r"^MemTotal: +(\d+) kB", meminfo, re.M)[1]) // 1024
    each = {"cmd": "true", "cpus": 1.0, "memory_mb": total_mb // 3 - JAIL_MB}
    return [{**each, "session_id": f"s{n}"} for n in range(50)] if BACKEND == "krun" else []


def spec_of(spec, number):
    made = {key: value for key, value in spec.items() if key != "do"}
    return {**made, "cmd": f"echo {number}"}


def made_by(result):
    return [one["gave"]["exit_code"] for one in result["gave"] if "gave" in one]


def drive(runtime, generation, steps):
    python = os.environ[f"BOX_VENV_{generation}"] + "/bin/python"
    wanted = {"carrier": "websocket", "instance": clientlib.INSTANCE, "steps": steps, "stay": True}
    wanted["url"] = runtime.boxd.url
    wanted["headers"] = {"X-LangBot-Instance-Id": clientlib.INSTANCE}
    command = [python, str(testpaths.SCRIPTS / "box_steps_script.py")]
    return nativelib.run_script(command, wanted, runtime.place, microvmlib.FLOW_SECONDS)


@pytest.fixture(scope="module")
def flow(nothing_left):
    """All results: the newer client, a relay of the process that it started, the older client."""
    with pytest.MonkeyPatch.context() as patch, microvmlib.Place("root") as place:
        patch.setenv("SECRET", SECRET)
        patch.setenv("BOX_SECRET", SECRET)
        with microvmlib.Runtime(place) as runtime:
            results = drive(runtime, "NEW", newer_steps())
            with relaylib.Relay(runtime.boxd, "p", "one") as relay:
                for line in LINES:
                    relay.send(line)
                results["relayed"] = {"gave": relay.take(len(LINES), microvmlib.SECONDS)}
            results["boxes"] = {"gave": len(runtime.boxes())}
            results |= drive(runtime, "OLD", older_steps(place))
            runtime.await_boxes(len(made_by(results["crowd"])) if BACKEND == "krun" else 0)
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
    assert SECRET not in result["stdout"]
    names = set(result["stdout"].partition("\n\n")[0].split())
    assert names == {"GIVEN", "PWD", *OWN}


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


def test_a_streamed_command(flow):
    streamed = flow.gave("streamed")
    assert (streamed["stdout"], streamed["stderr"]) == ("there\nback\n", "err\n"), streamed
    assert streamed["exit"]["exit_code"] == 5


def test_a_managed_process_with_a_relay(flow):
    assert flow.gave("start")["status"] == "running"
    assert flow.gave("relayed") == LINES
    assert flow.gave("process")["status"] == "running"
    assert "gave" in flow["stop"], flow["stop"]


def test_a_skill(flow):
    """The skill runs, and is read-only."""
    assert [skill["name"] for skill in flow.gave("installed")] == ["x"]
    assert text_of(flow, "skill") == "ran 7"
    written = flow.gave("skill written")
    assert written["exit_code"] != 0 and written["stderr"].count("Read-only") == 2, written
    assert text_of(flow, "skill again") == "echo ran $1\nSKILL.md\nrun.sh"


def test_timeout(flow):
    late = flow.gave("late")
    assert (late["status"], late["exit_code"], late["stdout"]) == ("timed_out", None, "so far")


def test_deleted(flow):
    """Of two boxes one ended by its timeout, the other was deleted."""
    assert flow.gave("boxes") == 2
    assert flow.gave("deleted") is None
    assert flow.raised("got deleted")[0] == "BoxSessionNotFoundError"


@only_microvms
def test_more_than_the_host_has(flow):
    """Refused at once, before the host swaps."""
    answers = flow.gave("crowd")
    refused = [one["raised"] for one in answers if "raised" in one]
    made = made_by(flow["crowd"])
    assert len(answers) == 50 and made in ([0], [0, 0]), made  # the host keeps a reserve
    assert {name for name, _ in refused} == {"BoxCapacityExceededError"}, refused
    assert {"there is no memory for another microVM" in text for _, text in refused} == {True}
