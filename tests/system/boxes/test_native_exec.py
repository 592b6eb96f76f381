"""Commands in native boxes: results, streams, environment, exit states and timeouts.

The first half runs the real clients of both generations over both transports, with boxd as root and
as an ordinary user; the second half uses a test client that sees every field.
"""

import time

import pytest

import parallellib
import boxdlib
import nativelib

CLIP = "\n... [raw output clipped at {} bytes, {} bytes discarded]"
DEFAULT_CLIP_BYTES = 8 << 20
CONFIG = {"limits": {"max_output_bytes": 1 << 20}}
LONG = "0123456789abcdef" * (5 << 16)  # 5 MiB

# name: the members of the spec, then what comes back (exit_code 0, stdout, stderr "" unless said)
CASES = {
    "both streams": ({"cmd": "echo out; echo err >&2"}, {"stdout": "out", "stderr": "err"}),
    "streams by their names": (
        {"cmd": "echo out >/dev/stdout; echo err >/dev/stderr; cat /dev/stdin"},
        {"stdout": "out", "stderr": "err"},
    ),
    "exit code": ({"cmd": "echo x; exit 3"}, {"stdout": "x", "exit_code": 3}),
    "largest exit code": ({"cmd": "exit 255"}, {"exit_code": 255}),
    "no such command": ({"cmd": "exec /nonexistent 2>/dev/null"}, {"exit_code": 127}),
    "killed": ({"cmd": "kill -9 $$"}, {"exit_code": 137}),
    "terminated": ({"cmd": "kill -TERM $$"}, {"exit_code": 143}),
    "strip": ({"cmd": r"printf '\t \n a \n b\r\n\n \302\240'"}, {"stdout": "a \n b"}),
    "only white space": ({"cmd": r"printf ' \n\t\n'"}, {"stdout": ""}),
    "repair": (
        {"cmd": r"printf 'a\377b\355\240\200c\360\237\230'; printf '\300' >&2"},
        {"stdout": "a\ufffdb\ufffd\ufffd\ufffdc\ufffd", "stderr": "\ufffd"},
    ),
    "wide": ({"cmd": "echo 'é漢😀'"}, {"stdout": "é漢😀"}),
    "stdin": ({"cmd": "cat; readlink /proc/self/fd/0"}, {"stdout": "/dev/null"}),
    "usual workdir": ({"cmd": "pwd"}, {"stdout": "/workspace"}),
    "workdir is made": (
        {"cmd": "pwd; stat -c %u .", "workdir": "/workspace/a/b c"},
        {"stdout": "/workspace/a/b c\n1000"},
    ),
    "workdir that is there": ({"cmd": "pwd", "workdir": "/usr/lib"}, {"stdout": "/usr/lib"}),
    "environment": (
        {
            "cmd": 'printf "%s|%s|%s" "$A" "$B" "$WIDE"',
            "env": {"A": "a b  'c'\n$(d)", "B": "", "WIDE": "漢"},
        },
        {"stdout": "a b  'c'\n$(d)||漢"},
    ),
    "environment wins": (
        {"cmd": 'echo "$HOME $PATH"', "env": {"HOME": "/tmp", "PATH": "/usr/bin"}},
        {"stdout": "/tmp /usr/bin"},
    ),
    "nothing of ours is passed on": (
        {"cmd": "env | cut -d= -f1 | grep -E 'LANGBOT|ASAN|BOX|SUDO|SSH'", "env": {}},
        {"exit_code": 1},
    ),
    "who": (
        {"cmd": "id -un; id -u; id -G; hostname; echo $HOME"},
        {"stdout": "box\n1000\n1000\nbox\n/home/box"},
    ),
    "a long cmd": (
        {"cmd": f"x={LONG}\nprintf %s ${{#x}}; printf %s $x | tail -c 6"},
        {"stdout": f"{len(LONG)}{LONG[-6:]}"},
    ),
    "clipped": (
        {"cmd": "head -c 9000000 /dev/zero | tr '\\0' x; echo end >&2"},
        {
            "stdout": "x" * DEFAULT_CLIP_BYTES
            + CLIP.format(DEFAULT_CLIP_BYTES, 9000000 - DEFAULT_CLIP_BYTES),
            "stderr": "end",
        },
    ),
    "limits of its own": (
        {"cmd": "ulimit -n 64; prlimit --nofile=32 sh -c 'ulimit -n'; ulimit -n"},
        {"stdout": "32\n64"},
    ),
    "limits of others": (
        {"cmd": "sleep 9 & prlimit --pid $! --nofile=32 2>&1 | grep -o 'not permitted'"},
        {"stdout": "not permitted"},
    ),
    "home is writable": ({"cmd": "echo x >~/f && cat ~/f"}, {"stdout": "x"}),
}

REFUSED = {
    "empty": ({"cmd": " "}, r"cmd must not be empty"),
    "workdir below the read-only root": ({"cmd": "pwd", "workdir": "/opt/x"}, "workdir /opt/x "),
    "workdir is a file": ({"cmd": "pwd", "workdir": "/usr/bin/env"}, "workdir /usr/bin/env "),
    "workdir of another": ({"cmd": "pwd", "workdir": "/proc/x"}, "workdir /proc/x "),
    "name of a variable": ({"cmd": "env", "env": {"A=B": "x"}}, "env."),
    "nul in a variable": ({"cmd": "env", "env": {"A": "x\0y"}}, "env.A"),
}


def make_steps(place, generation, carrier, mode):
    steps = {"init": {"do": "init", "backend": "local"}, "info": {"do": "info"}}
    for name, (spec, _) in {**CASES, **REFUSED}.items():
        steps[name] = {"do": "exec", "session_id": "s", **spec}
    steps["sessions"] = {"do": "list"}
    late = {"session_id": "late", "timeout_sec": 1}
    said = {"cmd": "echo so far; echo e >&2; sleep 60; echo no", "timeout_sec": 3}
    steps["late"] = {"do": "exec", **late, **said}
    steps["late list"] = {"do": "list"}
    steps["late status"] = {"do": "status"}
    steps["late session"] = {"do": "get", "session_id": "late"}
    steps["late silent"] = {"do": "exec", "cmd": "exec sleep 60", **late}
    steps["side by side"] = {
        "do": "together",
        "specs": [
            {"cmd": f"sleep 0.2; echo {n}", "session_id": f"t{n % 4}"} for n in range(32)
        ],
    }
    return steps


pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.fixture(scope="module")
def flows(nothing_left):
    with nativelib.Flows(make_steps, workers=8) as made:
        yield made


@pytest.fixture(scope="module", params=nativelib.EVERYONE, ids=nativelib.names(nativelib.EVERYONE))
def flow(request, flows):
    return flows.results(request.param)


def short(result):
    """An assertion that prints megabytes would be unreadable."""
    return {key: f"{len(v)} {v[-90:]}" if isinstance(v, str) else v for key, v in result.items()}


# With the real clients.


@pytest.mark.parametrize("name", CASES)
def test_case(flow, name):
    result = flow.gave(name)
    expected = {"status": "completed", "exit_code": 0, "stdout": "", "stderr": "", **CASES[name][1]}
    assert isinstance(result.pop("duration_ms"), int)
    got = {key: result[key] for key in expected}
    assert got == expected, short(result)
    assert (result["session_id"], result["backend_name"]) == ("s", "local")


@pytest.mark.parametrize("name", REFUSED)
def test_refused(flow, name):
    error, text = flow.raised(name)
    assert error == "BoxValidationError", text
    assert REFUSED[name][1] in text


def test_all_were_one_session(flow):
    assert flow.gave("info") == nativelib.backend(flow.place.mode)
    assert [one["session_id"] for one in flow.gave("sessions")] == ["s"]


def test_timeout(flow):
    late = flow.gave("late")
    assert (late["status"], late["exit_code"]) == ("timed_out", None)
    assert (late["stdout"], late["stderr"]) == ("so far", "e")
    assert 3000 <= late["duration_ms"] < 8000
    # The old box may still be ending; clients no longer see it.
    assert "late" not in [one["session_id"] for one in flow.gave("late list")]
    assert flow.gave("late status")["active_sessions"] == len(flow.gave("late list"))
    assert flow.raised("late session")[0] == "BoxSessionNotFoundError"
    silent = flow.gave("late silent")
    assert (silent["status"], silent["exit_code"], silent["stdout"]) == ("timed_out", None, "")
    assert silent["stderr"] == "Command timed out after 1 seconds."


def test_side_by_side(flow):
    results = flow.gave("side by side")
    assert [one["gave"]["stdout"] for one in results] == [str(n) for n in range(32)]


# In detail, with a test client.


@pytest.fixture(scope="module")
def client(place):
    with nativelib.dialled(place, config=CONFIG) as made:
        yield made


@pytest.fixture(scope="module")
def scenes(request, nothing_left):
    with parallellib.begun(request, config=CONFIG) as made:
        yield made


@pytest.mark.usefixtures("scenes")  # they wait while others work
def test_result_has_these_members(client):
    result = client.exec("echo x")
    assert isinstance(result.pop("duration_ms"), int)
    assert result == {
        "session_id": "s",
        "backend_name": "local",
        "status": "completed",
        "exit_code": 0,
        "stdout": "x",
        "stderr": "",
        "end": {"reason": "exit", "signal": None},
    }


def test_every_exit_code(client):
    started = [
        client.start("box_exec", {"cmd": f"exit {code}", "session_id": "s"}) for code in range(100)
    ]
    codes = [client.wait(seq)["data"]["exit_code"] for seq in started]
    codes += [client.exec(f"exit {code}")["exit_code"] for code in range(100, 256)]
    assert codes == list(range(256))


@pytest.mark.parametrize("number", [1, 2, 3, 4, 6, 8, 9, 10, 11, 13, 14, 15, 31, 34, 64])
def test_signal(client, number):
    result = client.exec(f"echo a; kill -{number} $$; echo b")
    assert (result["exit_code"], result["stdout"]) == (128 + number, "a")
    assert (result["status"], result["stderr"]) == ("completed", "")
    assert result["end"] == {"reason": "signal", "signal": number}


def test_exit_code_of_a_killed_child_is_no_signal(client):
    result = client.exec("sh -c 'kill -9 $$'; exit 137")
    assert (result["exit_code"], result["end"]) == (137, {"reason": "exit", "signal": None})


@pytest.mark.parametrize("over", [-1, 0, 1, 51424])
def test_clip_at_the_limit(client, over):
    size = (1 << 20) + over
    result = client.exec(f"head -c {size} /dev/zero | tr '\\0' y")
    clip = CLIP.format(1 << 20, over) if over > 0 else ""
    assert result["stdout"] == "y" * min(size, 1 << 20) + clip, short(result)


def test_both_streams_are_clipped_alone(client):
    result = client.exec("head -c 1048580 /dev/zero | tr '\\0' y >&2; echo x")
    assert result["stdout"] == "x"
    assert result["stderr"] == "y" * (1 << 20) + CLIP.format(1 << 20, 4), short(result)


def test_a_clip_inside_a_character_is_repaired(client):
    size = (1 << 20) - 1
    result = client.exec(f"head -c {size} /dev/zero | tr '\\0' y; printf 漢")
    assert result["stdout"] == "y" * size + "\ufffd" + CLIP.format(1 << 20, 2), short(result)


def test_output_without_end_is_drained(client):
    """Clipping the output does not block the command."""
    result = client.exec("head -c 100000000 /dev/zero; echo $? >&2", seconds=60)
    assert (result["exit_code"], result["stderr"]) == (0, "0")
    discarded = 100000000 - (1 << 20)
    assert result["stdout"] == "\0" * (1 << 20) + CLIP.format(1 << 20, discarded), short(result)


@parallellib.scene
def test_timeout_ends_all_of_it_and_the_session(client):
    mark = nativelib.marker()
    command = f"trap '' TERM; sleep {mark} & echo a; echo b >&2; exec sleep 60"
    late = client.exec(command, "late", timeout_sec=3)
    assert isinstance(late.pop("duration_ms"), int)
    assert late == {
        "session_id": "late",
        "backend_name": "local",
        "status": "timed_out",
        "exit_code": None,
        "stdout": "a",
        "stderr": "b",
        "end": {"reason": "timeout", "signal": None},
    }
    boxdlib.wait_until(lambda: not nativelib.proclib.find(mark), what="the box is gone")

    def sessions():
        return [one["session_id"] for one in client.ask("box_get_sessions")["sessions"]]

    boxdlib.wait_until(lambda: "late" not in sessions(), what="the session is gone")


def test_background_processes_do_not_hold_up_the_answer(client):
    """A background process that keeps the pipes open does not delay the command's end."""
    mark = nativelib.marker()
    started = time.monotonic()
    result = client.exec(f"sleep {mark} & echo started", "back")
    assert result["stdout"] == "started" and time.monotonic() - started < 5
    nativelib.proclib.find_one(mark)
    assert client.exec("pgrep -cx sleep", "back")["stdout"] == "1"
    client.ask("box_delete_session", {"session_id": "back"})
    boxdlib.wait_until(lambda: not nativelib.proclib.find(mark), what="the process died")


def test_execs_run_side_by_side_in_one_session(client):
    """Each waits for the next one's file, so they all run at the same time or time out."""
    count = 32
    command = "touch /tmp/f{0}; until [ -e /tmp/f{1} ]; do sleep 0.05; done; echo {0}"
    started = [
        client.start(
            "box_exec", {"cmd": command.format(n, (n + 1) % count), "session_id": "crowd"}
        )
        for n in range(count)
    ]
    answers = [client.wait(seq, 30)["data"]["stdout"] for seq in started]
    assert answers == [str(n) for n in range(count)]


def test_a_closed_connection_ends_its_commands(client):
    mark = nativelib.marker()
    with client.boxd.web() as other:
        other.start("box_exec", {"cmd": f"exec sleep {mark}", "session_id": "s"})
        nativelib.proclib.find_one(mark)
    boxdlib.wait_until(lambda: not nativelib.proclib.find(mark), 5, "the command ended")
    assert client.exec("echo on")["stdout"] == "on"


def start_stream(client, cmd, session):
    """A live command that has started, with a time limit of 4 s."""
    data = {"cmd": cmd, "session_id": session, "timeout_sec": 4}
    seq = client.start("box_exec_stream", data, stream_flow_control=1)
    assert client.wait(seq)["data"]["event"] == "started"
    return seq


def read_stream(client, seq):
    """The rest of the output and the last event of a stream whose start has been read."""
    out = ""
    while True:
        part = client.wait(seq)
        event = part["data"]
        if event["event"] == "exit":
            return out, event
        out += event["data"]
        assert client.ask("__stream_ack", {"seq_id": seq, "index": part["stream_index"]})


@parallellib.scene
def test_streams_that_nobody_reads_do_not_take_their_sessions(client):
    """Streams that are cancelled, closed, or not read for long after the command has ended: in each
    case the output fills the whole window."""
    sessions = ("cancelled", "closed", "slow")
    for session in sessions:
        client.exec("touch /tmp/mine", session)
    cancelled = start_stream(client, "yes", "cancelled")
    slow = start_stream(client, "yes | head -c 1500000 & sleep 0.4", "slow")
    with client.boxd.web() as other:
        start_stream(other, "yes", "closed")
        time.sleep(0.5)
    assert client.ask("__cancel_action", {"seq_id": cancelled}) == {"cancelled": True}
    time.sleep(4 + 5 + 1)  # the limit, and how late box-init may be
    for session in sessions:
        assert client.exec("ls /tmp/mine", session)["stdout"] == "/tmp/mine"
    for session in ("cancelled", "closed"):
        assert client.exec("pgrep -x yes", session)["stdout"] == ""
    out, event = read_stream(client, slow)
    assert event["status"] == "completed" and len(out) > 256 << 10
    assert out == ("y\n" * 750000)[: len(out)]


@pytest.mark.parametrize("backend", ["local", "nsjail", "native", ""])
def test_the_backend_answers_to_the_name_it_was_asked_by(place, backend):
    name = backend or "native"
    with nativelib.dialled(place, backend=backend) as client:
        info = nativelib.backend(place.mode, name)
        assert client.ask("box_get_backend_info") == info
        assert client.ask("box_health") == info
        assert client.exec("echo x")["backend_name"] == name
        assert client.ask("box_get_sessions")["sessions"][0]["backend_name"] == name
        status = client.ask("box_status")
        assert status["backend"] == info
        assert (status["active_sessions"], status["capacity"]["used"]) == (1, 1)


def test_an_unconfigured_runtime_has_native_boxes(place):
    with place.start() as boxd, boxd.web() as client:
        assert client.ask("box_get_backend_info") == nativelib.backend(place.mode, "native")
        assert client.exec("echo x")["stdout"] == "x"
