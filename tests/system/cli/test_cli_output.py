"""`box` when its output cannot be written: a full disk, a reader that is gone, a reader that does
not read. A peer that does not answer can be interrupted.
"""

import os
import signal
import subprocess
import time

import clilib
import pytest
import relaylib
from boxdlib import STALL_SECONDS, wait_until
from clientlib import INSTANCE
from fakeruntimelib import StreamServer

WHO = {"LANGBOT_BOX_TRUSTED_INSTANCE_UUID": INSTANCE}
KIB, MIB = 1 << 10, 1 << 20
FULL = (125, "", "box: stdout: No space left on device\n")
# Writes 64 KiB at a time, and records the count in a file.
COUNTER = (
    "i=0; while [ $i -lt 4096 ]; do i=$((i+1)); printf '%065535d\\n' $i;"
    "echo $i > /tmp/n; mv /tmp/n /tmp/count; done"
)


@pytest.fixture(scope="module")
def session(native):
    assert box(native, "create", "s") == (0, "s\n", "")
    yield "s"
    box(native, "rm", "s")


def start(native, command, *args, **more):
    options = ["--endpoint", native.boxd.url, "--workspace", "ws1"]
    return clilib.start(command, *options, *args, private=False, env=WHO, **more)


def box(native, command, *args, **more):
    options = ["--endpoint", native.boxd.url, "--workspace", "ws1"]
    return clilib.box(command, *options, *args, private=False, env=WHO, **more)


def begin(native, script, name):
    """Started without the log that `box start` sets: it waits for its reader, and nothing is
    dropped."""
    relaylib.shell_in(native, script, name)


def inside(native, script):
    code, out, err = box(native, "exec", "s", script)
    assert (code, err) == (0, "")
    return out


# A full disk.


@pytest.mark.parametrize(
    "words",
    [
        ["exec", "s", "echo hi"],
        ["exec", "s", "yes"],
        ["logs", "s", "writer"],
        ["logs", "-f", "s", "writer"],
        ["attach", "s", "writer"],
        ["cp", "s:/etc/passwd", "-"],
        ["cp", "s:/usr/bin", "-"],
        ["ps"],
        ["ps", "--json"],
        ["ls"],
        ["start", "--name", "other", "s", "--", "sleep", "1000"],
        ["stop", "s", "other"],
    ],
    ids=" ".join,
)
def test_a_full_disk_is_told(native, session, words):
    if "writer" in words:
        begin(native, "yes", "writer")
        # It may start slowly, and without output nothing fails.
        wait_until(lambda: box(native, "logs", "s", "writer")[1], what="output")
    with open("/dev/full", "w") as full:
        assert box(native, *words, stdout=full) == FULL
    if "writer" in words:
        # A failed write is no reason to end a box that others may use.
        assert relaylib.info(native, "writer")["status"] == "running"
        assert box(native, "stop", "s", "writer")[0] == 0
    assert inside(native, "pidof yes tar || echo none") == "none\n"


def test_a_full_disk_of_errors(native, session):
    """No message can be written; the exit code tells."""
    with open("/dev/full", "w") as full:
        with start(native, "exec", "s", "echo hi >&2; exit 3", stderr=full) as process:
            assert process.wait(20) == 125


# A reader that has closed.


@pytest.mark.parametrize(
    "words",
    [["exec", "s", "yes"], ["logs", "-f", "s", "gone"], ["attach", "s", "gone"], ["ls"]],
    ids=" ".join,
)
def test_a_reader_that_has_gone_is_the_end(native, session, words):
    if "gone" in words:
        begin(native, "yes", "gone")
    ours, theirs = os.pipe()
    os.close(ours)
    try:
        assert box(native, *words, stdout=theirs) == (128 + signal.SIGPIPE, "", "")
    finally:
        os.close(theirs)
    if "gone" in words:
        assert box(native, "stop", "s", "gone")[0] == 0


# A reader that does not read.


def memory_of(process):
    with open(f"/proc/{process.pid}/status") as file:
        told = next(line for line in file if line.startswith("VmRSS"))
    return int(told.split()[1]) * KIB


def stands_still(native):
    """The number of pieces written once it has stopped growing."""

    def same():
        before = inside(native, "cat /tmp/count 2>/dev/null || true")
        time.sleep(0.5)
        return before if before and before == inside(native, "cat /tmp/count") else None

    return int(wait_until(same, what="the process waits"))


@pytest.mark.parametrize(
    "words, interrupts",
    [
        (["exec", "s", COUNTER], 2),  # the first one is for the command, which may have more to say
        (["attach", "s", "counter"], 1),
        (["logs", "-f", "s", "counter"], 1),
    ],
    ids=["exec", "attach", "logs"],
)
def test_a_reader_that_does_not_read_makes_the_process_wait(native, session, words, interrupts):
    inside(native, "rm -f /tmp/count")
    if "counter" in words:
        begin(native, COUNTER, "counter")
    with start(native, *words, stdin=subprocess.PIPE) as process:
        try:
            # 256 MiB would be written if it continued.
            assert stands_still(native) * 64 * KIB <= 8 * MIB
            assert memory_of(process) <= 96 * MIB  # with what the sanitizers need
            process.send_signal(signal.SIGINT)
            if interrupts == 1:
                assert process.wait(20) == 130
            else:
                time.sleep(0.3)
                assert process.poll() is None
                assert clilib.interrupt(process) == 130
        finally:
            process.kill()
    if "counter" in words:
        assert box(native, "stop", "s", "counter")[0] == 0


# A runtime that does not answer.


@pytest.mark.parametrize("number, code", [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_question_of_cp_can_be_interrupted(number, code, tmp_path):
    """The command that lists the source never ends."""
    with StreamServer() as server:
        words = ["there:/etc/passwd", str(tmp_path / "x")]
        process = clilib.start("cp", "--endpoint", server.url, *words, private=False)
        assert server.hanging.wait(20)
        time.sleep(0.1)
        begun = time.monotonic()
        process.send_signal(getattr(signal, number))
        assert process.wait(20) == code
        assert time.monotonic() - begun < 3 + STALL_SECONDS
        assert process.communicate() == (b"", b"")
        wait_until(lambda: len(server.cancelled) == 1, what="the command is ended")
    assert os.listdir(tmp_path) == []
