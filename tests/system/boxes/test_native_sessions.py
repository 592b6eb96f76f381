"""Sessions of native boxes: created, reused, in conflict, recreated, idle, persistent, deleted.

The first half runs the real clients, the second a test client that sees every field.
"""

import contextlib
import datetime
import pathlib

import pytest

import boxdlib
import nativelib
import proclib
from clientlib import context, physical

MADE = {
    "session_id": "made",
    "backend_name": "local",
    "image": "rockchin/langbot-sandbox:latest",
    "network": "off",
    "host_path": None,
    "host_path_mode": "rw",
    "mount_path": "/workspace",
    "persistent": False,
    "cpus": 0.5,
    "memory_mb": 128,
    "pids_limit": 64,
    "read_only_rootfs": True,
    "workspace_quota_mb": 0,
    "status": "idle",
}

# member of a later spec: its value there, and how the answer shows the session's own
CONFLICTS = {
    "network": ("on", "off"),
    "image": ("other:latest", "rockchin/langbot-sandbox:latest"),
    "host_path": ("/tmp", "None"),
    "host_path_mode": ("ro", "rw"),
    "mount_path": ("/work", "/workspace"),
    "persistent": (True, "False"),
    "cpus": (2.0, "0.5"),
    "memory_mb": (256, "128"),
    "pids_limit": (65, "64"),
    "read_only_rootfs": (False, "True"),
    "workspace_quota_mb": (5, "0"),
}
SPEC = {"session_id": "made", "cpus": 0.5, "memory_mb": 128, "pids_limit": 64}


def exec_in(session, cmd, **spec):
    return {"do": "exec", "session_id": session, "cmd": cmd, **spec}


def make_steps(place, generation, carrier, mode):
    mark = nativelib.marker()
    steps = {
        "init": {"do": "init", "backend": "local"},
        "none": {"do": "list"},
        "created": {"do": "create", **SPEC},
        "created again": {"do": "create", **SPEC},
        "write": {"do": "exec", "cmd": "echo 1 >/tmp/f; echo 2 >f; echo 3 >~/f", **SPEC},
        "read": {"do": "exec", "cmd": "cat /tmp/f f ~/f", **SPEC},
        "read elsewhere": exec_in("other", "cat /tmp/f f ~/f; ls -A . /tmp ~"),
        "got": {"do": "get", "session_id": "made"},
        "listed": {"do": "list"},
        "listed by others": {"do": "list", "workspace": "ws2"},
        "status": {"do": "status"},
    }
    for member, (value, _) in CONFLICTS.items():
        spec = {"do": "exec", "cmd": "true", **SPEC, member: value}
        if member == "mount_path":
            spec["workdir"] = value
        steps[f"conflict {member}"] = spec
    steps |= {
        "still there": {"do": "exec", "cmd": "cat /tmp/f", **SPEC},
        "background": {"do": "exec", "cmd": f"sleep {mark} & echo x >/tmp/g", **SPEC},
        "begun": {"do": "await", "marker": mark},
        "survives": {"do": "exec", "cmd": "pgrep -cx sleep; cat /tmp/g", **SPEC},
        "kill": {"do": "kill_init", "marker": mark},
        "made anew": {"do": "exec", "cmd": "cat /tmp/f; pgrep -cx sleep; true", **SPEC},
        "neighbour": exec_in("other", "echo there"),
        "background again": {"do": "exec", "cmd": f"sleep {mark} &", **SPEC},
        "alive": {"do": "await", "marker": mark},
        "deleted": {"do": "delete", "session_id": "made"},
        "deleted again": {"do": "delete", "session_id": "made"},
        "dead": {"do": "count", "marker": mark},
        "got deleted": {"do": "get", "session_id": "made"},
        "fresh": {"do": "exec", "cmd": "ls -A . /tmp ~", **SPEC},
        # Idle sessions expire: nothing else may use them meanwhile.
        "keep": {"do": "create", "session_id": "kept", "persistent": True},
        "mark": exec_in("kept", "echo x >/tmp/x", persistent=True),
        "short": {"do": "init", "backend": "local", "session_ttl_sec": 1},
        "busy": exec_in("busy", "sleep 2.5; echo done"),
        "after": {"do": "list"},
        "kept": exec_in("kept", "cat /tmp/x", persistent=True),
    }
    return steps


pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.fixture(scope="module")
def flows(nothing_left):
    with nativelib.Flows(make_steps, nativelib.HALF) as made:
        yield made


@pytest.fixture(scope="module", params=nativelib.HALF, ids=nativelib.names(nativelib.HALF))
def flow(request, flows):
    return flows.results(request.param)


# With the real clients.


def test_created_and_reused(flow):
    created = flow.gave("created")
    assert flow.gave("none") == []
    assert MADE.items() <= created.items()
    assert created["backend_session_id"] == physical("made")
    for name in ("created_at", "last_used_at"):
        assert datetime.datetime.fromisoformat(created[name]).tzinfo is not None
    for again in (flow.gave("created again"), flow.gave("got")):
        assert again["created_at"] == created["created_at"] and MADE.items() <= again.items()
    assert flow.gave("write")["exit_code"] == 0
    assert flow.gave("read")["stdout"] == "1\n2\n3"


def test_listed(flow):
    assert [one["session_id"] for one in flow.gave("listed")] == ["made", "other"]
    assert flow.gave("listed by others") == []
    status = flow.gave("status")
    assert status["active_sessions"] == 2
    assert status["capacity"] == {"limit": 56, "used": 2, "remaining": 54}


def test_files_are_the_session_s_own(flow):
    result = flow.gave("read elsewhere")
    assert result["stdout"] == ".:\n\n/home/box:\n\n/tmp:"
    assert result["stderr"].count("No such file or directory") == 3


@pytest.mark.parametrize("member", CONFLICTS)
def test_conflict(flow, member):
    name, text = flow.raised(f"conflict {member}")
    assert name == "BoxSessionConflictError"
    shown = f"{member}={CONFLICTS[member][1]}"
    assert text == f"{name}: Box session {physical('made')} already exists with {shown}"


def test_a_conflict_changes_nothing(flow):
    assert flow.gave("still there")["stdout"] == "1"


def test_background_processes_survive_an_exec(flow):
    assert flow.gave("background")["exit_code"] == 0
    assert flow.gave("survives")["stdout"] == "1\nx"


def test_made_anew_after_the_death_of_init(flow):
    assert flow.gave("kill") is None
    anew = flow.gave("made anew")
    assert (anew["status"], anew["stdout"]) == ("completed", "0")
    assert anew["stderr"] == "cat: /tmp/f: No such file or directory"
    assert flow.gave("neighbour")["stdout"] == "there"


def test_deleted(flow):
    assert flow.gave("background again")["exit_code"] == 0
    assert flow.gave("alive") is None
    assert flow.gave("deleted") is None
    assert flow.gave("dead") == 0
    assert flow.raised("deleted again")[0] == "BoxSessionNotFoundError"
    assert flow.raised("got deleted")[0] == "BoxSessionNotFoundError"
    assert flow.gave("fresh")["stdout"] == ".:\n\n/home/box:\n\n/tmp:"


def test_idle_ones_go_and_persistent_ones_stay(flow):
    assert flow.gave("keep")["persistent"] is True
    assert flow.gave("short") is None
    busy = flow.gave("busy")
    assert (busy["status"], busy["stdout"]) == ("completed", "done")
    assert [one["session_id"] for one in flow.gave("after")] == ["kept", "busy"]
    assert flow.gave("kept")["stdout"] == "x"


# In detail, with a test client.


@pytest.fixture(scope="module")
def client(place):
    with nativelib.dialled(place) as made:
        yield made


def inits(boxd):
    """The PID 1s of the client's boxes: each is a child of boxd."""
    listed = pathlib.Path(f"/proc/{boxd.pid}/task/{boxd.pid}/children").read_text()
    return [pid for pid in map(int, listed.split()) if is_init(pid)]


def is_init(pid):
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return boxdlib.status_of(pid)["NSpid"].split()[-1] == "1" and not boxdlib.is_warm_box(pid)
    return False


def test_status_while_running(client):
    seq = client.start("box_exec", {"cmd": "sleep 60", "session_id": "r", "timeout_sec": 60})
    boxdlib.wait_running(client, "r")
    assert client.ask("box_get_session", {"session_id": "r"})["status"] == "running"
    client.ask("box_delete_session", {"session_id": "r"})
    assert client.wait(seq)["code"] == 1


def test_a_command_whose_box_dies_is_answered(client):
    mark = nativelib.marker()
    seq = client.start("box_exec", {"cmd": f"exec sleep {mark}", "session_id": "d"})
    proclib.kill_init(mark)
    answer = client.wait(seq)
    assert answer["code"] == 1 and answer["message"].startswith("BoxError: "), answer
    assert client.exec("echo again", "d")["stdout"] == "again"


def test_many_deaths_in_a_row(client):
    for turn in range(5):
        mark = nativelib.marker()
        assert client.exec(f"sleep {mark} & echo {turn}", "dies")["stdout"] == str(turn)
        proclib.kill_init(mark)
    assert client.exec("echo end", "dies")["stdout"] == "end"


def test_spellings_of_a_session_are_one(client):
    first = client.exec("echo x >/tmp/f; echo $?", "person:1/a b")
    again = client.exec("cat /tmp/f", "person-1-a-b")
    assert (first["session_id"], again["session_id"]) == ("person-1-a-b", "person-1-a-b")
    assert again["stdout"] == "x"


def test_same_id_in_two_workspaces_is_two_boxes(client):
    client.exec("echo x >/tmp/f", "twin")
    other = client.exec("ls -A /tmp", "twin", context=context("ws2"))
    assert (other["stdout"], other["exit_code"]) == ("", 0)


def test_a_higher_generation_removes_the_older_boxes(client):
    mark = nativelib.marker()
    client.exec(f"sleep {mark} &", "gen", context=context("ws3", 1))
    proclib.find_one(mark)
    assert client.exec("echo x", "gen", context=context("ws3", 2))["stdout"] == "x"
    boxdlib.wait_until(lambda: not proclib.find(mark), 5, "the older box is gone")


def test_first_execs_at_once_share_one_box(client):
    started = [
        client.start("box_exec", {"cmd": "echo $$ >>/tmp/all", "session_id": "first"})
        for _ in range(10)
    ]
    assert [client.wait(seq)["data"]["exit_code"] for seq in started] == [0] * 10
    assert client.exec("sort -u /tmp/all | wc -l", "first")["stdout"] == "10"


def test_many_first_execs_at_once(client):
    """Each makes a box of its own: requests wait while boxd is busy."""
    started = [
        client.start("box_exec", {"cmd": f"echo {n}", "session_id": f"many{n}"}) for n in range(40)
    ]
    answers = [client.wait(seq, 60) for seq in started]
    assert [one["message"] for one in answers] == ["success"] * 40
    assert [one["data"]["stdout"] for one in answers] == [str(n) for n in range(40)]
    for n in range(40):
        client.ask("box_delete_session", {"session_id": f"many{n}"})


def test_capacity(place):
    with nativelib.dialled(place, config={"limits": {"max_sessions": 2}}) as client:
        client.exec("true", "a")
        client.exec("true", "b")
        error = client.fail("box_exec", {"cmd": "true", "session_id": "c"})
        assert error == "BoxCapacityExceededError: Box session capacity reached (2)"
        client.ask("box_delete_session", {"session_id": "a"})
        assert client.exec("echo c", "c")["stdout"] == "c"


def test_shutdown_destroys_every_box_and_the_runtime_stays(place):
    with nativelib.dialled(place) as client:
        for session in "abc":
            client.exec("true", session)
        assert len(inits(client.boxd)) == 3
        assert client.ask("box_shutdown") == {}
        boxdlib.wait_until(lambda: not inits(client.boxd), 5, "every box is gone")
        boxdlib.wait_until(lambda: not client.ask("box_get_sessions")["sessions"], 5, "none listed")
        assert client.exec("echo x", "a")["stdout"] == "x"


def test_deleting_makes_room_for_thirty_more(client):
    """Nothing leaks: ids, cgroups, fds."""
    client.exec("true", "base")
    before = boxdlib.settled_fd_count(client.boxd.pid) if boxdlib.ROOT else None
    for turn in range(30):
        assert client.exec(f"echo {turn}", "turn")["stdout"] == str(turn)
        client.ask("box_delete_session", {"session_id": "turn"})
    if before is not None:
        boxdlib.wait_until(
            lambda: boxdlib.settled_fd_count(client.boxd.pid) <= before, 9, "boxd holds no more fds"
        )
