"""Readers of a relay: one at a time, and a reader that does not read loses nothing."""

import contextlib
import time

import pytest

import parallellib
import boxdlib
import rawlib
import nativelib
from relaylib import ENDED, Bare, Relay, exited, info, narrow, shell, start, stop

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


# One reader at a time.


def test_the_next_one_waits(client, boxd):
    start(client, "cat")
    assert info(client)["attached"] is False
    with contextlib.ExitStack() as stack:
        relays = [stack.enter_context(Relay(boxd)) for _ in range(3)]
        boxdlib.wait_until(lambda: info(client)["attached"], 5, "attached")
        for number, relay in enumerate(relays):
            relay.send(f"{number}")
            relay.send(f"{number} again")
        assert relays[0].take(2) == ["0", "0 again"]
        assert relays[1].is_silent() and relays[2].is_silent() and relays[0].is_silent(0.1)
        relays[2].socket.close()
        relays[0].socket.close()
        assert relays[1].take(2) == ["1", "1 again"]
        assert relays[1].is_silent()
        assert info(client)["attached"] is True
    boxdlib.wait_until(lambda: not info(client)["attached"], 5, "nobody attached")
    stop(client)


def test_who_waits_is_closed_too(client, boxd):
    start(client, "cat")
    with Relay(boxd) as first, Relay(boxd) as second, Relay(boxd, protocol=None) as third:
        stop(client)
        for relay in (first, second, third):
            assert relay.rest() == ([], (1000, ENDED))


def test_what_came_while_nobody_was_attached(client, boxd):
    shell(client, "seq 1 1000; printf half; touch /tmp/there; read x; echo; echo $x; cat")
    boxdlib.wait_until(
        lambda: client.exec("test -e /tmp/there")["exit_code"] == 0, 10, "it has written"
    )
    with Relay(boxd) as relay:
        assert relay.take(1000) == [str(number) for number in range(1, 1001)]
        assert relay.is_silent()
        # Whole lines were confirmed; half a line waits for the next reader.
    with Relay(boxd) as relay:
        relay.send("word")
        assert relay.take(2) == ["half", "word"]
    client.exec("rm /tmp/there")
    stop(client)


def test_confirmed_lines_come_once_and_others_again(client, boxd):
    shell(client, "seq 1 10; cat")
    with Bare(boxd.port) as bare:
        opcode, _, payload = bare.recv_frame()
        seen = []
        while opcode != rawlib.PING_FRAME:
            seen.append(int(payload))
            opcode, _, payload = bare.recv_frame()
        assert seen == list(range(1, len(seen) + 1)) and seen
        bare.break_off()
    with Relay(boxd) as relay:
        assert relay.take(10) == [str(number) for number in range(1, 11)]
        # An answer after the pongs of all earlier pings.
        relay.send("x")
        assert relay.recv() == "x"
        relay.socket.ping().wait(5)
    with Relay(boxd) as relay:
        relay.send("y")
        assert relay.recv() in ("x", "y")
    stop(client)


# Readers that do not read.


def numbers(bare, count):
    for number in range(1, count + 1):
        got = bare.recv()
        assert int(got) == number, f"{got} where {number} should be"


@parallellib.scene
def test_a_reader_that_stops_blocks_the_process(client, boxd):
    count = 40_000  # 20 MB: more than all buffers on the way hold
    shell(client, f"seq -f %0500.0f 1 {count}; exit 3")
    with Bare(boxd.port, sock=narrow(boxd)) as bare:
        time.sleep(1.5)
        assert info(client)["status"] == "running"
        numbers(bare, count)
        end = bare.wait_closed()
        assert (end.code, end.reason) == (1000, ENDED)
    assert exited(client)["exit_code"] == 3


@parallellib.scene
def test_a_slow_reader_gets_all_after_the_exit(client, boxd):
    """The process has ended long before the last of its output is read."""
    line, count = "s" * 1000, 6000
    shell(client, f"yes {line} | head -n {count}; exit 4")
    with Bare(boxd.port, sock=narrow(boxd)) as bare:
        for _ in range(count - 5000):
            assert bare.recv() == line.encode()
        for number in range(5000):
            if number % 250 == 0:
                time.sleep(0.3)
            assert bare.recv() == line.encode(), number
        end = bare.wait_closed()
        assert (end.code, end.reason) == (1000, ENDED)
    assert exited(client)["exit_code"] == 4


def test_others_are_served_while_one_does_not_read(client, boxd):
    shell(client, "yes", process="yes")
    start(client, "cat")
    with Bare(boxd.port, "yes", sock=narrow(boxd)), Relay(boxd) as relay:
        times = []
        for number in range(200):
            begun = time.monotonic()
            relay.send(str(number))
            assert relay.recv() == str(number)
            times.append(time.monotonic() - begun)
        assert sorted(times)[100] < 0.05
    stop(client, "yes")
    stop(client)
