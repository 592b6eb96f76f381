"""How microVM boxes end: killed from outside, by their guest, by want of memory; and what is left."""

import contextlib
import pathlib
import re
import signal

import pytest

import boxlib
import clientlib
import deathlib
import krunlib
import nativelib
from krunlib import SECONDS, SPEC, kill, only_microvms

pytestmark = [pytest.mark.microvm, pytest.mark.usefixtures("nothing_left")]

FURNISH = "echo kept >/tmp/f; (setsid sleep 987 >/dev/null 2>&1 &)"
LOOK = "cat /tmp/f; pgrep -cx sleep"


@pytest.fixture(scope="module")
def place(nothing_left):
    with krunlib.Place("root") as made:
        yield made


@pytest.fixture(scope="module")
def runtime(place):
    with krunlib.Runtime(place) as made:
        made.out(FURNISH)
        yield made


# Killed, the ones after the others, in one runtime.


def test_box_rpc_killed(runtime):
    """The microVM stays, and all that runs in it."""
    before = runtime.boxes()
    runtime.boxd.kill_worker()
    runtime.boxd.wait_served(2)
    runtime.client.close()
    runtime.client = runtime.dial()
    assert runtime.out(LOOK) == "kept\n1"
    assert runtime.boxes() == before


def test_memory_filled(runtime):
    """By files and by processes: what the box has no room for fails, and it lives on."""
    filled = runtime.run("head -c 900M /dev/zero >/tmp/big; echo $?", timeout_sec=100)
    assert filled["stdout"].splitlines()[-1:] != ["0"], filled
    runtime.run("rm -f /tmp/big")
    eater = runtime.run("tail /dev/zero & exec tail /dev/zero", timeout_sec=100)
    assert (eater["exit_code"], eater["end"]["signal"]) == (137, 9), eater
    assert runtime.out(LOOK) == "kept\n1"


def test_processes_are_bounded(runtime):
    spec = {"session": "few", "pids_limit": 24}
    cmd = "i=0; while [ $i -lt 60 ]; do sleep 30 & i=$((i+1)); done; wait"
    crowd = runtime.run(cmd, timeout_sec=20, **spec)
    assert "ork" in crowd["stderr"], crowd  # dash: Cannot fork
    runtime.delete("few")


@pytest.mark.parametrize("whom", ["machine", "first process"])
def test_box_vmm_killed(runtime, whom):
    """Who waits is told; the session is made anew; of the old box nothing is left."""
    runtime.out(FURNISH)
    (init,) = runtime.boxes()
    group, pids = krunlib.group_of(init), runtime.pids_of(init)
    asked = {"cmd": "exec tail -f /dev/null", "session_id": "main", "timeout_sec": 600, **SPEC}
    seq = runtime.client.start("box_exec", asked)
    boxlib.wait_until(lambda: runtime.run("pgrep -x tail")["stdout"], SECONDS, "the command runs")
    if whom == "machine" and krunlib.BACKEND == "krun":
        init = krunlib.machines(runtime)[0]
    kill(init)
    text = clientlib.failure(runtime.client.wait(seq, 20))
    assert text.startswith("BoxError: "), text
    boxlib.wait_until(lambda: not group.exists(), 20, f"{group} is gone")
    assert not [pid for pid in pids if boxlib.is_alive(pid)]
    assert runtime.run("cat /tmp/f; exit 0")["stdout"] == ""


def test_boxd_killed(place):
    runtime = krunlib.Runtime(place)
    runtime.out("sleep 1000 >/dev/null 2>&1 & echo x")
    runtime.traces.note()
    runtime.boxd.signal(signal.SIGKILL)
    runtime.boxd.process.wait(10)
    runtime.traces.check_gone(groups=False, seconds=10)
    with krunlib.Runtime(place) as again:
        runtime.traces.check_swept()
        assert again.boxd.pid != runtime.boxd.pid


# Guests that are not ours.


# What hostile_guest.c can do, and what is answered. The first guest of a host is a trial, so most
# are found out there.
HOSTILE = {
    "PANIC": "BoxBackendUnavailableError: .*: the machine ended before it spoke",
    "HALT": "BoxBackendUnavailableError: .*: it did not speak within .*System halted",
    "NONSENSE": "BoxBackendUnavailableError: .*: what it said made no sense",
    "LATER": "BoxError: ",
}


@pytest.fixture(scope="module")
def hostile(nothing_left, tmp_path_factory):
    """The answers of runtimes with such guests, by mode. All run at once: one of them waits long."""
    folder = tmp_path_factory.mktemp("guests")
    with contextlib.ExitStack() as stack:
        started = {}
        for mode in HOSTILE:
            place = stack.enter_context(krunlib.Place("root"))
            program = deathlib.compile_program(
                "hostile_guest.c", folder / mode, "-static", f"-DMODE={mode}"
            )
            nativelib.copy([program], place.programs / "box-init")
            runtime = stack.enter_context(krunlib.Runtime(place))
            asked = {"cmd": "true", "session_id": "main", **SPEC}
            started[mode] = (runtime, runtime.client.start("box_exec", asked))
        answers = {}
        for mode, (runtime, seq) in started.items():
            answers[mode] = runtime.client.wait(seq, SECONDS)
            runtime.await_boxes(0)
        yield answers


@only_microvms
@pytest.mark.parametrize("mode", HOSTILE)
def test_a_guest_that_ends_or_lies(hostile, mode):
    text = clientlib.failure(hostile[mode])
    assert re.match(HOSTILE[mode], text, re.S), text


# A root that lacks something.


def test_a_root_without_a_shell(nothing_left):
    with krunlib.Place("root", operator="") as place:
        root = place.make("root")
        for name in ("usr", "etc", "bin", "lib"):
            (root / name).mkdir()
        pathlib.Path(root / "etc" / "passwd").write_text("root:x:0:0::/:/bin/sh\n")
        place.config.write_text(f"local:\n  rootfs: {root}\n")
        with krunlib.Runtime(place) as runtime:
            text = runtime.fail("true")
            assert "/bin/sh" in text, text


# An ordinary user.


def test_rootless(nothing_left):
    with krunlib.Place("rootless") as place, krunlib.Runtime(place) as runtime:
        assert runtime.out("id -u; echo x >f; cat f") == "1000\nx"
        assert runtime.out("cat f") == "x"
