"""What clients are told about microVM boxes: out-of-memory ends, disk usage, the reason of an end.
"""

import os
import re
import signal
import time

import pytest

import boxdlib
import clientlib
import leftoverlib
import microvmlib
import nativelib
from microvmlib import SECONDS, SPEC, only_microvms

pytestmark = [
    pytest.mark.microvm,
    pytest.mark.whole,
    pytest.mark.usefixtures("nothing_left"),
]

EATER = "exec tail /dev/zero"


@pytest.fixture(scope="module")
def runtime(nothing_left):
    with microvmlib.Place("root") as place, microvmlib.Runtime(place) as made:
        assert made.out("echo first") == "first"
        yield made


# Memory.


@pytest.mark.parametrize(
    "cmd", [EATER, "tail /dev/zero; exit $?", "sh -c 'tail /dev/zero'; exit $?"]
)
def test_a_command_that_eats_all_memory(runtime, cmd):
    result = runtime.run(cmd, timeout_sec=100)
    assert (result["exit_code"], result["end"]) == (137, {"reason": "memory", "signal": 9}), result


def test_other_ends_are_not_by_memory(runtime):
    """Also after an earlier kill: each kill is reported once."""
    runtime.run(EATER, timeout_sec=100)
    killed = runtime.run("kill -9 $$")
    assert (killed["exit_code"], killed["end"]) == (137, {"reason": "signal", "signal": 9}), killed
    said = runtime.run("exit 137")
    assert (said["exit_code"], said["end"]["reason"]) == (137, "exit"), said


def process_info(runtime, name):
    return runtime.client.ask(
        "box_get_managed_process", {"session_id": "main", "process_id": name}, SECONDS
    )


@pytest.mark.parametrize("memory_mb", [0, 32])
def test_a_process_that_eats_its_memory(runtime, memory_mb):
    """In the guest as a whole, and in a cgroup of its own."""
    name = f"eater{memory_mb}"
    spec = {"process_id": name, "command": "tail", "args": ["/dev/zero"], "memory_mb": memory_mb}
    asked = {"session_id": "main", "spec": spec}
    runtime.client.ask("box_start_managed_process", asked, SECONDS)
    boxdlib.wait_until(
        lambda: process_info(runtime, name)["status"] == "exited", SECONDS, f"the end of {name}"
    )
    info = process_info(runtime, name)
    assert (info["exit_code"], info["end"]) == (137, {"reason": "memory", "signal": 9}), info
    assert runtime.out("echo on") == "on"


def test_a_process_that_was_killed_was_not_short_of_memory(runtime):
    spec = {"process_id": "k", "command": "sh", "args": ["-c", "kill -9 $$"], "memory_mb": 32}
    runtime.client.ask("box_start_managed_process", {"session_id": "main", "spec": spec}, SECONDS)
    boxdlib.wait_until(
        lambda: process_info(runtime, "k")["status"] == "exited", SECONDS, "the end of k"
    )
    assert process_info(runtime, "k")["end"] == {"reason": "signal", "signal": 9}


# Storage.


def directories(runtime):
    answer = runtime.client.ask("box_get_storage_analysis", {}, SECONDS)
    return {entry["key"]: entry for entry in answer["directories"]}


def test_storage(runtime):
    runtime.out("rm -rf /tmp/* /workspace/* ~/.cache")
    before = directories(runtime)
    assert {entry["error_count"] for entry in before.values()} == {0}, before
    runtime.out(
        "mkdir -p /tmp/d ~/.cache/c; head -c 1M /dev/zero >/tmp/d/a; head -c 256K /dev/zero >b;"
        "head -c 64K /dev/zero >~/.cache/c/d; chmod 0 /tmp/d"
    )
    after = directories(runtime)
    grown = {key: after[key]["size_bytes"] - before[key]["size_bytes"] for key in after}
    assert grown["session_temp"] == 1 << 20  # also what the payload hides from itself
    assert grown["session_workspaces"] == 256 << 10
    assert grown["session_caches"] == 64 << 10
    assert (after["session_caches"]["exists"], after["session_caches"]["file_count"]) == (True, 1)
    files = [one["session_workspaces"]["file_count"] for one in (before, after)]
    assert files[1] == files[0] + 1
    runtime.out("chmod 700 /tmp/d; rm -rf /tmp/d b ~/.cache")


# The clock.


@only_microvms
def test_a_machine_that_stood_still(runtime):
    """Stopped for longer than the interval of the clock synchronization."""
    (machine,) = microvmlib.machines(runtime)
    os.kill(machine, signal.SIGSTOP)
    try:
        time.sleep(32)
    finally:
        os.kill(machine, signal.SIGCONT)
    for _ in range(3):
        before = time.time()
        there = float(runtime.out("date +%s.%N"))
        assert before - 1 < there < time.time() + 1


# Ends.


@only_microvms
def test_who_waits_hears_that_the_machine_was_killed(runtime):
    asked = {"cmd": "sleep 600", "session_id": "main", "timeout_sec": 900, **SPEC}
    seq = runtime.client.start("box_exec", asked)
    boxdlib.wait_until(lambda: runtime.run("pgrep -x sleep")["stdout"], SECONDS, "the command runs")
    microvmlib.kill(microvmlib.machines(runtime)[0])
    text = clientlib.failure(runtime.client.wait(seq, 30))
    assert "its virtual machine was killed by signal 9" in text, text


@only_microvms
def test_a_kernel_that_panics_has_time_to_say_why(runtime):
    assert runtime.out("cat /proc/sys/kernel/panic") == "1"


# What ending_guest.c can do, and the errors that waiting callers get.
ENDINGS = {
    "PANIC": "its kernel panicked; its console: .*Kernel panic - not syncing: .*memory",
    "REBOOT": "(it was rebooted from inside|its guest rebooted, or its kernel panicked)",
    "EXIT": "its guest rebooted, or its kernel panicked",
    "CLOSE": "its guest hung up",
}


@only_microvms
@pytest.mark.parametrize("mode", ENDINGS)
def test_a_guest_that_ends(nothing_left, tmp_path, mode):
    with microvmlib.Place("root") as place:
        program = leftoverlib.compile_program(
            "ending_guest.c", tmp_path / mode, "-static", f"-DMODE={mode}"
        )
        nativelib.copy([program], place.programs / "box-init")
        with microvmlib.Runtime(place) as runtime:
            text = runtime.fail("true")
            why = f"BoxError: session main: the box ended while the command ran: {ENDINGS[mode]}"
            assert re.match(why, text, re.S), text
