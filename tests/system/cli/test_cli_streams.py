"""The `box` command with live commands: output, input, signals, and the requests it sends."""

import os
import signal
import threading
import time

import pytest

from boxdlib import STALL_SECONDS, wait_until
from clilib import SECONDS, dialled, interrupt, start
from fakeruntimelib import SESSION, StreamServer

INPUTS_MAX = 16  # BOX_EXEC_INPUTS_MAX


@pytest.fixture
def streaming():
    with StreamServer() as server:
        yield server


def test_output_of_both_kinds_as_it_is(streaming):
    code, out, err = dialled(streaming, "run", "both")
    assert (code, err) == (0, "err 1\n")
    assert out.encode(errors="surrogateescape") == b"out 1\n\x00\xff no newline"
    assert streaming.deleted == [streaming.specs[0]["session_id"]]
    assert streaming.cancelled == []


@pytest.mark.parametrize(
    "cmd, expected",
    [
        ("exit 0", (0, "", "")),
        ("exit 42", (42, "", "")),
        ("signal", (143, "", "")),
        ("memory", (137, "", "Killed\nbox: the command ran out of memory\n")),
        ("timeout", (124, "so far", "box: the command timed out\n")),
        ("noexit", (125, "", "box: BoxError: the runtime sent no result of the command\n")),
        ("exit 256", (125, "", "box: BoxError: the runtime did not report an exit code\n")),
        (
            "drop",
            (
                125,
                "partial",
                "box: BoxRuntimeUnavailableError: "
                "the runtime closed the connection: 1001 Box runtime [31m gone\n",
            ),
        ),
    ],
)
def test_ends(streaming, cmd, expected):
    assert dialled(streaming, "run", cmd) == expected


def test_output_comes_as_it_is_made(streaming):
    process = start("run", "--endpoint", streaming.url, "live", private=False)
    assert process.stdout.readline() == b"first\n"
    assert process.poll() is None
    streaming.live.event("stdout", data=b"second\n")
    streaming.live.pump()
    assert process.stdout.readline() == b"second\n"
    streaming.live.exit(3)
    streaming.live.pump()
    assert process.wait(SECONDS) == 3
    process.communicate()


def test_much_output_is_acknowledged_every_four(streaming):
    code, out, err = dialled(streaming, "run", "many 100 65536")
    expected = b"".join(bytes([n % 251]) * 65536 for n in range(100))
    assert (code, err) == (0, "") and out.encode(errors="surrogateescape") == expected
    # 102 events: the first and the last are not output. Each acknowledgement covers four or more.
    steps = [after - before for before, after in zip([0, *streaming.acks], streaming.acks)]
    assert all(4 <= step <= 8 for step in steps) and streaming.acks[-1] > 102 - 8


def test_large_frames(streaming):
    code, out, _ = dialled(streaming, "run", "many 9 1000000")
    assert code == 0 and len(out.encode(errors="surrogateescape")) == 9_000_000


def test_a_reader_that_sleeps_stops_the_stream_but_not_the_pings(streaming):
    process = start("run", "--endpoint", streaming.url, "many 64 65536", private=False)
    wait_until(lambda: len(streaming.sent) >= 8, what="the window is full")
    time.sleep(2)
    sent = len(streaming.sent)
    assert sent <= 16  # 64 KiB of them fit into the pipe
    for _ in range(3):
        assert streaming.connections[0].ping().wait(5)
    assert len(streaming.sent) == sent
    out, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, len(out), err) == (0, 64 * 65536, b"")


def test_a_reader_that_goes_ends_the_command(streaming):
    process = start("run", "--endpoint", streaming.url, "many 1000 65536", private=False)
    assert process.stdout.read(1) == b"\0"
    process.stdout.close()
    assert process.wait(SECONDS) == 128 + signal.SIGPIPE
    assert process.stderr.read() == b""
    process.stderr.close()
    assert len(streaming.cancelled) == 1 and len(streaming.deleted) == 1


def test_input_goes_to_the_command(streaming):
    data = os.urandom(1 << 20)
    code, out, err = dialled(streaming, "run", "cat", data=data)
    assert (code, err) == (0, "") and out.encode(errors="surrogateescape") == data
    assert streaming.specs[0]["stdin"] is True
    assert b"".join(piece for piece, _ in streaming.inputs) == data
    assert [eof for _, eof in streaming.inputs] == [False] * (len(streaming.inputs) - 1) + [True]


def test_no_input_is_an_end_of_input(streaming):
    assert dialled(streaming, "run", "cat", data=b"") == (0, "", "")
    assert streaming.inputs == [(b"", True)]


@pytest.mark.parametrize("closed", [[], [0], [0, 1, 2]])
def test_null_and_a_closed_stdin_are_no_input(streaming, closed):
    options = {"preexec_fn": lambda: [os.close(fd) for fd in closed]}
    assert dialled(streaming, "run", "both", **options)[0] == 0
    assert streaming.specs[0]["stdin"] is False
    assert streaming.inputs == []


def test_a_command_may_end_without_its_input(streaming):
    data = b"x" * 4_000_000
    assert dialled(streaming, "run", "deaf", data=data) == (5, "deaf\n", "")
    # No more is sent than the window allows.
    assert 1 <= len(streaming.inputs) <= INPUTS_MAX
    assert sum(len(piece) for piece, _ in streaming.inputs) < len(data)


@pytest.mark.parametrize("number, code", [("SIGHUP", 129), ("SIGTERM", 143)])
def test_a_signal_cancels(streaming, number, code):
    process = start("run", "--endpoint", streaming.url, "hang", private=False)
    assert streaming.hanging.wait(SECONDS)
    time.sleep(0.1)
    process.send_signal(getattr(signal, number))
    assert process.wait(SECONDS) == code
    assert process.communicate() == (b"", b"")
    assert len(streaming.cancelled) == 1
    assert streaming.requests[-2:] == ["__cancel_action", "box_delete_session"]


def test_an_interrupt_is_for_the_command(streaming):
    process = start("run", "--endpoint", streaming.url, "live", private=False)
    assert process.stdout.readline() == b"first\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(SECONDS) == 130
    assert process.communicate() == (b"", b"")
    assert (streaming.signals, streaming.cancelled) == ([signal.SIGINT], [])
    assert len(streaming.deleted) == 1


def test_the_second_interrupt_is_for_us(streaming):
    process = start("run", "--endpoint", streaming.url, "tough", private=False)
    assert process.stdout.readline() == b"first\n"
    process.send_signal(signal.SIGINT)
    wait_until(lambda: streaming.signals == [signal.SIGINT], what="the command was told")
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(SECONDS) == 130
    assert process.communicate() == (b"", b"")
    assert (streaming.signals, len(streaming.cancelled)) == ([signal.SIGINT], 1)
    assert streaming.requests[-2:] == ["__cancel_action", "box_delete_session"]


def test_two_interrupts_leave_a_runtime_that_hangs(streaming):
    """The command reads nothing any more, and the connection stays."""
    process = start("exec", "--endpoint", streaming.url, "there", "tough", private=False)
    assert process.stdout.readline() == b"first\n"
    streaming.hung = threading.Event()
    process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    assert process.poll() is None and streaming.signals == []
    begun = time.monotonic()
    try:
        assert interrupt(process) == 130
        assert time.monotonic() - begun < 5 + STALL_SECONDS
    finally:
        streaming.hung.set()
    process.communicate()


def test_an_ignored_signal_stays_ignored(streaming):
    def ignore():
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    process = start(
        "run", "--endpoint", streaming.url, "live", private=False, preexec_fn=ignore
    )
    assert process.stdout.readline() == b"first\n"
    process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    streaming.live.exit(0)
    streaming.live.pump()
    assert process.wait(SECONDS) == 0
    process.communicate()


def test_what_run_asks_for(streaming, tmp_path):
    options = ["--network=on", "--memory=64", "--cpus", "2", "--pids", "9", "--writable-root"]
    options += ["--timeout=7", "--workdir", "/w", "--env", "A=b=c", "--env=B=", "--env", "HERE"]
    options += ["--env=GONE", "--env=A=last", "--mount", "/a:/b", "--mount=c:/d:ro"]
    env = {"HERE": "it is"}
    assert dialled(streaming, "run", *options, "exit", "0", env=env, cwd=tmp_path)[0] == 0
    spec = streaming.specs[0]
    session = spec.pop("session_id")
    assert session.startswith("run-") and len(session) == 20
    assert spec == {
        "cmd": "exit 0",
        "stdin": False,
        "network": "on",
        "memory_mb": 64,
        "cpus": 2.0,
        "pids_limit": 9,
        "read_only_rootfs": False,
        "timeout_sec": 7,
        "workdir": "/w",
        "env": {"A": "last", "B": "", "HERE": "it is"},
        "extra_mounts": [
            {"host_path": "/a", "mount_path": "/b", "mode": "rw"},
            {"host_path": f"{tmp_path}/c", "mount_path": "/d", "mode": "ro"},
        ],
    }


def test_what_exec_asks_for(streaming):
    assert dialled(streaming, "exec", "there", "--env=A=b", "exit", "3") == (3, "", "")
    identity = {
        key: value
        for key, value in SESSION.items()
        if key not in ("status", "backend_name", "created_at")
    }
    assert streaming.specs == [
        {
            **identity,
            "cmd": "exit 3",
            "stdin": False,
            "timeout_sec": 315360000,
            "extra_mounts": [],
            "env": {"A": "b"},
        }
    ]
    assert streaming.deleted == []  # the box stays


def test_a_timeout_of_exec_is_for_the_command_alone(streaming):
    said = "box: the command timed out after 7 s; the box there is kept\n"
    assert dialled(streaming, "exec", "--timeout=7", "there", "timeout") == (124, "so far", said)
    spec = streaming.specs[0]
    assert (spec["timeout_sec"], spec["keep_on_timeout"]) == (7, True)
    assert streaming.deleted == []


def test_who_asks(streaming):
    env = {"LANGBOT_BOX_CONTROL_TOKEN": "a-token", "LANGBOT_BOX_TRUSTED_INSTANCE_UUID": "me"}
    assert dialled(streaming, "run", "exit 0", env=env)[0] == 0
    headers = streaming.headers
    assert headers["X-LangBot-Box-Control-Token"] == "a-token"
    assert headers["X-LangBot-Instance-Id"] == "me"
    assert "Origin" not in headers
