"""A relay that breaks off loses nothing: `box.v1` and its offsets, disconnects at random moments
while a counter is printed, and the death of box-rpc under processes and relays.
"""

import contextlib
import random
import time

import pytest

import parallellib
import boxdlib
import rawlib
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
    V1,
    Bare,
    Relay,
    Resuming,
    exited,
    fill,
    info,
    pack,
    shell,
    start,
    stop,
)

SHORT, LONG = 200, 10_000
COUNTER = "i=0; while :; do i=$((i+1)); echo $i; done"


pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.fixture(scope="module")
def client(place):
    with nativelib.dialled(place) as made:
        yield made


@pytest.fixture(scope="module")
def boxd(client):
    return client.boxd


@pytest.fixture(scope="module")
def scenes(request, nothing_left):
    with parallellib.begun(request) as made:
        yield made


# box.v1.


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
    # The process may have ended before anyone can attach.
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
    # Confirmed output is gone, and so is output before the requested offset; an offset beyond the
    # end gives the end.
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
        relay.send(first, opcode=rawlib.BINARY)
        assert relay.closed() == (1002, "not a message of box.v1")
    stop(client)


@pytest.mark.parametrize("later", [b"", pack(DATA, 0)[:8], pack(BEGIN, 0), pack(5, 0), pack(0, 0)])
def test_what_is_no_message(client, boxd, later):
    start(client, "cat")
    with V1(boxd) as relay:
        relay.send(later, opcode=rawlib.BINARY)
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


@parallellib.scene
def test_confirmed_before_it_is_sent_again(client, boxd):
    """A client that reconnects has received more than it had confirmed. It confirms that once,
    before it is sent again, and gets everything after it."""
    shell(client, "head -c 5000000 /dev/zero")
    had = 0
    for _ in range(4):  # how much comes unconfirmed is not always the same
        with V1(boxd, 0) as relay:
            relay.sock.settimeout(1)
            with pytest.raises(TimeoutError):
                while True:
                    relay.output(1)
            had = max(had, relay.first)
            relay.break_off()
        boxdlib.wait_until(lambda: not info(client)["attached"], what="the end of that one")
    with V1(boxd, None) as relay:
        both = [pack(BEGIN, 0), pack(DONE, had)]
        relay.sock.sendall(b"".join(rawlib.frame(one, rawlib.BINARY) for one in both))
        relay.wait_turn()
        assert relay.first == 0
        relay.output(had + 1)
        while relay.first < 5_000_000:
            relay.say(DONE, relay.first)
            relay.output(1)
        assert relay.until(END) == 0
    assert exited(client)["exit_code"] == 0


def test_much_input_ahead_of_its_output(client, boxd):
    """The client's confirmations wait behind its own input: both directions must make progress."""
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
    """No line is lost, none comes twice."""
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
                # In the middle of a frame: the partial frame is discarded.
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
    """No line is lost; unconfirmed lines come again."""
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


# box-rpc dies.


def test_output_of_a_process_that_was_silent_when_the_worker_died(place):
    """The predecessor's relay had opened a window: output that arrives now has no reader, and
    waits."""
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

        def listed():
            return client.ask("box_get_session", {"session_id": "s"})["managed_processes"]

        boxdlib.wait_until(lambda: "deaf" not in listed(), what="it is leaving")
        client.boxd.kill_worker()
        client.boxd.wait_served(2)
        with client.boxd.web() as again:
            asked = {"session_id": "s", "process_id": "deaf"}
            boxdlib.wait_until(
                lambda: again.call("box_get_managed_process", asked)["code"] == 1, 8, "its end"
            )
            message = again.fail("box_get_managed_process", asked)
            assert message.startswith("BoxManagedProcessNotFoundError: ")
            assert info(again)["status"] == "running"


# Half-open and idle peers.


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_who_waits_is_not_taken_for_gone(client, boxd):
    """Silent for longer than a peer may be: one that waits for its turn, one that is not read
    because nobody takes its input, and one that answers no ping."""
    start(client, "cat")
    start(client, "sleep", "1000", process="deaf")
    begun = time.monotonic()
    with Relay(boxd) as first, Relay(boxd) as second:
        with Bare(boxd.port, "deaf") as unread, Bare(boxd.port, "deaf") as silent:
            second.send("second")
            fill(unread)
            while time.monotonic() - begun < 100:
                first.send("tick")
                assert first.recv() == "tick"
                time.sleep(1)
            # It gets its pending output and nothing else: nobody waits for its close.
            assert silent.wait_closed(1).code is None
            assert second.is_silent(0.1)
            first.socket.close()
            assert second.recv() == "second"
            stop(client, "deaf")
            assert unread.wait_closed().code == 1000
    stop(client)
