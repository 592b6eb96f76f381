"""Nothing is lost by a relay that breaks off: `box.v1` with its offsets, disconnects at random
moments while a counter is printed, and the death of box-rpc under processes and relays.
"""

import contextlib
import random
import struct
import time

import pytest

import boxlib
import framelib
import nativelib
import proclib
from clientlib import Closed
from relaylib import (
    BEGIN,
    DATA,
    DONE,
    END,
    ENDED,
    UNCONFIRMED,
    Bare,
    Relay,
    Resuming,
    exited,
    info,
    pack,
    shell,
    start,
    stop,
    unpack,
)

SHORT, LONG = 200, 10_000
COUNTER = "i=0; while :; do i=$((i+1)); echo $i; done"


@pytest.fixture(scope="module", autouse=True)
def nothing_left():
    with nativelib.nothing_left():
        yield


@pytest.fixture(scope="module", params=nativelib.MODES)
def place(request, nothing_left):
    with nativelib.Place(request.param) as made:
        yield made


@pytest.fixture(scope="module")
def client(place):
    with nativelib.dialled(place) as made:
        yield made


@pytest.fixture(scope="module")
def boxd(client):
    return client.boxd


# box.v1.


class V1(Bare):
    """One connection that has begun; `first` is where its output begins, `next` its input."""

    def __init__(self, boxd, begin=UNCONFIRMED, turn=True, **options):
        super().__init__(boxd.port, protocol="box.v1", **options)
        self.done = 0
        if begin is not None:
            self.say(BEGIN, begin)
        if begin is not None and turn:
            self.wait_turn()

    def say(self, kind, offset, data=b""):
        self.send(pack(kind, offset, data), opcode=framelib.BINARY)

    def wait_turn(self):
        kind, self.first, data = unpack(self.recv())
        assert kind == BEGIN
        self.next = struct.unpack("!Q", data)[0]

    def output(self, size):
        """The next so many bytes of output."""
        found = b""
        at = self.first
        while len(found) < size:
            kind, offset, data = unpack(self.recv())
            if kind == DATA:
                assert offset == at
                at += len(data)
                found += data
            else:
                assert kind == DONE
                self.done = offset
        self.first = at
        return found

    def until(self, wanted):
        """Takes messages up to one of this kind: its offset."""
        while True:
            kind, offset, _ = unpack(self.recv())
            if kind == wanted:
                return offset

    def taken(self, offset):
        """Until the process has taken its input up to here."""
        while self.done < offset:
            self.done = self.until(DONE)

    def closed(self):
        end = self.wait_closed()
        return end.code, end.reason


def test_offsets_and_the_end(client, boxd):
    shell(client, "printf 'a\\377\\n'; read x; echo $x; exit 7")
    with V1(boxd, 0) as relay:
        assert (relay.first, relay.next) == (0, 0)
        assert relay.output(3) == b"a\377\n"
        relay.say(DATA, 0, b"wo")
        relay.say(DATA, 2, b"rd\n")
        relay.say(DONE, 3)
        assert relay.output(5) == b"word\n"
        assert relay.until(END) == 7
        assert relay.closed() == (1000, ENDED)
    assert exited(client)["exit_code"] == 7


def test_a_signal_as_the_end(client, boxd):
    shell(client, "kill -9 $$")
    # It may be over before anybody can attach.
    shell(client, "read x; kill -15 $$")
    with V1(boxd) as relay:
        relay.say(DATA, 0, b"\n")
        assert relay.until(END) == 128 + 15
        assert relay.closed() == (1000, ENDED)


def test_resumed_where_it_broke_off(client, boxd):
    shell(client, "printf 0123456789; exec cat")
    with V1(boxd, 0) as relay:
        assert relay.output(10) == b"0123456789"
        relay.break_off()
    with V1(boxd, 4) as relay:
        assert (relay.first, relay.next) == (4, 0)
        assert relay.output(6) == b"456789"
        relay.say(DONE, 7)
        relay.say(DATA, 0, b"x")
        relay.taken(1)
        relay.break_off()
    # What was confirmed is gone, and so is what is before the beginning that was asked for; whoever
    # asks for more than there is gets the end.
    for begin, first in ((0, 7), (7, 7), (UNCONFIRMED, 7), (9, 9), (0, 9), (11, 11), (10**15, 11)):
        with V1(boxd, begin) as relay:
            assert (relay.first, relay.next) == (first, 1), begin
            assert relay.output(11 - first) == b"0123456789x"[first:]
    with V1(boxd, 10**15) as relay:
        relay.say(DATA, 1, b"yz")
        assert relay.output(2) == b"yz"
        assert relay.first == 13
    stop(client)


def test_no_more_is_confirmed_than_was_sent(client, boxd):
    shell(client, "printf 0123456789; exec cat")
    with V1(boxd, 0) as relay:
        relay.say(DONE, 10**12)
        assert relay.output(10) == b"0123456789"
        relay.say(DONE, 5)
        relay.say(DONE, 2)
        relay.say(DATA, 0, b"x")
        relay.taken(1)
    with V1(boxd, 0) as relay:
        assert relay.first == 5
    stop(client)


def test_input_twice_and_with_a_gap(client, boxd):
    start(client, "cat")
    with V1(boxd) as relay:
        relay.say(DATA, 0, b"abc")
        relay.say(DATA, 0, b"abc")
        relay.say(DATA, 1, b"bcd")
        relay.say(DATA, 4, b"")
        assert relay.output(4) == b"abcd"
        relay.taken(4)
        relay.say(DATA, 6, b"x")
        assert relay.closed() == (1002, "input is missing before this offset")
    with V1(boxd, 4) as relay:
        assert relay.next == 4
        relay.say(DATA, 2, b"cdef")
        assert relay.output(2) == b"ef"
        relay.say(END, 7)
        assert relay.closed() == (1002, "input is missing before its end")
    with V1(boxd, 6) as relay:
        relay.say(DATA, 6, b"g")
        relay.say(END, 7)
        relay.say(DATA, 7, b"never")
        assert relay.output(1) == b"g"
        assert relay.until(END) == 0
        assert relay.closed() == (1000, ENDED)


@pytest.mark.parametrize(
    "first",
    [b"", b"\3", pack(BEGIN, 0)[:8], pack(DATA, 0, b"x"), pack(DONE, 0), pack(END, 0), pack(9, 0)],
)
def test_what_is_no_beginning(client, boxd, first):
    start(client, "cat")
    with V1(boxd, None) as relay:
        relay.send(first, opcode=framelib.BINARY)
        assert relay.closed() == (1002, "not a message of box.v1")
    stop(client)


@pytest.mark.parametrize("later", [b"", pack(DATA, 0)[:8], pack(BEGIN, 0), pack(5, 0), pack(0, 0)])
def test_what_is_no_message(client, boxd, later):
    start(client, "cat")
    with V1(boxd) as relay:
        relay.send(later, opcode=framelib.BINARY)
        assert relay.closed() == (1002, "not a message of box.v1")
    stop(client)


def test_one_that_waits_may_not_write(client, boxd):
    start(client, "cat")
    with V1(boxd) as first, V1(boxd, turn=False) as second, V1(boxd, turn=False) as third:
        second.say(DATA, 0, b"too early")
        assert second.closed() == (1008, "it is not this one's turn yet")
        first.say(DATA, 0, b"a")
        assert first.output(1) == b"a"
        first.close()
        third.wait_turn()
        assert (third.first, third.next) == (0, 1)
        third.say(DATA, 1, b"b")
        assert third.output(2) == b"ab"
    stop(client)


def test_a_megabyte_is_sent_that_nobody_confirmed(client, boxd):
    shell(client, "head -c 5000000 /dev/zero")
    with V1(boxd, 0) as relay:
        relay.sock.settimeout(1)
        with pytest.raises(TimeoutError):
            while True:
                relay.output(1)
        assert 1 << 20 <= relay.first <= 3 << 19
        relay.sock.settimeout(10)
        while relay.first < 5_000_000:
            relay.say(DONE, relay.first)
            relay.output(1)
        assert relay.until(END) == 0
    assert exited(client)["exit_code"] == 0


def test_much_input_ahead_of_its_output(client, boxd):
    """The client's confirmations are behind its own input: both ways must go on."""
    start(client, "cat")
    count, piece = 150, b"p" * 60_000
    with V1(boxd, 0) as relay:
        for number in range(40):
            relay.say(DATA, number * len(piece), piece)
        sent = 40
        while relay.first < count * len(piece):
            relay.output(1)
            relay.say(DONE, relay.first)
            if sent < count:
                relay.say(DATA, sent * len(piece), piece)
                sent += 1
    stop(client)


# Disconnects.


def check_resumed(client, boxd, times, dice):
    """Not one line lost, none doubled."""
    shell(client, COUNTER)
    whole = Resuming()
    for turn in range(times):
        bare = whole.dial(boxd.port)
        with contextlib.suppress(Closed):
            for _ in range(dice.choice((0, 0, 1, 1, 2, 5, 12))):
                whole.take(bare)
                if dice.random() < 0.5:
                    whole.confirm(bare)
            if dice.random() < 0.3:
                # In the middle of a frame: what was read of it is thrown away.
                bare.sock.recv(dice.randrange(1, 5000))
        bare.break_off() if dice.random() < 0.8 else bare.close()
        if turn % 97 == 0:
            assert info(client)["status"] == "running"
    bare = whole.dial(boxd.port)
    target = whole.end + 100_000
    while whole.end < target:
        whole.take(bare)
        whole.confirm(bare)
    bare.close()
    assert len(whole.lines) > times / 2
    assert whole.lines == [b"%d" % number for number in range(1, len(whole.lines) + 1)]
    stop(client)


def check_lines(client, boxd, times, dice):
    """None lost; what was not confirmed comes again."""
    shell(client, COUNTER)
    last = 0
    repeated = 0

    def take(bare, number):
        got = int(bare.recv())
        assert number is None or got == number + 1, f"{got} behind {number}"
        return got

    for _ in range(times):
        with Bare(boxd.port) as bare:
            number = None
            with contextlib.suppress(Closed):
                for _ in range(dice.choice((0, 1, 1, 2, 20, 300))):
                    number = take(bare, number)
                    if number > last + 1:
                        raise AssertionError(f"{number} came behind {last}")
                    repeated += number <= last
                    last = max(last, number)
                if dice.random() < 0.3:
                    bare.sock.recv(dice.randrange(1, 5000))
            bare.break_off() if dice.random() < 0.8 else None
    assert last > times
    stop(client)


CHECKS = pytest.mark.parametrize("check", [check_resumed, check_lines])


@CHECKS
def test_disconnects(client, boxd, check):
    check(client, boxd, SHORT, random.Random(1))


@pytest.mark.soak
@pytest.mark.timeout(1800)
@CHECKS
def test_10000_disconnects(client, boxd, check):
    check(client, boxd, LONG, random.Random())


# The death of box-rpc.


def host_pids(marks):
    return {mark: proclib.find_one(mark) for mark in marks}


def test_worker_killed_under_processes_and_relays(place):
    """Every process has its old pid, what nobody has read, and how it ended."""
    marks = [nativelib.marker() for _ in range(14)]
    with nativelib.dialled(place) as client:
        boxd = client.boxd
        for number, mark in enumerate(marks):
            script = f"seq 1 {number + 1}; echo err{number} >&2; exec sleep {mark}"
            where = {"process": f"p{number}", "session": f"s{number % 3}"}
            shell(client, script, env={"B": "", "A": "x"}, **where)
        for number in range(3):
            shell(client, COUNTER, process=f"c{number}", session="s0")
        shell(client, "echo last words >&2; echo said; exit 9", process="over", session="s1")
        shell(client, "kill -11 $$", process="signal", session="s1")
        start(client, "nosuch", process="missing", session="s2")
        before = {name: exited(client, name, where) for name, where in ENDED_ONES}
        pids = host_pids(marks)
        counters = [Resuming() for _ in range(3)]
        with contextlib.ExitStack() as stack:
            bares = [counters[n].dial(boxd.port, f"c{n}", "s0") for n in range(3)]
            for bare in bares:
                stack.enter_context(bare)
            quiet = [stack.enter_context(Relay(boxd, f"p{n}", f"s{n % 3}")) for n in range(2)]
            for n, relay in enumerate(quiet):
                assert relay.take(n + 1) == [str(line) for line in range(1, n + 2)]
            for bare, counter in zip(bares, counters, strict=True):
                while counter.end < 50_000:
                    counter.take(bare)
                    counter.confirm(bare)
            boxd.kill_worker()
            for relay in quiet:
                assert relay.rest()[1][0] in (None, 1006)
        boxd.wait_served(2)
        with boxd.web() as again:
            assert host_pids(marks) == pids
            for number in range(2, 14):
                got = info(again, f"p{number}", f"s{number % 3}")
                assert (got["status"], got["attached"]) == ("running", False)
                assert got["env_keys"] == ["A", "B"] and got["command"] == "sh"
                assert got["stderr_preview"] == f"err{number}\n"
                with Relay(boxd, f"p{number}", f"s{number % 3}") as relay:
                    lines = [str(line) for line in range(1, number + 2)]
                    assert relay.take(number + 1) == lines
            for name, where in ENDED_ONES:
                assert info(again, name, where) == before[name]
            for number, counter in enumerate(counters):
                with counter.dial(boxd.port, f"c{number}", "s0") as bare:
                    target = counter.end + 50_000
                    while counter.end < target:
                        counter.take(bare)
                        counter.confirm(bare)
                wanted = [b"%d" % line for line in range(1, len(counter.lines) + 1)]
                assert counter.lines == wanted
            assert again.ask("box_status")["managed_processes"] == 17
            for number in range(14):
                stop(again, f"p{number}", f"s{number % 3}")
            assert not any(proclib.find(mark) for mark in marks)


ENDED_ONES = [("over", "s1"), ("signal", "s1"), ("missing", "s2")]


def test_output_of_a_process_that_was_silent_when_the_worker_died(place):
    """The predecessor's relay let output come: what comes now is nobody's, and waits."""
    with nativelib.dialled(place) as client:
        boxd = client.boxd
        shell(client, "while [ ! -e /tmp/go ]; do sleep 0.02; done; seq 1 5; exec cat")
        with Relay(boxd) as relay:
            assert relay.is_silent(0.1)
            boxd.kill_worker()
            boxd.wait_served(2)
        with boxd.web() as again:
            again.exec("touch /tmp/go; sleep 0.3")
            with Relay(boxd) as relay:
                assert relay.take(5) == list("12345")
                relay.send("on")
                assert relay.recv() == "on"


def test_worker_killed_again_and_again_under_a_counter(place):
    whole = Resuming()
    with nativelib.dialled(place) as client:
        boxd = client.boxd
        shell(client, COUNTER)
        for turn in range(5):
            with whole.dial(boxd.port) as bare, contextlib.suppress(Closed):
                for _ in range(20):
                    whole.take(bare)
                    whole.confirm(bare)
                boxd.kill_worker()
                while True:
                    whole.take(bare)
            boxd.wait_served(turn + 2)
        with whole.dial(boxd.port) as bare:
            for _ in range(20):
                whole.take(bare)
        assert whole.lines == [b"%d" % line for line in range(1, len(whole.lines) + 1)]


def test_a_stop_is_finished_though_the_worker_dies(place):
    mark = nativelib.marker()
    with nativelib.dialled(place) as client:
        shell(client, f"trap '' TERM; while :; do sleep 0.1; : {mark}; done", process="deaf")
        start(client, "sleep", mark)
        proclib.find_one(mark)
        client.start("box_stop_managed_process", {"session_id": "s", "process_id": "deaf"})
        time.sleep(0.2)
        client.boxd.kill_worker()
        client.boxd.wait_served(2)
        with client.boxd.web() as again:
            asked = {"session_id": "s", "process_id": "deaf"}
            answer = again.fail("box_get_managed_process", asked)
            assert answer.startswith("BoxManagedProcessNotFoundError: ")
            boxlib.wait_until(
                lambda: again.ask("box_status")["managed_processes"] == 1, 9, "it has ended"
            )
            assert info(again)["status"] == "running"
            assert list(again.ask("box_get_session", asked)["managed_processes"]) == ["default"]


# Half-open peers, and those that only wait.


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_who_waits_is_not_taken_for_gone(client, boxd):
    """Longer than a peer may be silent: one that waits for its turn, one that is not read because
    nobody takes its input, and one that answers no ping."""
    start(client, "cat")
    start(client, "sleep", "1000", process="deaf")
    begun = time.monotonic()
    with Relay(boxd) as first, Relay(boxd) as second:
        with Bare(boxd.port, "deaf") as unread, Bare(boxd.port, "deaf") as silent:
            second.send("second")
            for _ in range(9):
                unread.send(b"d" * 100_000)
            while time.monotonic() - begun < 100:
                first.send("tick")
                assert first.recv() == "tick"
                time.sleep(1)
            # What it was sent, and then nothing: nobody waits for a close of it.
            assert silent.wait_closed(1).code is None
            assert second.is_silent(0.1)
            first.socket.close()
            assert second.recv() == "second"
            stop(client, "deaf")
            assert unread.wait_closed().code == 1000
    stop(client)
