"""200 processes started, stopped and replaced at random by 8 clients: counts, limits and
diagnostics are right at every pause, and at the end nothing is left.
"""

import json
import random
import threading
import time

import pytest

import boxdlib
import nativelib
import proclib
from crowdlib import metric
from relaylib import start, stop

CLIENTS, NAMES, SESSIONS = 8, 200, 10
LIMIT = 60  # of processes that run: fewer than would, so that it is met
SECONDS_SHORT, SECONDS_LONG = 5, 120
PAUSE_SECONDS = 2  # how often all are looked at together
LIMIT_OF_ALL = 68  # of which one workspace gets seven eighths
FULL = (
    "BoxCapacityExceededError: Box managed process capacity of this workspace reached "
    f"(limits.max_processes_per_workspace {LIMIT}): stop one"
)


pytestmark = pytest.mark.usefixtures("nothing_left")


class Churner(threading.Thread):
    """One client with names of its own, so it knows the state of each of its processes."""

    def __init__(self, boxd, number, meeting, seconds):
        super().__init__(daemon=True)
        self.web = boxd.web()
        self.dice = random.Random(number)
        self.names = [f"n{one}" for one in range(number, NAMES, CLIENTS)]
        self.meeting, self.end = meeting, time.monotonic() + seconds
        self.known = {}  # name: what its info must say
        self.marks = {}
        self.counts = dict.fromkeys(("started", "replaced", "stopped", "full", "looked"), 0)
        self.failed = None

    # -- actions

    def ask(self, action, name, **data):
        session = f"s{int(name[1:]) % SESSIONS}"
        answer = self.web.call(f"box_{action}_managed_process", {"session_id": session, **data}, 30)
        return answer["code"] == 0, answer["data"] if answer["code"] == 0 else answer["message"]

    def spec(self, name):
        """A spec, and the expected state after its end."""
        kind = self.dice.choice(("sleep", "sleep", "sleep", "exit", "signal", "nosuch"))
        mark = nativelib.marker()
        spec = {"process_id": name, "command": "sleep", "args": [mark]}
        end = {"status": "running", "exit_code": None}
        if kind == "exit":
            code = self.dice.randrange(100)
            spec |= {"command": "sh", "args": ["-c", f"echo {mark} >&2; exit {code}"]}
            end = {"status": "exited", "exit_code": code, "stderr_preview": mark + "\n"}
        elif kind == "signal":
            spec |= {"command": "sh", "args": ["-c", "kill -9 $$"]}
            end = {"status": "exited", "exit_code": 137, "end": {"reason": "signal", "signal": 9}}
        elif kind == "nosuch":
            spec |= {"command": "nosuch", "args": []}
            text = "nosuch: No such file or directory"
            end = {"status": "exited", "exit_code": 127, "stderr_preview": text}
        return spec, {**end, "args": spec["args"], "command": spec["command"]}, mark

    def start_one(self, name):
        spec, end, mark = self.spec(name)
        there = self.known.get(name)
        good, answer = self.ask("start", name, spec=spec)
        if not good:
            # The limit refuses one more process, never a replacement.
            assert answer == FULL and not (there and there["status"] == "running"), answer
            self.counts["full"] += 1
            return
        assert answer["status"] == "running" and answer["args"] == spec["args"], answer
        self.counts["replaced" if there else "started"] += 1
        self.known[name], self.marks[name] = end, mark

    def stop_one(self, name):
        good, answer = self.ask("stop", name, process_id=name)
        assert good == (name in self.known), answer
        assert good or answer.startswith("BoxManagedProcessNotFoundError: "), answer
        self.known.pop(name, None)
        self.marks.pop(name, None)
        self.counts["stopped"] += good

    def look_at(self, name):
        self.counts["looked"] += 1
        wanted = self.known.get(name)
        end = time.monotonic() + 10
        while True:
            good, found = self.ask("get", name, process_id=name)
            assert good == (wanted is not None), found
            if not good or all(found.get(key) == value for key, value in wanted.items()):
                return
            assert time.monotonic() < end, f"{found}, not {wanted}"
            time.sleep(0.02)

    def turn(self):
        name = self.dice.choice(self.names)
        self.dice.choice((self.start_one, self.start_one, self.stop_one, self.look_at))(name)

    # -- main loop

    def settle(self):
        for name in self.names:
            self.look_at(name)

    def run(self):
        try:
            pause = time.monotonic() + PAUSE_SECONDS
            while time.monotonic() < self.end:
                if time.monotonic() > pause:
                    self.settle()
                    self.meeting.wait(60)  # all have settled: they are looked at
                    self.meeting.wait(60)
                    pause = time.monotonic() + PAUSE_SECONDS
                self.turn()
            self.settle()
        except BaseException as error:  # noqa: B036 - told by the test
            self.failed = error
            self.meeting.abort()
        finally:
            self.web.close()


def alive_of(churners):
    """The processes last started under each name that exist on the host."""
    marks = {mark for one in churners for mark in one.marks.values()}
    alive = {mark for _, folder in proclib.processes() for mark in proclib.arguments(folder)[1:2]}
    return marks & alive


def look_together(client, churners):
    """All clients pause: every count must agree with what they know."""
    known = {name: one for churner in churners for name, one in churner.known.items()}
    running = sum(one["status"] == "running" for one in known.values())
    ended = len(known) - running
    assert running <= LIMIT
    assert client.ask("box_status")["managed_processes"] == running
    resources = json.loads(client.boxd.http("/healthz")[2])["resources"]
    assert resources["managed_processes"] == running
    assert resources["completed_processes"] == ended
    assert metric(client.boxd, "box_managed_processes") == running
    assert metric(client.boxd, "box_completed_processes") == ended
    listed = {}
    for number in range(SESSIONS):
        found = client.ask("box_get_session", {"session_id": f"s{number}"})
        listed |= found.get("managed_processes", {})
    assert {name: one["status"] for name, one in listed.items()} == {
        name: one["status"] for name, one in known.items()
    }
    assert len(alive_of(churners)) == running
    check_limit(client, LIMIT - running)
    return running


def check_limit(client, room):
    """Exactly so many more can be started."""
    for number in range(room):
        start(client, "sleep", "1000", process=f"more{number}", session="s0")
    spec = {"process_id": "more", "command": "sleep", "args": ["1000"]}
    answer = client.fail("box_start_managed_process", {"session_id": "s0", "spec": spec})
    assert answer == FULL
    for number in range(room):
        stop(client, f"more{number}", "s0")


def check_churn(place, seconds):
    limits = {"max_managed_processes": LIMIT_OF_ALL, "max_completed_processes": 1000}
    with nativelib.dialled(place, config={"limits": limits}) as client:
        boxd = client.boxd
        for number in range(SESSIONS):
            client.ask("box_create_session", {"session_id": f"s{number}"})
        boxdlib.await_warm_boxes(boxd.pid)
        fds = boxdlib.fd_count(boxd.worker) if boxdlib.ROOT else 0
        meeting = threading.Barrier(CLIENTS + 1)
        churners = [Churner(boxd, number, meeting, seconds) for number in range(CLIENTS)]
        for one in churners:
            one.start()
        met = []
        try:
            while any(one.is_alive() for one in churners):
                meeting.wait(PAUSE_SECONDS + 60)
                met.append(look_together(client, churners))
                meeting.wait(60)
                if time.monotonic() + PAUSE_SECONDS > churners[0].end:
                    break
        except threading.BrokenBarrierError:
            pass
        finally:
            meeting.abort()
        for one in churners:
            one.join(60)
        failures = [one.failed for one in churners if one.failed]
        real = [one for one in failures if not isinstance(one, threading.BrokenBarrierError)]
        assert not real, real
        assert met
        counts = {key: sum(one.counts[key] for one in churners) for key in churners[0].counts}
        print(f"\n{counts}; looked at together {len(met)} times, {max(met)} running at most")
        assert counts["full"] > 0
        for number in range(SESSIONS):
            client.ask("box_delete_session", {"session_id": f"s{number}"})
        resources = json.loads(boxd.http("/healthz")[2])["resources"]
        assert (resources["managed_processes"], resources["completed_processes"]) == (0, 0)
        assert not alive_of(churners)
        if boxdlib.ROOT:
            # The sockets of the boxes and of ten clients are gone, and no others came.
            assert boxdlib.fd_count(boxd.worker) <= fds


@pytest.mark.timeout(120)
def test_processes_at_random(place):
    check_churn(place, SECONDS_SHORT)


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_processes_at_random_for_two_minutes(place):
    check_churn(place, SECONDS_LONG)
