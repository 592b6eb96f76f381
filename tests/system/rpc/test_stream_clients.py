"""Live commands with the streaming of the real clients: 0.7 counts and acknowledges parts with its
own flow control and cancels streams it abandons, 0.5 does neither.
"""

import base64
import hashlib

import pytest

import nativelib

# 0.5 abandons a stream once 128 parts are waiting in it; 0.7 is never sent more than it has room
# for.
NUMBERS = {"OLD": 20_000, "NEW": 400_000}
ZEROS = 5_000_000
EXIT = {"event": "exit", "status": "completed"}
BOTH = "echo out; echo ä; printf '\\377\\n'; sleep 0.2; echo e >&2; exit 3"
BY_NAME = "cat /dev/stdin >/dev/stdout; echo e >/dev/stderr"
BEHIND = "(sleep 3; head -c 300000 /dev/zero && echo alive >/tmp/behind) & echo gone"
AWAIT_BEHIND = "until [ -s /tmp/behind ]; do sleep 0.05; done; cat /tmp/behind"
TRAP = "trap 'echo heard; exit 7' USR1; echo ready; while :; do sleep 0.05; done"


def make_steps(place, generation, carrier, mode):
    mark = nativelib.marker()
    live = {"do": "stream", "session_id": "s"}
    typed = [
        ["INPUT", {"data": "one\n"}],
        ["INPUT", {"data_base64": base64.b64encode(b"\xff\0").decode()}],
        ["INPUT", {"data": "two", "eof": True}],
    ]
    late = [["INPUT", {"data": "x", "eof": True}], ["INPUT", {"data": "more"}]]
    slow = {"slow": 0.005} if generation == "NEW" else {}
    ended = {"most": 0} if generation == "NEW" else {}
    return {
        "init": {"do": "init", "backend": "local"},
        "both": {**live, "cmd": BOTH},
        "much": {**live, "cmd": f"seq 1 {NUMBERS[generation]}", **slow},
        "zeros": {**live, "cmd": f"head -c {ZEROS} /dev/zero", **slow},
        "input": {**live, "cmd": "cat", "stdin": True, "orders": typed},
        "by name": {**live, "cmd": BY_NAME, "stdin": True, "orders": typed},
        "behind": {**live, "cmd": BEHIND},
        "late": {**live, "cmd": "cat; sleep 3", "stdin": True, "orders": late},
        "terminal": {
            **{**live, "cmd": "stty size; read x; stty size", "stdin": True},
            **{"tty": {"rows": 30, "cols": 100}, "when": "stdout"},
            "orders": [["RESIZE", {"rows": 5, "cols": 7}], ["INPUT", {"data": "\r"}]],
        },
        "signal": {**live, "cmd": TRAP, "when": "stdout", "orders": [["SIGNAL", {"signal": 10}]]},
        "timeout": {**live, "session_id": "t", "cmd": "echo a; sleep 1000", "timeout_sec": 4},
        "no rows": {**live, "cmd": "true", "tty": {"rows": 0, "cols": 80}},
        "left": {**live, "cmd": f"echo first; exec sleep {mark}", "leave": True},
        "pause": {"do": "sleep", "seconds": 0.5},
        "what was left": {"do": "count", "marker": mark, **ended},
        "after": {"do": "exec", "session_id": "s", "cmd": "echo on"},
        "what was behind": {"do": "exec", "session_id": "s", "cmd": AWAIT_BEHIND},
    }


pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.fixture(scope="module")
def flows(nothing_left):
    with nativelib.Flows(make_steps, nativelib.EVERYONE, workers=8) as made:
        yield made


@pytest.fixture(scope="module", params=nativelib.EVERYONE, ids=nativelib.names(nativelib.EVERYONE))
def flow(request, flows):
    flow = flows.results(request.param)
    flow.generation = request.param[0]
    return flow


def test_both_streams_and_the_end(flow):
    told = flow.gave("both")
    assert told["events"] == ["started", "stdout", "stderr", "exit"]
    assert told["stdout"].encode("latin-1") == "out\nä\n".encode() + b"\xff\n"
    assert told["stderr"] == "e\n"
    end = {"reason": "exit", "signal": None}
    duration = told["exit"].pop("duration_ms")
    assert told["exit"] == {**EXIT, "exit_code": 3, "end": end} and 200 <= duration < 20_000


def test_much_output_arrives_whole(flow):
    whole = "".join(f"{number}\n" for number in range(1, NUMBERS[flow.generation] + 1)).encode()
    told = flow.gave("much")
    assert told["stdout"] == {"sha256": hashlib.sha256(whole).hexdigest(), "bytes": len(whole)}
    assert told["exit"]["exit_code"] == 0


def test_control_characters_arrive_whole(flow):
    """As JSON text they are six times as long; 0.7 accepts no part above 1 MiB."""
    told = flow.gave("zeros")
    digest = hashlib.sha256(bytes(ZEROS)).hexdigest()
    assert told["stdout"] == {"sha256": digest, "bytes": ZEROS}
    assert told["exit"]["exit_code"] == 0


def test_input_and_its_end(flow):
    told = flow.gave("input")
    assert told["stdout"] == "one\n\xff\0two" and told["orders"] == [{}, {}, {}]
    first, second = flow.gave("late")["orders"]
    assert first == {} and second == "BoxValidationError: the input has ended already"


def test_pipes_can_be_opened_by_name(flow):
    told = flow.gave("by name")
    assert (told["stdout"], told["stderr"]) == ("one\n\xff\0two", "e\n")


def test_what_a_command_leaves_behind_may_write_on(flow):
    told = flow.gave("behind")
    assert told["stdout"] == "gone\n" and told["exit"]["duration_ms"] < 3000
    assert flow.gave("what was behind")["stdout"] == "alive"


def test_terminal(flow):
    told = flow.gave("terminal")
    assert told["stdout"] == "30 100\r\n\r\n5 7\r\n" and told["stderr"] == ""
    assert told["orders"] == [{}, {}]


def test_signal(flow):
    told = flow.gave("signal")
    assert told["stdout"] == "ready\nheard\n" and told["exit"]["exit_code"] == 7
    assert told["orders"] == [{}]


def test_timeout(flow):
    told = flow.gave("timeout")
    assert (told["stdout"], told["exit"]["status"]) == ("a\n", "timed_out")
    assert told["exit"]["exit_code"] is None


def test_a_terminal_without_rows(flow):
    name, text = flow.raised("no rows")
    assert text.startswith("BoxValidationError: ") and "rows" in text


def test_one_that_is_left(flow):
    """0.7 cancels it; 0.5 sends nothing, and the command runs until the connection or the session
    ends."""
    told = flow.gave("left")
    assert (told["stdout"], "exit" in told) == ("first\n", False)
    assert flow.gave("what was left") == (0 if flow.generation == "NEW" else 1)
    assert flow.gave("after")["stdout"] == "on"
