"""How microVM boxes end: killed from outside, by their guest, or out of memory; nothing is left."""

import re
import signal

import pytest

import boxdlib
import clientlib
import leftoverlib
import microvmlib
import nativelib
from microvmlib import SECONDS, SPEC, kill, only_microvms

pytestmark = [pytest.mark.microvm, pytest.mark.usefixtures("nothing_left")]

FURNISH = "echo kept >/tmp/f; (setsid sleep 987 >/dev/null 2>&1 &)"
LOOK = "cat /tmp/f; pgrep -cx sleep"


# Hostile guests.


# What hostile_guest.c can do, and the errors.
HOSTILE = {
    "end": "the microVM ended before it was ready",
    "reboot": "the microVM ended before it was ready",
    "nonsense": "the first message of the microVM was not a report",
    "later": "the box ended while the command ran: its guest broke the protocol",
    "flood": "it sent more output than allowed",
    "reboot-later": "the box ended while the command ran: .*rebooted",
}
# These end by timeout: they are started first and checked last.
LATE = {
    "halt": "the microVM was not ready in time: .*; its console: .*System halted",
    "mute": r"the microVM was not ready in time: .*; its console: .*I have\|nothing to say",
}


class Hostile(microvmlib.Runtime):
    def begin(self, mode):
        spec = {**SPEC, "session_id": mode, "mount_path": f"/{mode}", "timeout_sec": 100}
        return self.client.start("box_exec", {**spec, "cmd": "true"})

    def check(self, seq, expected):
        text = clientlib.failure(self.client.wait(seq, SECONDS))
        assert re.match(f"BoxError: .*{expected}", text, re.S), text


@pytest.fixture(scope="module")
def hostile(nothing_left, tmp_path_factory):
    """A runtime with such guests."""
    program = tmp_path_factory.mktemp("guests") / "box-init"
    leftoverlib.compile_program("hostile_guest.c", program, "-static")
    with microvmlib.Place("root") as place:
        nativelib.copy([program], place.programs)
        with Hostile(place) as runtime:
            runtime.late = {mode: runtime.begin(mode) for mode in LATE}
            yield runtime
            runtime.await_boxes(0)


@only_microvms
def test_nobody_waits_for_guests_that_do_not_come_up(hostile):
    hostile.client.ask("box_status", {}, 10)
    assert not any(map(hostile.client.has_answer, hostile.late.values()))


# Boxes are killed one after the other, in one runtime.


@pytest.fixture(scope="module")
def place(nothing_left):
    with microvmlib.Place("root") as made:
        yield made


@pytest.fixture(scope="module")
def runtime(place):
    with microvmlib.Runtime(place) as made:
        made.out(FURNISH)
        yield made


def test_box_rpc_killed(runtime):
    """The microVM survives with everything that runs in it."""
    before = runtime.boxes()
    runtime.boxd.kill_worker()
    runtime.boxd.wait_served(2)
    runtime.client.close()
    runtime.client = runtime.dial()
    assert runtime.out(LOOK) == "kept\n1"
    assert runtime.boxes() == before


def test_memory_filled(runtime):
    """Memory filled by files: writes fail, and the box survives. By a process: test_microvm_client."""
    filled = runtime.run("head -c 900M /dev/zero >/tmp/big; echo $?", timeout_sec=100)
    assert filled["stdout"].splitlines()[-1:] != ["0"], filled
    assert runtime.out(f"rm -f /tmp/big; {LOOK}") == "kept\n1"


@pytest.mark.whole
def test_processes_are_bounded(runtime):
    spec = {"session": "few", "pids_limit": 24}
    cmd = "i=0; while [ $i -lt 60 ]; do sleep 30 & i=$((i+1)); done; wait"
    crowd = runtime.run(cmd, timeout_sec=20, **spec)
    assert "ork" in crowd["stderr"], crowd  # dash: Cannot fork
    runtime.delete("few")


@pytest.mark.parametrize("whom", ["machine", "first process"])
def test_box_vmm_killed(runtime, whom):
    """Waiting callers get an error, nothing of the box is left, and the session is recreated."""
    runtime.out(FURNISH)
    boxes = runtime.boxes()
    assert len(boxes) == 1, runtime.boxd.tail()
    init = boxes[0]
    group, pids = microvmlib.group_of(init), runtime.pids_of(init)
    asked = {"cmd": "exec tail -f /dev/null", "session_id": "main", "timeout_sec": 600, **SPEC}
    seq = runtime.client.start("box_exec", asked)
    boxdlib.wait_until(lambda: runtime.run("pgrep -x tail")["stdout"], SECONDS, "the command runs")
    if whom == "machine" and microvmlib.BACKEND == "krun":
        init = microvmlib.machines(runtime)[0]
    kill(init)
    text = clientlib.failure(runtime.client.wait(seq, 20))
    assert text.startswith("BoxError: "), text
    boxdlib.wait_until(lambda: not group.exists(), 20, f"{group} is gone")
    assert not [pid for pid in pids if boxdlib.is_alive(pid)]
    if whom == "machine":
        assert runtime.run("cat /tmp/f; exit 0")["stdout"] == ""


def test_boxd_killed(place):
    runtime = microvmlib.Runtime(place)
    runtime.out("sleep 1000 >/dev/null 2>&1 & echo x")
    runtime.traces.note()
    runtime.boxd.signal(signal.SIGKILL)
    runtime.boxd.process.wait(10)
    runtime.traces.check_gone(groups=False, seconds=10)
    with microvmlib.Runtime(place) as again:
        runtime.traces.check_swept()
        assert again.boxd.pid != runtime.boxd.pid


# Hostile guests, part two.


@only_microvms
@pytest.mark.parametrize("mode", HOSTILE)
def test_a_guest_that_ends_or_lies(hostile, mode):
    hostile.check(hostile.begin(mode), HOSTILE[mode])


@only_microvms
@pytest.mark.parametrize("mode", LATE)
def test_a_guest_that_never_comes_up(hostile, mode):
    hostile.check(hostile.late[mode], LATE[mode])
