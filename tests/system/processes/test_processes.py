"""Managed processes of native boxes: start, replace, stop, counts, and how they ended.

The first half runs the real clients over both transports, the second a test client that sees every
field.
"""

import datetime
import json
import random
import time

import pytest

import parallellib
import boxdlib
import nativelib
import proclib
from clientlib import context, physical
from relaylib import Relay, exited, info, shell, start, stop

PREVIEW_CHARACTERS = 4000
EATER = "python3 -c 'x = bytearray({} << 20); print(len(x))'"


def script(text, **spec):
    return {"do": "start", "session_id": "s", "command": "sh", "args": ["-c", text], **spec}


def process(name="default", do="process", **members):
    return {"do": do, "session_id": "s", "process_id": name, **members}


def make_steps(place, generation, carrier, mode):
    mark = nativelib.marker()
    steps = {
        "init": {"do": "init", "backend": "local", "limits": {"max_managed_processes": 9}},
        "no session": {"do": "start", "session_id": "s", "command": "cat"},
        "created": {"do": "create", "session_id": "s", "memory_mb": 64},
        "none": {"do": "get", "session_id": "s"},
        "missing": process(),
        "missing stop": process(do="stop"),
        "started": {
            **{"do": "start", "session_id": "s", "command": "sleep", "args": [mark]},
            "env": {"Z": "1", "A": "hidden"},
        },
        "alive": {"do": "await", "marker": mark},
        "found": process(),
        "others": process(workspace="ws2"),
        "listed": {"do": "get", "session_id": "s"},
        "status": {"do": "status"},
        "status of others": {"do": "status", "workspace": "ws2"},
        "exec beside": {"do": "exec", "session_id": "s", "cmd": "pgrep -cx sleep", "memory_mb": 64},
        # Ends.
        "exits": script("echo o; echo e >&2; exit 3", process_id="exits"),
        "exits after": process("exits", "exited"),
        "signal": script("kill -11 $$", process_id="signal"),
        "signal after": process("signal", "exited"),
        "nosuch": {"do": "start", "session_id": "s", "command": "nosuch", "process_id": "nosuch"},
        "nosuch after": process("nosuch", "exited"),
        "nowhere": script("true", process_id="nowhere", cwd="/dev/null"),
        "nowhere after": process("nowhere", "exited"),
        "env": script("echo $A-$PWD-$HOME-$(id -u) >&2", process_id="env", env={"A": "b c"}),
        "env after": process("env", "exited"),
        "cwd": script("pwd >&2", process_id="cwd", cwd="/tmp"),
        "cwd after": process("cwd", "exited"),
        "long": script("seq 1 3000 >&2; printf 'ä€😀' >&2", process_id="long"),
        "long after": process("long", "exited"),
        "listed all": {"do": "get", "session_id": "s"},
        # Replaced and stopped.
        "replaced": script("exec sleep 1000"),
        "old one": {"do": "count", "marker": mark},
        "replaced found": process(),
        "stopped": process(do="stop"),
        "stopped found": process(),
        "stopped again": process(do="stop"),
        "stop of exited": process("exits", "stop"),
        "exits gone": process("exits"),
        "status at the end": {"do": "status"},
        "last": {"do": "start", "session_id": "s", "command": "sleep", "args": [mark]},
        "last alive": {"do": "await", "marker": mark},
        "deleted": {"do": "delete", "session_id": "s"},
        "last dead": {"do": "count", "marker": mark},
        "gone": process(),
    }
    return steps


pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.fixture(scope="module")
def flows(nothing_left):
    with nativelib.Flows(make_steps, nativelib.EVERYONE) as made:
        yield made


@pytest.fixture(scope="module", params=nativelib.EVERYONE, ids=nativelib.names(nativelib.EVERYONE))
def flow(request, flows):
    return flows.results(request.param)


# With the real clients.


def test_started_and_found(flow):
    started, found = flow.gave("started"), flow.gave("found")
    times = {"started_at": started["started_at"], "exited_at": None}
    assert started == {
        "session_id": "s",
        "process_id": "default",
        "status": "running",
        "command": "sleep",
        "args": started["args"],
        "cwd": "/workspace",
        "env_keys": ["A", "Z"],
        "attached": False,
        "exit_code": None,
        "stderr_preview": "",
        **times,
    }
    assert len(started["args"]) == 1 and started["args"][0].startswith("86400.")
    assert found == started
    assert datetime.datetime.fromisoformat(started["started_at"]).tzinfo is not None
    assert flow.gave("exec beside")["stdout"] == "1"


def test_what_is_not_there(flow):
    name, text = flow.raised("no session")
    assert name == "BoxSessionNotFoundError"
    assert text == f"{name}: session {physical('s')} not found"
    missing = f"session {physical('s')} has no managed process with process_id="
    for step in ("missing", "missing stop", "stopped found", "stopped again"):
        name, text = flow.raised(step)
        assert (name, text) == (name, f"BoxManagedProcessNotFoundError: {missing}default")
    assert flow.raised("exits gone")[1].endswith(f"{missing}exits")
    assert flow.raised("others")[0] == "BoxSessionNotFoundError"
    assert flow.raised("gone")[0] == "BoxSessionNotFoundError"


def test_listed_in_its_session(flow):
    assert "managed_processes" not in flow.gave("none")
    listed = flow.gave("listed")
    assert listed["status"] == "idle"
    assert list(listed["managed_processes"]) == ["default"]
    assert listed["managed_process"] == listed["managed_processes"]["default"]
    assert listed["managed_process"]["env_keys"] == ["A", "Z"]
    assert "hidden" not in json.dumps(listed)
    names = ["default", "exits", "signal", "nosuch", "nowhere", "env", "cwd", "long"]
    assert list(flow.gave("listed all")["managed_processes"]) == names


def test_counted(flow):
    assert flow.gave("status")["managed_processes"] == 1
    assert flow.gave("status of others")["managed_processes"] == 0
    assert flow.gave("status at the end")["managed_processes"] == 0
    assert flow.gave("status")["limits"]["max_managed_processes"] == 9


def test_ends(flow):
    after = flow.gave("exits after")
    assert (after["status"], after["exit_code"]) == ("exited", 3)
    assert after["stderr_preview"] == "e\n"
    assert after["exited_at"] >= after["started_at"]
    assert flow.gave("signal after")["exit_code"] == 128 + 11


def test_a_command_that_cannot_be_started(flow):
    assert flow.gave("nosuch")["status"] == "running"
    after = flow.gave("nosuch after")
    assert after["exit_code"] == 127
    assert after["stderr_preview"] == "nosuch: No such file or directory"
    after = flow.gave("nowhere after")
    text = "sh: its cwd cannot be used: Not a directory"
    assert (after["exit_code"], after["stderr_preview"]) == (127, text)


def test_environment_and_folder(flow):
    assert flow.gave("env after")["stderr_preview"] == "b c-/workspace-/home/box-1000\n"
    assert flow.gave("cwd after")["stderr_preview"] == "/tmp\n"


def test_the_last_characters_of_stderr(flow):
    whole = "".join(f"{number}\n" for number in range(1, 3001)) + "ä€😀"
    assert flow.gave("long after")["stderr_preview"] == whole[-PREVIEW_CHARACTERS:]


def test_replaced_and_stopped(flow):
    assert flow.gave("replaced")["status"] == "running"
    assert flow.gave("old one") == 0
    assert flow.gave("replaced found")["command"] == "sh"
    assert flow.gave("stopped") is None
    assert flow.gave("stop of exited") is None


def test_deleted_with_its_session(flow):
    assert flow.gave("deleted") is None
    assert flow.gave("last dead") == 0


# In detail, with a test client.


@pytest.fixture(scope="module")
def client(place):
    with nativelib.dialled(place) as made:
        yield made


@pytest.fixture(scope="module")
def scenes(request, nothing_left):
    with parallellib.begun(request) as made:
        yield made


def test_stderr_of_one_that_runs(client):
    shell(client, "echo ready >&2; read x; echo more >&2; exec sleep 1000")
    boxdlib.wait_until(lambda: info(client)["stderr_preview"] == "ready\n", 5, "it is shown")
    with Relay(client.boxd) as relay:
        relay.send("")
        boxdlib.wait_until(
            lambda: info(client)["stderr_preview"] == "ready\nmore\n", 5, "all is shown"
        )
    assert info(client)["status"] == "running"
    stop(client)


def test_the_answers_as_they_are_sent(client):
    started = start(client, "sleep", "1000", env={"K": "v"}, foo="ignored")
    assert list(started) == [
        *("session_id", "process_id", "status", "command", "args", "cwd", "env_keys", "attached"),
        *("started_at", "exited_at", "exit_code", "stderr_preview"),
    ]
    stop(client)
    start(client, "true")
    assert exited(client)["end"] == {"reason": "exit", "signal": None}
    shell(client, "kill -9 $$")
    assert exited(client)["end"] == {"reason": "signal", "signal": 9}
    stop(client)


def test_missing_members(client):
    assert client.fail("box_start_managed_process", {"session_id": "s"}) == "KeyError: 'spec'"
    for action in ("start", "get", "stop"):
        answer = client.fail(f"box_{action}_managed_process", {"spec": {"command": "cat"}})
        assert answer == "KeyError: 'session_id'"


@parallellib.scene
def test_stop_asks_first_and_kills_after_five_seconds(client):
    told = "trap 'echo term >&2; exit 5' TERM; while :; do sleep 0.02; done"
    shell(client, told)
    time.sleep(0.2)
    begun = time.monotonic()
    stop(client)
    assert time.monotonic() - begun < 4.5
    mark = nativelib.marker()
    deaf = f"trap '' TERM; touch /tmp/deaf; while :; do sleep 0.02; : {mark}; done; {mark}"
    shell(client, deaf)
    # Its input is closed first: that is enough for a cat that ignores SIGTERM.
    shell(client, "trap '' TERM; touch /tmp/cat; cat; exit 0", process="cat")
    there = "test -e /tmp/deaf -a -e /tmp/cat"
    boxdlib.wait_until(lambda: client.exec(there)["exit_code"] == 0, what="both run")
    begun = time.monotonic()
    stop(client, "cat")
    assert time.monotonic() - begun < 4.5
    begun = time.monotonic()
    stop(client)
    assert 4.5 < time.monotonic() - begun < 9 + boxdlib.STALL_SECONDS


def test_a_replacement_waits_for_the_old_one(client):
    shell(client, "trap 'sleep 0.5; rm /tmp/lock; exit' TERM; touch /tmp/lock; while :; do :; done")
    boxdlib.wait_until(lambda: client.exec("test -e /tmp/lock")["exit_code"] == 0, 5, "it runs")
    begun = time.monotonic()
    shell(client, "test -e /tmp/lock && echo both >&2; sleep 1000")
    assert time.monotonic() - begun > 0.4
    assert info(client)["stderr_preview"] == ""
    # Several at once: the last one stays.
    asked = [
        client.start(
            "box_start_managed_process",
            {"session_id": "s", "spec": {"command": "sleep", "args": [f"100{number}"]}},
        )
        for number in range(5)
    ]
    assert [client.wait(seq)["data"]["args"] for seq in asked] == [[f"100{n}"] for n in range(5)]
    assert info(client)["args"] == ["1004"]
    assert client.exec("pgrep -cx sleep")["stdout"] == "1"
    stop(client)


def test_children_go_with_it(client):
    mark = nativelib.marker()
    shell(client, f"sleep {mark} & sleep {mark} & exit 6")
    assert exited(client)["exit_code"] == 6
    boxdlib.wait_until(lambda: not proclib.find(mark), 5, "its children are gone")
    shell(client, f"sleep {mark} & sleep {mark} & wait")
    boxdlib.wait_until(lambda: len(proclib.find(mark)) == 2, 5, "they run")
    stop(client)
    boxdlib.wait_until(lambda: not proclib.find(mark), 5, "they are gone")


def test_one_that_left_does_not_hold_the_end(client):
    """It writes into both pipes without pause: box-init must not read forever."""
    shell(client, "setsid sh -c 'yes & exec yes >&2' & sleep 0.3; exit 7")
    assert exited(client)["exit_code"] == 7
    assert client.exec("echo here")["stdout"] == "here"
    client.ask("box_delete_session", {"session_id": "s"})


def test_output_that_nobody_reads_blocks(client):
    shell(client, "seq 1 1000000; touch /tmp/done")
    time.sleep(0.5)
    assert info(client)["status"] == "running"
    assert client.exec("test -e /tmp/done")["exit_code"] == 1
    # stderr is read without limit.
    shell(client, "seq 1 1000000 >&2; exit 8", process="errors")
    assert exited(client, "errors")["exit_code"] == 8
    stop(client)
    stop(client, "errors")


def test_memory(place, client):
    if not nativelib.has_limits(place.mode):
        pytest.skip(nativelib.UNLIMITED)
    client.ask("box_create_session", {"session_id": "m", "memory_mb": 64})
    data = {"command": "sh", "args": ["-c", f"exec {EATER.format(300)}"]}
    client.ask("box_start_managed_process", {"session_id": "m", "spec": data})
    ended = exited(client, session="m", seconds=30)
    assert (ended["exit_code"], ended["end"]) == (137, {"reason": "memory", "signal": 9})
    assert client.exec("echo here", "m", memory_mb=64)["stdout"] == "here"
    client.ask("box_delete_session", {"session_id": "m"})


def listed(client):
    return client.ask("box_get_session", {"session_id": "s"}).get("managed_processes", {})


def resources(boxd):
    found = json.loads(boxd.http("/healthz")[2])["resources"]
    return found["managed_processes"], found["completed_processes"]


@parallellib.scene
def test_capacity_retention_and_counts(place):
    limits = {"max_managed_processes": 3, "max_completed_processes": 2}
    with nativelib.dialled(place, config={"limits": limits}) as client:
        for name in "abc":
            start(client, "sleep", "1000", process=name, session=name)
        spec = {"session_id": "a", "spec": {"process_id": "d", "command": "cat"}}
        assert client.fail("box_start_managed_process", spec) == (
            "BoxCapacityExceededError: Box managed process capacity reached (3)"
        )
        assert resources(client.boxd) == (3, 0)
        start(client, "sleep", "1001", process="a", session="a")
        stop(client, "b", "b")
        for name in "123":
            start(client, "true", process=name, session="a")
            exited(client, name, "a")
        # The last two ended processes are kept.
        boxdlib.wait_until(lambda: resources(client.boxd) == (2, 2), 5, "the oldest is forgotten")
        data = {"session_id": "a", "process_id": "1"}
        missing = client.fail("box_get_managed_process", data)
        assert missing.startswith("BoxManagedProcessNotFoundError: ")
        assert info(client, "3", "a")["status"] == "exited"
        assert client.ask("box_status")["managed_processes"] == 2
        assert client.ask("box_status", context=context("ws2"))["managed_processes"] == 0
        assert client.ask("box_get_storage_analysis")["managed_processes"] == 4
        page = client.boxd.http("/metrics")[2].decode()
        assert "\nbox_managed_processes 2\n" in page and "\nbox_completed_processes 2\n" in page
        client.init(backend="local", limits={"completed_process_retention_sec": 1})
        boxdlib.wait_until(lambda: resources(client.boxd) == (2, 0), 5, "none is retained")
        client.ask("box_shutdown")
        boxdlib.wait_until(lambda: resources(client.boxd) == (0, 0), 5, "all are gone")


@parallellib.scene
def test_a_session_with_a_process_is_not_idle(place):
    with nativelib.dialled(place, config={"session_ttl_sec": 1}) as client:
        start(client, "sleep", "1000", session="kept")
        start(client, "sleep", "1.5", session="idle")
        time.sleep(1.2)
        names = [one["session_id"] for one in client.ask("box_get_sessions")["sessions"]]
        assert names == ["kept", "idle"]

        def listed():
            return [one["session_id"] for one in client.ask("box_get_sessions")["sessions"]]

        boxdlib.wait_until(lambda: listed() == ["kept"], 8, "the idle one is gone")


def test_a_client_that_goes_leaves_them(place):
    mark = nativelib.marker()
    with nativelib.dialled(place) as client:
        start(client, "sleep", mark)
        pid = proclib.find_one(mark)
        client.close()
        with client.boxd.web() as again:
            assert info(again)["status"] == "running"
            assert proclib.find_one(mark) == pid


@parallellib.scene
def test_cancelled_start_and_stop(place):
    """The client is gone: a stop continues, a replacement does not start."""
    mark = nativelib.marker()
    with nativelib.dialled(place) as client:
        deaf = "trap '' TERM; while :; do sleep 0.05; done"
        shell(client, deaf, process="a")
        shell(client, deaf, process="b")
        time.sleep(0.2)
        with client.boxd.web() as other:
            other.start("box_stop_managed_process", {"session_id": "s", "process_id": "a"})
            spec = {"process_id": "b", "command": "sleep", "args": [mark]}
            other.start("box_start_managed_process", {"session_id": "s", "spec": spec})
            boxdlib.wait_until(lambda: not listed(client), 5, "both are leaving")
        boxdlib.wait_until(
            lambda: client.ask("box_status")["managed_processes"] == 0, 9, "both have ended"
        )
        assert not proclib.find(mark)


def test_many_at_random(place):
    """Counts and answers stay right, and nothing is left."""
    dice = random.Random(5)
    with nativelib.dialled(place) as client:
        client.ask("box_create_session", {"session_id": "s"})
        running = {}
        for turn in range(150):
            name = dice.choice("abcdef")
            what = dice.choice(("sleep", "sleep", "exit", "stop"))
            if what == "stop":
                data = {"session_id": "s", "process_id": name}
                answer = client.call("box_stop_managed_process", data)
                assert (answer["code"] == 0) == (name in running), answer
                running.pop(name, None)
            elif what == "sleep":
                start(client, "sleep", str(1000 + turn), process=name)
                running[name] = ("running", None)
            else:
                shell(client, f"exit {turn % 100}", process=name)
                ended = exited(client, name)
                assert ended["exit_code"] == turn % 100
                running[name] = ("exited", turn % 100)
            found = listed(client).items()
            assert {key: (one["status"], one["exit_code"]) for key, one in found} == running
        alive = sum(status == "running" for status, _ in running.values())
        assert client.ask("box_status")["managed_processes"] == alive
        assert client.exec("pgrep -cx sleep")["stdout"] == str(alive)
