"""A managed process with a memory limit of its own: only it is killed when it exceeds the limit,
and its end says so.

Checked in the cgroups themselves, of either version. Where an ordinary user has no cgroup,
everything but the error for that case is skipped.
"""

import contextlib
import os
import pathlib
import re
import signal
import time

import pytest

import parallellib
import boxdlib
import nativelib
import proclib
from relaylib import Relay, exited, info, shell, start, stop

EAT = "python3 -c 'x = bytearray({} << 20); print(len(x), flush=True); input()'"
MEMORY = {"reason": "memory", "signal": 9}
LIMITS = ("memory.max", "memory.limit_in_bytes")


pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.fixture(params=nativelib.MODES)
def place(request):
    if not nativelib.has_limits(request.param):
        pytest.skip(nativelib.UNLIMITED)
    with nativelib.Place(request.param) as made:
        yield made


@pytest.fixture
def client(place):
    with nativelib.dialled(place) as made:
        made.ask("box_create_session", {"session_id": "s"})
        yield made


@pytest.fixture(scope="module")
def scenes(request, nothing_left):
    with parallellib.begun(request) as made:
        yield made


# -- the cgroups


def opened(pid):
    with contextlib.suppress(PermissionError):
        for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                yield pathlib.Path(os.readlink(fd))


def cgroup_parents(client):
    """The cgroup parents of a boxd: those that it has open, or as a user those beside its own cgroup."""
    pid = client.boxd.pid
    places = set(opened(pid))
    if not boxdlib.ROOT:
        own = re.search(r"^0::(/.*)$", pathlib.Path(f"/proc/{pid}/cgroup").read_text(), re.M)[1]
        places = set(pathlib.Path("/sys/fs/cgroup" + own).parent.iterdir())
    found = {place for place in places if nativelib.CGROUP_PARENT.fullmatch(place.name)}
    assert found
    return found


def groups(client):
    """Cgroups of single processes, each with its limit in MiB."""
    found = {}
    for parent in cgroup_parents(client):
        for path in parent.glob("*/p*/"):
            # A cgroup that is removed meanwhile has no limit any more.
            with contextlib.suppress(StopIteration, OSError):
                if re.fullmatch(r"p\d+", path.name):
                    limit = next(path / name for name in LIMITS if (path / name).exists())
                    found[path.name] = int(limit.read_text()) >> 20
    return found


def group_of(pid):
    """The cgroup that a process's memory is charged to."""
    text = pathlib.Path(f"/proc/{pid}/cgroup").read_text()
    found = re.search(r"^\d+:(?:[\w,]*\bmemory\b[\w,]*)?:(/.*)$", text, re.M)
    named = re.search(r"^\d+:[\w,]*\bmemory\b[\w,]*:(/.*)$", text, re.M)
    return (named or found)[1].split("/")[-1]


def await_groups(client, count, seconds=5):
    boxdlib.wait_until(lambda: len(groups(client)) == count, seconds, f"{count} groups")


def started(client, mark, process, **spec):
    """A process that sleeps; its pid."""
    start(client, "sleep", mark, process=process, **spec)
    return proclib.find_one(mark)


# -- tests


@pytest.mark.usefixtures("scenes")  # one waits while others work
def test_only_it_dies(client):
    other = nativelib.marker()
    command = client.start("box_exec", {"session_id": "s", "cmd": "sleep 3; echo went on"})
    pid = started(client, other, "other", memory_mb=64)
    boxdlib.wait_until(lambda: groups(client) == {"p1": 64}, 5, "it has a group")
    assert group_of(pid) == "p1"
    shell(client, "exec " + EAT.format(128), process="eater", memory_mb=64)
    ended = exited(client, "eater", seconds=60)
    assert (ended["exit_code"], ended["end"]) == (137, MEMORY)
    assert info(client, "other")["status"] == "running" and proclib.find_one(other) == pid
    # Processes from before the cgroups were made keep running, and new commands start.
    assert client.exec("echo here")["stdout"] == "here"
    done = client.wait(command)["data"]
    assert (done["stdout"], done["end"]["reason"]) == ("went on", "exit")
    # The session itself still has as much room.
    shell(client, EAT.format(128), process="fits")
    with Relay(client.boxd, "fits") as relay:
        assert relay.recv(60) == str(128 << 20)
    stop(client, "fits")
    await_groups(client, 1)
    stop(client, "other")
    await_groups(client, 0)


def test_what_it_started_dies_with_it(client):
    """In version 2 everything is killed; in version 1 the shell that lost a child exits with 137."""
    whole = pathlib.Path("/sys/fs/cgroup/cgroup.controllers").exists()
    after = "sleep 1000" if whole else "exit $?"
    shell(client, f"{EAT.format(128)}; {after}", process="shell", memory_mb=48)
    ended = exited(client, "shell", seconds=60)
    assert (ended["exit_code"], ended["end"]) == (137, MEMORY)
    await_groups(client, 0)


def test_one_that_lost_a_child_and_ends_otherwise(client):
    """In version 1 the first process survives, and reports the failure in its own way."""
    whole = pathlib.Path("/sys/fs/cgroup/cgroup.controllers").exists()
    shell(client, f"{EAT.format(128)} || exit 3", process="fails", memory_mb=48)
    ended = exited(client, "fails", seconds=60)
    assert (ended["exit_code"], ended["end"]) == (137 if whole else 3, MEMORY)
    shell(client, f"{EAT.format(128)}; exit 0", process="copes", memory_mb=48)
    ended = exited(client, "copes", seconds=60)
    assert ended["end"] == (MEMORY if whole else {"reason": "exit", "signal": None})
    # It is stopped later, and its end is that of the stop.
    shell(client, f"{EAT.format(128)}; echo on; sleep 1000", process="stopped", memory_mb=48)
    if not whole:
        with Relay(client.boxd, "stopped") as relay:
            assert relay.recv(60) == "on"
        assert info(client, "stopped")["status"] == "running"
        stop(client, "stopped")
    await_groups(client, 0)


def test_other_ends_are_what_they_are(client):
    shell(client, "kill -9 $$", process="killed", memory_mb=64)
    assert exited(client, "killed")["end"] == {"reason": "signal", "signal": 9}
    shell(client, "exit 137", process="says", memory_mb=64)
    assert exited(client, "says")["end"] == {"reason": "exit", "signal": None}
    start(client, "nosuch", process="nosuch", memory_mb=64)
    ended = exited(client, "nosuch")
    assert (ended["exit_code"], ended["stderr_preview"]) == (
        127,
        "nosuch: No such file or directory",
    )
    await_groups(client, 0)


def test_a_kill_in_a_group_is_not_a_command_s(client):
    """A command that is killed while a process dies of its own limit counts as killed, and not as
    out of memory."""
    command = client.start("box_exec", {"session_id": "s", "cmd": "exec sleep 1000.5"})
    boxdlib.wait_until(lambda: client.exec("pgrep -f 1000.5")["exit_code"] == 0, 5, "it runs")
    shell(client, "exec " + EAT.format(128), process="eater", memory_mb=64)
    assert exited(client, "eater", seconds=60)["end"] == MEMORY
    client.exec("pkill -9 -f '^sleep 1000.5'")
    assert client.wait(command)["data"]["end"] == {"reason": "signal", "signal": 9}
    # A command that dies of the session's limit is still reported as such.
    eaten = client.exec("exec " + EAT.format(1000), timeout_sec=60)
    assert eaten["end"] == MEMORY


def test_what_a_limit_may_be(client):
    mark = nativelib.marker()
    for much in (512, 2048):
        # The session has 512 MiB: the limit is the session's, and needs no cgroup.
        pid = started(client, mark, "default", memory_mb=much)
        assert groups(client) == {} and not group_of(pid).startswith("p")
        stop(client)
    spec = {"command": "cat", "memory_mb": 1 << 40}
    answer = client.fail("box_start_managed_process", {"session_id": "s", "spec": spec})
    assert answer.startswith("BoxValidationError: memory_mb 1099511627776 is above this runtime's ")
    assert "limits.max_memory_mb" in answer and groups(client) == {}
    for little in (1, 3):
        spec = {"command": "cat", "memory_mb": little}
        answer = client.fail("box_start_managed_process", {"session_id": "s", "spec": spec})
        assert answer.startswith("BoxValidationError: ")
        assert "memory_mb must be 0 or at least 4" in answer
    for least in (4, 5):
        pid = started(client, mark, "default", memory_mb=least)
        assert list(groups(client).values()) == [least]
        stop(client)
    await_groups(client, 0)


def test_nobody_inside_holds_a_cgroup_fd(client):
    """Neither the process, nor box-init once it is started, nor what is started later."""
    show = "ls -l /proc/self/fd /proc/1/fd 2>/dev/null | grep -c cgroup; id -u"
    shell(client, f"exec >&2; {show}", process="looks", memory_mb=64)
    assert exited(client, "looks")["stderr_preview"].split() == ["0", "1000"]
    mark = nativelib.marker()
    init = proclib.init_of(started(client, mark, "stays", memory_mb=64))
    assert client.exec(show)["stdout"].split() == ["0", "1000"]
    assert not [place for place in opened(init) if "cgroup" in str(place)]
    stop(client, "stays")


def leaving(mark):
    """A process that ends once its child has a session of its own."""
    child = f"sh -c ': >/tmp/{mark}; exec sleep {mark}'"
    return f"setsid {child} & until [ -e /tmp/{mark} ]; do sleep 0.05; done; exit 0"


def test_a_group_that_is_not_empty_goes_later(client):
    mark = nativelib.marker()
    shell(client, leaving(mark), process="leaves", memory_mb=64)
    assert exited(client, "leaves")["exit_code"] == 0
    left = proclib.find_one(mark)
    time.sleep(0.3)
    assert groups(client) == {"p1": 64} and group_of(left) == "p1"
    stop(client, "leaves")
    os.kill(left, signal.SIGKILL)
    await_groups(client, 0, seconds=15)
    # A cgroup that never becomes empty is removed with its session.
    mark = nativelib.marker()
    shell(client, leaving(mark), process="leaves", memory_mb=64)
    proclib.find_one(mark)
    client.ask("box_delete_session", {"session_id": "s"})
    await_groups(client, 0)
    assert not proclib.find(mark)


def test_many_come_and_go(client):
    for turn in range(3):
        for number in range(12):
            started(client, nativelib.marker(), f"x{number}", memory_mb=16 + number)
        assert sorted(groups(client).values()) == list(range(16, 28)), turn
    for number in range(6):
        stop(client, f"x{number}")
    await_groups(client, 6)
    client.ask("box_delete_session", {"session_id": "s"})
    await_groups(client, 0)


def test_it_holds_when_the_worker_is_killed(place):
    with nativelib.dialled(place) as client:
        boxd = client.boxd
        client.ask("box_create_session", {"session_id": "s"})
        marks = [nativelib.marker() for _ in range(3)]
        other = started(client, marks[0], "other", memory_mb=64)
        gate = "while ! test -e /tmp/{0}; do sleep 0.05; done; exec " + EAT.format(128)
        shell(client, gate.format("now"), process="later", memory_mb=64)
        shell(client, gate.format("away"), process="away", memory_mb=64)
        shell(client, "exec " + EAT.format(128), process="before", memory_mb=64)
        before = exited(client, "before", seconds=60)
        assert before["end"] == MEMORY
        started(client, marks[1], "plain")
        await_groups(client, 3)
        # It exceeds its limit while box-rpc is down, or nearly so.
        client.exec("touch /tmp/away")
        boxd.kill_worker()
        with boxd.web() as again:
            assert info(again, "before") == before
            assert exited(again, "away", seconds=60)["end"] == MEMORY
            assert info(again, "other")["status"] == "running"
            assert group_of(other) == "p1" and groups(again)["p1"] == 64
            again.exec("touch /tmp/now")
            assert exited(again, "later", seconds=60)["end"] == MEMORY
            assert info(again, "plain")["status"] == "running"
            await_groups(again, 1)
            started(again, marks[2], "new", memory_mb=32)
            assert sorted(groups(again).values()) == [32, 64]
            for name in ("other", "new", "plain"):
                stop(again, name)
            await_groups(again, 0)
            assert again.exec("echo here")["stdout"] == "here"


@parallellib.scene
def test_a_stop_under_way_goes_on(place):
    if not nativelib.has_limits(place.mode):
        pytest.skip(nativelib.UNLIMITED)
    deaf = "trap '' TERM; echo deaf; while :; do sleep 0.05; done"
    with nativelib.dialled(place) as client:
        boxd = client.boxd
        for name in ("stopped", "replaced"):
            shell(client, deaf, process=name, memory_mb=64)
            with Relay(boxd, name) as relay:
                assert relay.recv() == "deaf"
        client.start("box_stop_managed_process", {"session_id": "s", "process_id": "stopped"})
        spec = {"process_id": "replaced", "command": "cat"}
        client.start("box_start_managed_process", {"session_id": "s", "spec": spec})
        boxdlib.wait_until(
            lambda: not client.ask("box_get_session", {"session_id": "s"}).get("managed_processes"),
            5,
            "both are leaving",
        )
        boxd.kill_worker()
        with boxd.web() as again:
            asked = {"session_id": "s"}
            assert "managed_processes" not in again.ask("box_get_session", asked)
            assert again.ask("box_status")["managed_processes"] == 2
            boxdlib.wait_until(
                lambda: again.ask("box_status")["managed_processes"] == 0, 9, "both have ended"
            )
            assert "managed_processes" not in again.ask("box_get_session", asked)
            await_groups(again, 0)


def test_boxes_without_limits():
    """The operator allows boxes without limits: then processes have none, either."""
    mode = "rootless"
    if nativelib.has_limits(mode):
        pytest.skip("an ordinary user has limits here")
    with nativelib.Place(mode) as place, nativelib.dialled(place) as client:
        shell(client, "exec " + EAT.format(128), memory_mb=64)
        with Relay(client.boxd) as relay:
            assert relay.recv(60) == str(128 << 20)
        stop(client)
