"""boxd from outside: how it restarts, stops and reloads its worker.

tests/drivers/fake_rpc.c is in place of box-rpc. What only root can see is skipped for others.
"""

import errno
import os
import resource
import signal
import socket
import threading
import time

import pytest

import parallellib
import fakerpclib
from boxdlib import ROOT, STALL_SECONDS, fd_count, is_alive, wait_until
from fakerpclib import FLAG_ROOTS, FLAG_STATE, Peer


def keep_state(peer, text):
    assert peer.ask(f"state {text}") == "ok"
    # Packets are handled in order: after this answer the STATE has been taken.
    assert peer.ask("folder /usr") == "0"


def dial_until(stop, port, failures, greeted):
    while not stop.is_set():
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
                try:
                    greeted.append(client.recv(1) == b"p")
                except ConnectionResetError:
                    pass  # accepted by the worker that was killed
        except OSError as error:
            failures.append(error)


@pytest.fixture
def dial_all_the_time():
    """Connects to a port without pause until the test ends or asks for the results."""
    stop, failures, greeted, threads = threading.Event(), [], [], []

    def start(port):
        threads.append(
            threading.Thread(target=dial_until, args=(stop, port, failures, greeted), daemon=True)
        )
        threads[0].start()

    def finish():
        stop.set()
        for thread in threads:
            thread.join(15)
        return failures, greeted

    start.finish = finish
    yield start
    finish()


def check_kills(start_boxd, dial_all_the_time, kills):
    """No connection is refused, nothing leaks, and the port stays the same."""
    boxd = start_boxd()
    port = boxd.port
    dial_all_the_time(port)
    fds = None
    for count in range(1, kills + 1):
        with Peer(port) as peer:
            keep_state(peer, str(count))
            if count == 2 and ROOT:
                fds = fd_count(boxd.pid)
            os.kill(peer.pid, signal.SIGKILL)
        boxd.wait_event("worker.started", count + 1)
    with Peer(port) as peer:
        assert peer.ask("getstate") == str(kills)
        assert peer.ask_all("start")["restarts"] == str(kills)
        if ROOT:
            assert fd_count(boxd.pid) == fds
    failures, greeted = dial_all_the_time.finish()
    assert failures == []
    assert greeted.count(True) > 100
    assert {event["how"] for event in boxd.events("worker.died")} == {"signal 9"}
    restarts = [event["restarts"] for event in boxd.events("worker.started")]
    assert restarts == list(range(kills + 1))


def test_fifteen_kills(start_boxd, dial_all_the_time):
    """By then the pause between restarts has long stopped growing."""
    check_kills(start_boxd, dial_all_the_time, 15)


@pytest.mark.soak
@pytest.mark.timeout(120)
def test_fifty_kills(start_boxd, dial_all_the_time):
    check_kills(start_boxd, dial_all_the_time, 50)


def event_ms(event):
    clock = event["time"].split("T")[1].rstrip("Z").split(":")
    return (int(clock[0]) * 3600 + int(clock[1]) * 60 + float(clock[2])) * 1000


def kill_by_command(boxd, count, command):
    with boxd.connect() as peer:
        peer.send(command)
        boxd.wait_event("worker.started", count + 1)


@pytest.fixture(scope="module")
def scenes(request):
    with parallellib.begun(request) as made:
        yield made


@pytest.mark.usefixtures("scenes")  # mostly waits, so it runs in parallel
def test_pause_grows_and_a_good_run_resets_it(start_boxd):
    boxd = start_boxd()
    for count in range(1, 9):
        kill_by_command(boxd, count, "abort" if count == 2 else "exit 3")
    time.sleep(5.2)
    kill_by_command(boxd, 9, "exit 0")
    kill_by_command(boxd, 10, "exit 3")
    died, started = boxd.events("worker.died"), boxd.events("worker.started")
    assert [event["how"] for event in died] == (
        ["exit 3", "signal 6"] + ["exit 3"] * 6 + ["exit 0", "exit 3"]
    )
    assert {event["pid"] for event in died} == {event["pid"] for event in started[:-1]}
    pauses = [event_ms(after) - event_ms(end) for end, after in zip(died, started[1:])]
    expected = [0, 50, 100, 200, 400, 500, 500, 500, 0, 50]
    for pause, least in zip(pauses, expected):
        assert least - 2 <= pause < least + 150 + 1000 * STALL_SECONDS, pauses
    assert sorted(pauses)[len(pauses) // 2] < 650, pauses  # whatever single ones had to wait for


def test_never_ready(start_boxd, tmp_path):
    (tmp_path / "c").write_text("exit 3\n")
    boxd = start_boxd("--config", str(tmp_path / "c"))
    assert boxd.wait() == 1
    assert len(boxd.events("worker.started")) == 3
    assert "never ready" in boxd.wait_event("worker.given_up")["why"]


def test_wrong_configuration_ends_boxd(start_boxd, tmp_path):
    (tmp_path / "c").write_text("exit 78\n")
    boxd = start_boxd("--config", str(tmp_path / "c"))
    assert boxd.wait() == 78
    assert len(boxd.events("worker.started")) == 1


@pytest.mark.parametrize("text, code", [("good", 0), ("exit 78", 78), ("exit 5", 5)])
@pytest.mark.parametrize("flags", [[], ["-s"]])
def test_check_config(start_boxd, tmp_path, text, code, flags):
    (tmp_path / "c").write_text(text + "\n")
    boxd = start_boxd("--check-config", "--config", str(tmp_path / "c"), *flags)
    assert boxd.wait() == code
    # The verdict is box-rpc's; boxd logs only an abnormal end.
    for name in ("listening", "worker.started", "stopped"):
        assert boxd.events(name) == []
    assert len(boxd.events("worker.died")) == (code == 5)


def test_config_that_goes_away_is_remembered(start_boxd, tmp_path):
    (tmp_path / "c").write_text("one\n")
    boxd = start_boxd("--config", str(tmp_path / "c"))
    with boxd.connect() as peer:
        (tmp_path / "c").unlink()
        boxd.signal(signal.SIGHUP)
        why = boxd.wait_event("reload.failed")["why"]
        assert why == f"--config: {tmp_path}/c: No such file or directory"
        os.kill(peer.pid, signal.SIGKILL)
    boxd.wait_event("worker.started", 2)
    with boxd.connect() as peer:
        assert peer.ask_all("start")["file"] == "one"


def test_state_is_handed_over(start_boxd):
    boxd = start_boxd()
    with boxd.connect() as peer:
        assert peer.ask("getstate") == "-"
        assert peer.ask("state first") == "ok"
        assert peer.ask("state second") == "ok"
        os.kill(peer.pid, signal.SIGKILL)
    boxd.wait_event("worker.started", 2)
    with boxd.connect() as peer:
        assert int(peer.ask_all("start")["flags"]) == FLAG_ROOTS | FLAG_STATE
        assert peer.ask("getstate") == "second"
        peer.send("abort")
        boxd.wait_event("worker.started", 3)
    with boxd.connect() as peer:
        assert peer.ask("getstate") == "second"
        # Sent by a worker that is dead before boxd reads it.
        boxd.signal(signal.SIGSTOP)
        peer.send("laststate third")
        wait_until(lambda: not is_alive(peer.pid), what="the end of the worker")
        boxd.signal(signal.SIGCONT)
        boxd.wait_event("worker.started", 4)
    with boxd.connect() as peer:
        assert peer.ask("getstate") == "third"


def test_of_a_dead_worker_only_its_bequest_counts(start_boxd, tmp_path):
    boxd = start_boxd()
    with boxd.connect() as peer:
        boxd.signal(signal.SIGSTOP)
        peer.send(f"lastfolder {tmp_path}/made")
        wait_until(lambda: not is_alive(peer.pid), what="the end of the worker")
        boxd.signal(signal.SIGCONT)
    boxd.wait_event("worker.started", 2)
    with boxd.connect() as peer:
        assert peer.ask("getstate") == "after"
    assert not (tmp_path / "made").exists()
    assert boxd.events("worker.refused") == []


@pytest.mark.skipif(not ROOT, reason="needs a look at boxd's fds")
def test_a_state_is_taken_when_there_are_no_more_fds(start_boxd):
    boxd = start_boxd()
    with boxd.connect() as peer:
        keep_state(peer, "early")
        limits = resource.prlimit(boxd.pid, resource.RLIMIT_NOFILE)
        open_fds = set(map(int, os.listdir(f"/proc/{boxd.pid}/fd")))
        lowest = min(set(range(len(open_fds) + 1)) - open_fds)
        resource.prlimit(boxd.pid, resource.RLIMIT_NOFILE, (lowest, limits[1]))
        assert peer.ask("state first") == "ok"
        assert peer.ask("state second") == "ok"
        # This one needs one more fd; its answer also shows that the states were taken.
        assert peer.ask("folder /usr") == str(-errno.EMFILE)
        resource.prlimit(boxd.pid, resource.RLIMIT_NOFILE, limits)
        os.kill(peer.pid, signal.SIGKILL)
    boxd.wait_event("worker.started", 2)
    with boxd.connect() as peer:
        assert peer.ask("getstate") == "second"
    assert boxd.events("worker.refused") == []


GARBAGE = {
    "kind": "a packet of an unknown kind",
    "downward": "a packet of an unknown kind",
    "short": "a malformed packet",
    "long": "a packet of a wrong size",
    "huge": "a malformed packet",
    "ready": "a second READY",
    "nofd": "a packet with a wrong number of fds",
    "twofds": "a packet with a wrong number of fds",
    "manyfds": "a packet with a wrong number of fds",
    "hundredfds": "a malformed packet",
    "bigstate": "a STATE that is too big",
    "pipestate": "a STATE that is not a file",
    "path": "an unterminated path",
    "tenant": "an unterminated tenant",
    "nobodysgroup": "an OPEN_PROCESS_CGROUP without a process or a limit",
    "emptygroup": "an OPEN_PROCESS_CGROUP without a process or a limit",
    "groupfd": "a packet with a wrong number of fds",
}


@pytest.mark.parametrize("what", GARBAGE)
def test_wrong_packet_ends_the_worker(start_boxd, what):
    boxd = start_boxd()
    with boxd.connect() as peer:
        keep_state(peer, "kept")
        fds = fd_count(boxd.pid) if ROOT else 0
        peer.send(f"garbage {what}")
        assert boxd.wait_event("worker.refused")["why"] == GARBAGE[what]
        assert boxd.wait_event("worker.died")["how"] == "signal 9"
    with boxd.connect() as peer:
        assert peer.ask("getstate") == "kept"
        assert not ROOT or fd_count(boxd.pid) == fds


@pytest.mark.parametrize("command", ["garbage empty", "hangup"])
def test_worker_that_closes_its_socket_is_ended(start_boxd, command):
    boxd = start_boxd()
    with boxd.connect() as peer:
        assert peer.ask("stubborn") == "ok"
        peer.send(command)
        boxd.wait_event("worker.late")
        assert boxd.wait_event("worker.died")["how"] == "signal 9"
    boxd.wait_event("worker.started", 2)


def test_flood_without_reading_ends_the_worker(start_boxd):
    boxd = start_boxd()
    with boxd.connect() as peer:
        peer.send("flood")
        why = boxd.wait_event("worker.refused", seconds=20)["why"]
        assert why == "it does not read its answers"
    boxd.wait_event("worker.started", 2)


def test_measures_that_nobody_reads_end_the_worker(start_boxd):
    boxd = start_boxd()
    with boxd.connect() as peer:
        peer.send("floodmeasures")
        why = boxd.wait_event("worker.refused", seconds=20)["why"]
        assert why == "it does not read its answers"
    boxd.wait_event("worker.started", 2)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stop(start_boxd, number):
    boxd = start_boxd()
    with boxd.connect() as peer:
        boxd.signal(number)
        assert boxd.wait() == 0
        assert not is_alive(peer.pid)
    assert boxd.events("worker.died")[0]["how"] == "exit 0"


@parallellib.scene
def test_stop_of_a_stubborn_worker_takes_nine_seconds(tmp_path):
    programs = fakerpclib.make_folder(tmp_path / "bin")
    with fakerpclib.FakeRpcBoxd(programs=programs) as boxd, boxd.connect() as peer:
        assert peer.ask("stubborn") == "ok"
        begin = time.monotonic()
        boxd.signal(signal.SIGTERM)
        assert boxd.wait(20) == 0
        assert 8.9 < time.monotonic() - begin < 9 + STALL_SECONDS
        assert not is_alive(peer.pid)
        assert boxd.events("worker.died")[0]["how"] == "signal 9"


def test_second_signal_kills_at_once(start_boxd):
    boxd = start_boxd()
    with boxd.connect() as peer:
        assert peer.ask("stubborn") == "ok"
        boxd.signal(signal.SIGTERM)
        boxd.wait_event("stopping")
        begin = time.monotonic()
        boxd.signal(signal.SIGINT)
        assert boxd.wait() == 0
        assert time.monotonic() - begin < 2 + STALL_SECONDS  # not nine
        assert not is_alive(peer.pid)


def test_stop_in_a_restart_pause(start_boxd):
    """The pause is at most half a second; on a host that was stalled the signal comes after it."""
    for _ in range(5):
        boxd = start_boxd()
        for count in range(1, 7):
            kill_by_command(boxd, count, "exit 3")
        with boxd.connect() as peer:
            peer.send("exit 3")
            boxd.wait_event("worker.died", 7)
            begin = time.monotonic()
            boxd.signal(signal.SIGTERM)
            assert boxd.wait() == 0
            assert time.monotonic() - begin < STALL_SECONDS
        if len(boxd.events("worker.started")) == 7:
            return
    raise AssertionError(f"another was started each time: {boxd.tail()}")


def test_reload(start_boxd, tmp_path):
    (tmp_path / "c").write_text("one\n")
    boxd = start_boxd("--config", str(tmp_path / "c"))
    with boxd.connect() as peer:
        replacement = tmp_path / "d"
        replacement.write_text("two\n")
        replacement.rename(tmp_path / "c")
        boxd.signal(signal.SIGHUP)
        wait_until(lambda: peer.ask_all("start")["reloads"] == "1")
        start = peer.ask_all("start")
        assert (start["file"], start["reload"]) == ("one", "two")
        (tmp_path / "c").unlink()
        boxd.signal(signal.SIGHUP)
        why = boxd.wait_event("reload.failed")["why"]
        assert why == f"--config: {tmp_path}/c: No such file or directory"
        assert peer.ask_all("start")["reloads"] == "1"


def reload_in_a_pause(boxd):
    """After one box-rpc has died and before the next has started."""
    for count in range(1, 7):
        kill_by_command(boxd, count, "exit 3")
    with boxd.connect() as peer:
        peer.send("exit 3")
        boxd.wait_event("worker.died", 7)
        boxd.signal(signal.SIGHUP)
    boxd.wait_event("worker.started", 8)


def reload_before_ready(boxd):
    """The box-rpc that should get it dies before it is ready."""
    with boxd.connect() as peer:
        keep_state(peer, "unready")
        os.kill(peer.pid, signal.SIGKILL)
        boxd.wait_event("worker.started", 2)
        boxd.signal(signal.SIGHUP)
    boxd.wait_event("worker.started", 3)
    assert boxd.events("reload.sent") == []


@pytest.mark.parametrize("moment", [reload_in_a_pause, reload_before_ready])
def test_no_reload_is_lost(start_boxd, tmp_path, moment):
    (tmp_path / "c").write_text("one\n")
    boxd = start_boxd("--config", str(tmp_path / "c"))
    boxd.wait_event("worker.started")
    (tmp_path / "c").write_text("two\n")
    moment(boxd)
    with boxd.connect() as peer:
        wait_until(lambda: peer.ask_all("start")["reloads"] == "1")
        start = peer.ask_all("start")
        assert (start["file"], start["reload"]) == ("one", "two")


def test_nothing_to_reload(start_boxd):
    boxd = start_boxd()
    with boxd.connect() as peer:
        boxd.signal(signal.SIGHUP)
        assert "no --config" in boxd.wait_event("reload.nothing")["why"]
        assert peer.ask_all("start")["reloads"] == "0"
