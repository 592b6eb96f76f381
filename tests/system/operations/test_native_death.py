"""boxd, box-rpc or boxes die under load: what clients are told, what survives, and that nothing is
left behind.
"""

import os
import pathlib
import random
import re
import signal
import tempfile
import time

import pytest

from boxdlib import (
    STALL_SECONDS,
    await_warm_boxes,
    build,
    fast_build,
    fd_names,
    is_alive,
    settled_fd_count,
    wait_until,
)
from clientlib import Closed, Stdio, success
from leftoverlib import (
    GONE_SECONDS,
    KEPT,
    HostState,
    Load,
    Traces,
    check_furnished,
    copy_programs,
    descendants,
    furnish,
    inits,
    named_inits,
    native_boxd,
    needs_root,
    network_possible,
    pause,
    sleepers,
    starter,
    wait_worked,
)

pytestmark = needs_root

SHORT, LONG = 8, 200
TOLD_SECONDS = 1.0 + STALL_SECONDS
STOP_SECONDS = 10.0
PLAIN_ID = 12345


@pytest.fixture
def plain_start():
    """Starts boxd as an ordinary user. Its programs are where that user can read them."""
    with tempfile.TemporaryDirectory(prefix="plain-") as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        copy_programs(folder, "boxd", "box-rpc", "box-init")
        config = folder / "config.yaml"
        config.write_text("backend: native\nlocal:\n  degraded: true\n")
        ids = {"user": PLAIN_ID, "group": PLAIN_ID, "extra_groups": []}
        yield starter("/", folder, f"--config={config}", **ids)


# boxd.



def check_boxd_killed(start, kills):
    host = HostState()
    former = None
    network = None
    for number in range(kills):
        with start() as boxd:
            if former:
                former.check_swept()
            traces = Traces(boxd, host)
            if network is None:
                network = network_possible(boxd)
            # Requests between its end and that of box-rpc get an error.
            with Load(boxd, network=network, allowed="boxd cannot be reached") as load:
                if number % 2 == 0:
                    wait_worked(load, 4)
                pause(0, 0.3)
                traces.note()
                boxd.signal(signal.SIGKILL)
                boxd.process.wait(5)
                traces.check_gone(groups=False)
            assert load.wrong == [], f"kill {number + 1}"
            former = traces
    with start() as boxd:
        former.check_swept()
        last = Traces(boxd, host)
    last.check_gone()


@pytest.mark.timeout(120)
def test_boxd_killed(tmp_path):
    """Its boxes end with it; empty cgroups that are left are removed by its successor."""
    check_boxd_killed(starter(tmp_path, build()), SHORT)


@pytest.mark.soak
@pytest.mark.timeout(2400)
def test_boxd_killed_200_times(tmp_path):
    check_boxd_killed(starter(tmp_path, fast_build()), LONG)


# box-rpc.


def check_worker_killed(start, kills):
    host = HostState()
    with start() as boxd:
        traces = Traces(boxd, host)
        with boxd.web() as client:
            kept = furnish(client, KEPT)
        first = named_inits(boxd)
        assert sorted(first) == sorted(KEPT)
        network = network_possible(boxd)
        traces.check_boxes(len(KEPT))
        fds = settled_fd_count(boxd.pid)
        with Load(boxd, network=network) as load:
            for number in range(kills):
                wait_worked(load, 2)
                pause(0, 0.2)
                boxd.kill_worker()
                boxd.wait_served(number + 2)
                with boxd.web() as client:
                    check_furnished(client, kept)
                assert named_inits(boxd) == first, f"kill {number + 1}"
        assert load.wrong == []
        with boxd.web() as client:
            listed = [one["session_id"] for one in client.ask("box_get_sessions")["sessions"]]
            traces.check_boxes(len(listed))
            for name in set(listed) - set(KEPT):
                client.call("box_delete_session", {"session_id": name})
            traces.check_boxes(len(KEPT))
            assert settled_fd_count(boxd.pid) == fds, fd_names(boxd.pid)
    traces.check_gone()


@pytest.mark.timeout(120)
def test_worker_killed(tmp_path):
    """Sessions survive with their files, their processes and their first process."""
    check_worker_killed(starter(tmp_path, build()), SHORT)


@pytest.mark.soak
@pytest.mark.timeout(2400)
def test_worker_killed_200_times(tmp_path):
    check_worker_killed(starter(tmp_path, fast_build()), LONG)


# The first process of a box.


def victim_of(boxd, client):
    """A session with a name, and its first process."""
    client.exec("echo victim >/tmp/name; echo x >/workspace/file", "victim")
    return named_inits(boxd)["victim"]


def check_told(client, number, pid):
    """The running command ends with an error that names the session and the reason."""
    running = number % 2 == 1
    cmd = "sleep 30" if running else "sleep 0.1; echo done"
    seq = client.start("box_exec", {"cmd": cmd, "session_id": "victim"})
    if running:
        wait_until(lambda: "30" in sleepers(pid), what="it sleeps")
    killed = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    answer = client.wait(seq, 10)
    assert time.monotonic() - killed < TOLD_SECONDS
    if not running and answer["code"] == 0:
        # It came after the end of that box, and was the first in the next one.
        assert answer["data"]["stdout"] == "done"
        return
    assert answer["code"] == 1, answer
    assert answer["message"].startswith("BoxError: "), answer
    assert "victim" in answer["message"], answer
    assert "its first process has ended" in answer["message"], answer


def check_init_killed(start, kills):
    host = HostState()
    with start() as boxd:
        traces = Traces(boxd, host)
        with boxd.web() as client:
            kept = furnish(client, KEPT)
            first = named_inits(boxd)
            with Load(boxd, threads=3, network=network_possible(boxd)) as load:
                for number in range(kills):
                    pid = victim_of(boxd, client)
                    wait_worked(load)
                    check_told(client, number, pid)
                    again = client.exec("ls /tmp /workspace", "victim")["stdout"]
                    assert again == "/tmp:\n\n/workspace:", "the next box is a new one"
                    now = named_inits(boxd)
                    assert {name: now.get(name) for name in KEPT} == first
            assert load.wrong == [], "others must notice nothing"
            check_furnished(client, kept)
        assert len(boxd.workers()) == 1
    traces.check_gone()


@pytest.mark.timeout(120)
def test_init_killed(tmp_path):
    check_init_killed(starter(tmp_path, build()), SHORT)


@pytest.mark.soak
@pytest.mark.timeout(2400)
def test_init_killed_200_times(tmp_path):
    check_init_killed(starter(tmp_path, fast_build()), LONG)


@pytest.mark.parametrize("check", [check_boxd_killed, check_worker_killed, check_init_killed])
def test_killed_as_a_plain_user(plain_start, check):
    """Without cgroups only the kernel and the sockets end what is left."""
    check(plain_start, 2)


@pytest.mark.soak
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("check", [check_boxd_killed, check_worker_killed, check_init_killed])
def test_killed_as_a_plain_user_50_times(plain_start, check):
    check(plain_start, 50)


def test_idle_init_killed(tmp_path):
    """No request is pending: the session simply does not exist any more, and is recreated."""
    host = HostState()
    with native_boxd(tmp_path) as boxd, boxd.web() as client:
        traces = Traces(boxd, host)
        os.kill(victim_of(boxd, client), signal.SIGKILL)
        traces.check_boxes(0)
        wait_until(
            lambda: client.ask("box_get_sessions")["sessions"] == [], TOLD_SECONDS, "it is listed"
        )
        assert client.exec("cat /tmp/name", "victim")["exit_code"] == 1
        traces.check_boxes(1)


def test_mounter_killed(tmp_path):
    """The second process of a box: nobody waits for it, and other commands continue."""
    host = HostState()
    source = tmp_path / "source"
    source.mkdir()
    (source / "file").write_text("text")
    mount = {"host_path": str(source), "mount_path": "/data", "mode": "ro"}
    spec = {"cmd": "cat /data/file", "session_id": "victim", "extra_mounts": [mount]}
    with native_boxd(tmp_path) as boxd, boxd.web() as client:
        traces = Traces(boxd, host)
        pid = victim_of(boxd, client)
        assert client.ask("box_exec", spec)["stdout"] == "text"
        (mounter,) = descendants(pid)
        os.kill(mounter, signal.SIGKILL)
        client.call("box_exec", spec, TOLD_SECONDS)
        assert client.exec("echo ok", "victim")["stdout"] == "ok"
        client.ask("box_delete_session", {"session_id": "victim"})
        assert client.ask("box_exec", spec)["stdout"] == "text"
        traces.check_boxes(1)


# stdio: the only client; everything ends with the connection.


@pytest.fixture
def piped(tmp_path):
    """A boxd on stdio with two sessions, one running a command; its client and its traces."""
    host = HostState()
    with native_boxd(tmp_path, stdio=True) as boxd, Stdio(boxd) as client:
        traces = Traces(boxd, host)
        furnish(client, KEPT[:2])
        client.start("box_exec", {"cmd": "sleep 30", "session_id": KEPT[0]})
        pids = inits(boxd)
        assert len(pids) == 2
        yield boxd, client, traces
        assert not any(map(is_alive, pids))
    traces.check_gone()


def test_stdio_worker_killed(piped):
    boxd, client, traces = piped
    boxd.kill_worker()
    assert boxd.process.wait(GONE_SECONDS) == 1
    assert isinstance(client.closed(), Closed)
    traces.check_gone()


def test_stdio_boxd_killed(piped, tmp_path):
    boxd, _, traces = piped
    boxd.signal(signal.SIGKILL)
    boxd.process.wait(5)
    traces.check_gone(groups=False)
    with native_boxd(tmp_path):
        traces.check_swept()


def test_stdio_closed(piped):
    boxd, _, traces = piped
    boxd.process.stdin.close()
    assert boxd.process.wait(GONE_SECONDS) == 0
    traces.check_gone()


def test_stdio_stopped_now(piped):
    """A second signal does not wait for running commands."""
    boxd, _, traces = piped
    boxd.signal(signal.SIGTERM)
    boxd.wait_event("stopping")
    boxd.signal(signal.SIGINT)
    assert boxd.process.wait(GONE_SECONDS) == 0
    traces.check_gone()


# Stopping.


def test_stopped_under_load(tmp_path):
    """Boxes with commands, boxes without, boxes being made at this moment: all are gone."""
    host = HostState()
    with native_boxd(tmp_path) as boxd:
        traces = Traces(boxd, host)
        with Load(boxd, network=network_possible(boxd)) as load, boxd.web() as client:
            furnish(client, KEPT)
            client.start("box_exec", {"cmd": "trap '' TERM; sleep 30", "session_id": "deaf"})
            wait_worked(load, 4)
            load.allowed = re.compile("shutting down|stopping")
            started = time.monotonic()
            boxd.signal(signal.SIGTERM)
            assert boxd.process.wait(STOP_SECONDS) == 0
            print(f"stopped after {time.monotonic() - started:.2f} s")
            traces.check_gone()
        assert load.wrong == []


# Boxes whose clients are gone.


def check_half_made(tmp_path, count, programs):
    """Clients that disconnect while their box is made."""
    host = HostState()
    dice = random.Random(1)
    with native_boxd(tmp_path, programs=programs, config={"limits": {"max_sessions": 2000}}) as boxd:
        traces = Traces(boxd, host)
        network = network_possible(boxd)
        for number in range(count):
            spec = {"session_id": f"half-{number}", "network": "on" if network else "off"}
            client = boxd.web()
            if number % 3:
                client.start("box_create_session", spec)
            else:
                client.start("box_exec", {**spec, "cmd": "true"})
            time.sleep(dice.uniform(0, 0.02))
            if number % 2:
                # Silently, like a process that was killed.
                client.socket.socket.shutdown(2)
            client.close()
        with boxd.web() as client:
            # A box that was finished in time is an ordinary session.
            def listed():
                return client.ask("box_get_sessions")["sessions"]

            wait_until(
                lambda: len(inits(boxd)) == len(listed()),
                5,
                lambda: f"as many boxes as sessions: {len(inits(boxd))} and {len(listed())}",
            )
            left = listed()
            assert {one["status"] for one in left} <= {"idle"}, left
            traces.check_boxes(len(left))
            for one in left:
                client.ask("box_delete_session", {"session_id": one["session_id"]})
            traces.check_boxes(0)
            client.exec("true", "last")
            begun = max(int(os.path.basename(path)[1:]) for path in traces.boxes())
    traces.check_gone()
    print(f"{count} were asked for, {begun} begun, {len(left)} finished")
    assert begun > count // 2 and begun > len(left)


@pytest.mark.timeout(120)
def test_half_made(tmp_path):
    check_half_made(tmp_path, 100, build())


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_half_made_1000_times(tmp_path):
    check_half_made(tmp_path, 1000, fast_build())


def test_many_at_once(tmp_path):
    """More requests than the socket to boxd holds: none is refused, and no end of a box is lost."""
    host = HostState()
    names = [f"many-{number}" for number in range(100)]
    with native_boxd(tmp_path, config={"limits": {"max_sessions": 500}}) as boxd:
        traces = Traces(boxd, host)
        with boxd.web() as client:
            for action in ("box_create_session", "box_delete_session"):
                asked = [client.start(action, {"session_id": name}) for name in names]
                for seq in asked:
                    success(client.wait(seq, 30))
                traces.check_boxes(len(names) if action == "box_create_session" else 0)
    traces.check_gone()


def test_worker_killed_while_boxes_are_made(tmp_path):
    """A half-made box then belongs to nobody and is removed."""
    host = HostState()
    with native_boxd(tmp_path) as boxd:
        traces = Traces(boxd, host)
        for number in range(8):
            client = boxd.web()
            for one in range(6):
                client.start("box_create_session", {"session_id": f"half-{number}-{one}"})
            pause(0, 0.04)
            boxd.kill_worker()
            boxd.wait_served(number + 2)
            client.close()
            with boxd.web() as again:
                traces.check_boxes(len(again.ask("box_get_sessions")["sessions"]))
    traces.check_gone()


# Two runtimes.


def ranges_of(boxd):
    """The first host id of every box."""
    found = set()
    for pid in inits(boxd):
        with open(f"/proc/{pid}/uid_map", encoding="ascii") as file:
            inside, outside, count = map(int, file.read().split())
        assert (inside, count) == (0, 65536)
        found.add(outside)
    return found


def test_two_runtimes(tmp_path):
    """One is killed and restarted, removes its own leftovers, and never touches a box of the other."""
    host = HostState()
    with native_boxd(tmp_path) as one, one.web() as client:
        traces = Traces(one, host)
        kept = furnish(client, KEPT)
        first = named_inits(one)
        mine = ranges_of(one)
        assert len(mine) == len(KEPT)
        await_warm_boxes(one.pid)
        beside = HostState()
        former = None
        for number in range(5):
            with native_boxd(tmp_path) as other:
                if former:
                    former.check_swept()
                with other.web() as stranger:
                    theirs = furnish(stranger, KEPT)
                    check_furnished(stranger, theirs)
                    assert stranger.ask("box_get_sessions")["sessions"][0]["session_id"] in KEPT
                assert not ranges_of(other) & mine
                assert not Traces(other, beside).parents & traces.parents
                former = Traces(other, beside)
                other.signal(signal.SIGKILL)
                other.process.wait(5)
                former.check_gone(groups=False)
            assert named_inits(one) == first, f"turn {number + 1}"
            check_furnished(client, kept)
            traces.check_boxes(len(KEPT))
        with native_boxd(tmp_path):
            former.check_swept()
        check_furnished(client, kept)
    traces.check_gone()


def test_answers_after_restart(tmp_path):
    """A command that was running when box-rpc died is ended, and its session is free again."""
    with native_boxd(tmp_path) as boxd:
        with boxd.web() as client:
            furnish(client, KEPT[:1])
            client.start("box_exec", {"cmd": "sleep 654", "session_id": KEPT[0]})
            pid = named_inits(boxd)[KEPT[0]]
            wait_until(lambda: sleepers(pid) == {"987", "654"}, what="both sleep")
            boxd.kill_worker()
            boxd.wait_served(2)
        with boxd.web() as client:
            answer = client.call("box_exec", {"cmd": "echo ok", "session_id": KEPT[0]})
            assert success(answer)["stdout"] == "ok"
            wait_until(lambda: sleepers(pid) == {"987"}, GONE_SECONDS, "only the kept one sleeps")
            (listed,) = client.ask("box_get_sessions")["sessions"]
            assert (listed["session_id"], listed["status"]) == (KEPT[0], "idle")
