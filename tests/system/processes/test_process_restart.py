"""kill -9 of box-rpc with 20 managed processes and 5 relays: every process keeps its pid, its
unread output and its exit state, and every relay resumes where it was.
"""

import contextlib

import pytest

import boxdlib
import nativelib
import proclib
from clientlib import Closed
from relaylib import Bare, Relay, Resuming, exited, info, shell, start

QUIET, RESUMED, BY_LINE = 14, 3, 2
ROUNDS_SHORT, ROUNDS_LONG = 2, 30
COUNTER = "echo pid $$; i=0; while :; do i=$((i+1)); echo $i; done"
ENDED_ONES = {
    "over": "echo last words >&2; echo said; exit 9",
    "signal": "seq 1 9999 >&2; kill -11 $$",
}


pytestmark = pytest.mark.usefixtures("nothing_left")


class Quiet:
    """A process that has printed its pid, and output that nobody reads until the end."""

    def __init__(self, client, number):
        self.name, self.session = f"quiet{number}", f"s{number % 3}"
        self.where = {"process": self.name, "session": self.session}
        self.count = 1 + 700 * number
        self.mark = nativelib.marker()
        script = f"echo $$; seq 1 {self.count}; echo err{number} >&2; exec sleep {self.mark}"
        shell(client, script, env={"B": "", "A": "x"}, **self.where)
        self.pid = proclib.find_one(self.mark)
        self.inside = boxdlib.status_of(self.pid)["NSpid"].split()[-1]
        # It has printed everything when it becomes a sleep; the runtime knows soon after.
        boxdlib.wait_until(lambda: self.info(client)["stderr_preview"], 5, "its stderr is known")
        self.before = self.info(client)
        assert self.before["stderr_preview"] == f"err{number}\n"

    def info(self, client):
        return info(client, **self.where)

    def check(self, client):
        assert proclib.find(self.mark) == [self.pid]
        assert self.info(client) == self.before

    def check_output(self, boxd):
        with Relay(boxd, self.name, self.session) as relay:
            assert relay.take(self.count + 1) == [
                self.inside,
                *(str(line) for line in range(1, self.count + 1)),
            ]


class Lines:
    """A counter read by lines: none may be missing, some may come again."""

    def __init__(self, name):
        self.name = name
        self.last = 0
        self.pid = None
        self.repeated = 0

    def dial(self, boxd):
        self.bare = Bare(boxd.port, self.name, "s0")
        self.next = None

    def take(self, count):
        """Reads so many, and on until the runtime has confirmed some of them."""
        while count > 0 or self.bare.pings < 2:
            count -= 1
            line = self.bare.recv().decode()
            if line.startswith("pid "):
                assert self.next is None and self.pid in (None, line)
                self.pid, self.next = line, 1
                continue
            got = int(line)
            # Contiguous on one connection; the next one may repeat unconfirmed lines.
            good = got <= self.last + 1 if self.next is None else got == self.next
            assert good, (got, self.last)
            self.next = got + 1
            self.repeated += got <= self.last
            self.last = max(self.last, got)


def take_rest(bare, counter):
    """What was in flight when the worker died."""
    with contextlib.suppress(Closed):
        while True:
            counter.take(bare)


def check_ended(client, before):
    for name, known in before.items():
        assert info(client, name, "s1") == known


def check_killed(place, rounds):
    with nativelib.dialled(place) as client:
        boxd = client.boxd
        quiet = [Quiet(client, number) for number in range(QUIET)]
        resumed = [Resuming() for _ in range(RESUMED)]
        lines = [Lines(f"m{number}") for number in range(BY_LINE)]
        for name in [*(f"c{number}" for number in range(RESUMED)), *(one.name for one in lines)]:
            shell(client, COUNTER, process=name, session="s0")
        start(client, "cat", process="echo", session="s2")
        for name, script in ENDED_ONES.items():
            shell(client, script, process=name, session="s1")
        start(client, "nosuch", process="missing", session="s1")
        before = {name: exited(client, name, "s1") for name in [*ENDED_ONES, "missing"]}
        assert [one["exit_code"] for one in before.values()] == [9, 139, 127]
        assert len(before["signal"]["stderr_preview"]) == 4000
        for number in range(rounds):
            bares = [one.dial(boxd.port, f"c{n}", "s0") for n, one in enumerate(resumed)]
            for one in lines:
                one.dial(boxd)
                one.take(500)
            for bare, counter in zip(bares, resumed, strict=True):
                target = counter.end + 20_000
                while counter.end < target:
                    counter.take(bare)
                    if counter.end % 3:
                        counter.confirm(bare)
            boxd.kill_worker()
            for bare, counter in zip(bares, resumed, strict=True):
                take_rest(bare, counter)
                bare.close()
            for one in lines:
                one.bare.break_off()
            boxd.wait_served(number + 2)
            with boxd.web() as again:
                for one in quiet:
                    one.check(again)
                check_ended(again, before)
                assert again.ask("box_status")["managed_processes"] == 20
        # Each counter printed its pid once, at the start: they are the original processes.
        for number, counter in enumerate(resumed):
            with counter.dial(boxd.port, f"c{number}", "s0") as bare:
                target = counter.end + 20_000
                while counter.end < target:
                    counter.take(bare)
                    counter.confirm(bare)
            assert counter.lines[1:] == [b"%d" % line for line in range(1, len(counter.lines))]
        for one in lines:
            one.dial(boxd)
            target = one.last + 500
            with one.bare:
                while one.last < target:
                    one.take(1)
        for one in quiet:
            one.check_output(boxd)
        with Relay(boxd, "echo", "s2") as relay:
            relay.send("still there")
            assert relay.recv() == "still there"
        taken = sum(len(counter.lines) for counter in resumed)
        print(f"{rounds} deaths; {taken} lines by box.v1, {[one.last for one in lines]} by mcp,")
        print(f"of which {[one.repeated for one in lines]} came again")


@pytest.mark.timeout(120)
def test_worker_killed_under_20_processes_and_5_relays(place):
    check_killed(place, ROUNDS_SHORT)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_worker_killed_again_and_again(place):
    check_killed(place, ROUNDS_LONG)
