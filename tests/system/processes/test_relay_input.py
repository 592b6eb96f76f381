"""Input of a managed process over a relay: pings are answered while nobody reads the input; input
after the end of input; and too much input.
"""

import asyncio
import contextlib
import hashlib
import threading
import time

import pytest
from websockets.asyncio.client import connect

import parallellib
import boxdlib
import rawlib
import nativelib
from clientlib import Closed
from relaylib import (
    DATA,
    DONE,
    END,
    ENDED,
    V1,
    Bare,
    Relay,
    exited,
    headers,
    info,
    path,
    shell,
    start,
    stop,
)

MIB = 1 << 20
AFTER_END = "input after its end"
# A client that closes when a ping is not answered in time, which shows after two seconds.
ANXIOUS = {"ping_interval": 0.5, "ping_timeout": 1.5}
ANXIOUS_SECONDS = 3
WAITS = "while [ ! -e /tmp/go ]; do sleep 0.05; done; rm /tmp/go; "


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


# A process that does not read.


def lines_of(size):
    """Lines of `size` bytes including the newline, and their md5sum."""
    lines = [f"{number:08}".ljust(65535, "i") for number in range(size // 65536)]
    whole = "".join(line + "\n" for line in lines)
    return lines, hashlib.md5(whole.encode()).hexdigest()


@pytest.mark.parametrize("size", [MIB, 12 * MIB])
@parallellib.scene
def test_pings_are_answered_while_nobody_reads(client, boxd, size):
    """Far more than a pipe holds, and the client's library does not close the connection."""
    shell(client, WAITS + f"head -c {size} | md5sum; exec cat")
    lines, sum_of_all = lines_of(size)
    with Relay(boxd, **ANXIOUS) as relay:
        for line in lines:
            relay.send(line)
        assert relay.is_silent(ANXIOUS_SECONDS)
        assert info(client)["attached"] is True
        client.exec("touch /tmp/go")
        assert relay.recv(30).split()[0] == sum_of_all
        relay.send("on")
        assert relay.recv() == "on"
    stop(client)


@parallellib.scene
def test_pings_of_one_that_waits_for_its_turn(client, boxd):
    start(client, "cat")
    lines, _ = lines_of(960 * 1024)
    with Relay(boxd) as first, Relay(boxd, **ANXIOUS) as second:
        for line in lines:
            second.send(line)
        assert second.is_silent(ANXIOUS_SECONDS)
        first.socket.close()
        assert second.take(len(lines)) == lines
    stop(client)


def test_an_asyncio_client_that_sends_more_than_can_wait(client, boxd):
    """The client has to wait, loses nothing, and does not take the relay for dead."""
    size = 40 * MIB
    shell(client, WAITS + f"head -c {size} | md5sum; exec cat")
    lines, sum_of_all = lines_of(size)

    async def talk():
        where = f"ws://127.0.0.1:{boxd.port}{path()}"
        options = {"additional_headers": headers(), "subprotocols": ["mcp"], "proxy": None}
        async with connect(where, **options, **ANXIOUS) as relay:
            sent = 0

            async def send_all():
                nonlocal sent
                for line in lines:
                    await relay.send(line)
                    sent += 1

            sender = asyncio.create_task(send_all())
            await asyncio.sleep(ANXIOUS_SECONDS)
            assert 16 * MIB <= sent * 65536 < size - 65536, sent
            assert boxdlib.rss_kb(boxd.worker) < before + 120 * 1024
            await asyncio.to_thread(client.exec, "touch /tmp/go")
            await asyncio.wait_for(sender, 30)
            got = await asyncio.wait_for(relay.recv(), 30)
            assert got.split()[0] == sum_of_all

    before = boxdlib.rss_kb(boxd.worker)
    asyncio.run(talk())
    stop(client)


def test_a_client_that_waits_is_told_nothing_and_loses_nothing(client, boxd):
    """The same on a plain socket: it blocks, and what was taken is a prefix of the input."""
    size = 48 * MIB
    lines, sum_of_all = lines_of(size)
    shell(client, WAITS + f"head -c {size} | md5sum; exec cat")
    with Bare(boxd.port) as bare:
        data = [rawlib.frame(line.encode()) for line in lines]
        sender = threading.Thread(
            target=lambda: [bare.sock.sendall(one) for one in data], daemon=True
        )
        sender.start()
        time.sleep(1.5)
        assert sender.is_alive()
        assert info(client)["status"] == "running"
        client.exec("touch /tmp/go")
        bare.sock.settimeout(30)
        assert bare.recv().split()[0].decode() == sum_of_all
        sender.join(30)
    stop(client)


@parallellib.scene
def test_what_waits_goes_in_though_the_client_goes(client, boxd):
    shell(client, WAITS + f"head -c {2 * MIB} | md5sum; exec cat")
    lines, sum_of_all = lines_of(2 * MIB)
    with Relay(boxd) as relay:
        for line in lines:
            relay.send(line)
        # Comes after all input: all of it was read.
        assert relay.socket.ping().wait(10)
    with Relay(boxd, **ANXIOUS) as relay:
        assert relay.is_silent(ANXIOUS_SECONDS)
        client.exec("touch /tmp/go")
        assert relay.recv(30).split()[0] == sum_of_all
    stop(client)


# End of input.


def test_input_after_its_end(client, boxd):
    """Refused with its error; the process, the waiting client and the next one continue."""
    shell(client, "cat; printf there; while [ ! -e /tmp/end ]; do sleep 0.02; done; rm /tmp/end")
    with V1(boxd, 0) as relay, V1(boxd, turn=False) as second:
        relay.say(DATA, 0, b"abc")
        relay.say(END, 3)
        # Repeating the end, as a client that resumes does, is no error; nor is repeated input.
        relay.say(END, 3)
        relay.say(DATA, 1, b"bc")
        assert relay.output(8) == b"abcthere"
        relay.say(DATA, 3, b"x")
        assert relay.closed() == (1008, AFTER_END)
        second.wait_turn()
        assert (second.first, second.next) == (0, 3)
        assert second.output(8) == b"abcthere"
        second.say(DATA, 2, b"cd")
        assert second.closed() == (1008, AFTER_END)
    # With lines, too, since the process cannot read any more.
    with Relay(boxd) as relay:
        relay.send("late")
        assert relay.rest()[1] == (1008, AFTER_END)
    assert info(client)["status"] == "running"
    with V1(boxd, 8) as relay:
        client.exec("touch /tmp/end")
        assert relay.until(END) == 0
        assert relay.closed() == (1000, ENDED)
    assert exited(client)["exit_code"] == 0


def test_an_end_before_what_was_sent(client, boxd):
    start(client, "cat")
    with V1(boxd, 0) as relay:
        relay.say(DATA, 0, b"abc")
        relay.say(END, 2)
        assert relay.closed() == (1008, AFTER_END)
    with V1(boxd, 0) as relay:
        assert relay.next == 3
        relay.say(DATA, 3, b"d")
        assert relay.output(4) == b"abcd"
    stop(client)


def test_the_end_is_known_to_the_next_worker(place):
    with nativelib.dialled(place) as client:
        boxd = client.boxd
        shell(client, "cat; printf there; exec sleep 1000")
        with V1(boxd, 0) as relay:
            relay.say(DATA, 0, b"abc")
            relay.say(END, 3)
            assert relay.output(8) == b"abcthere"
            boxd.kill_worker()
            with contextlib.suppress(Closed):
                relay.until(END)
        boxd.wait_served(2)
        with V1(boxd, 0) as relay:
            assert (relay.first, relay.next) == (0, 3)
            relay.say(END, 3)
            relay.say(DATA, 3, b"x")
            assert relay.closed() == (1008, AFTER_END)
        with boxd.web() as again:
            assert info(again)["status"] == "running"


def test_input_for_one_that_has_ended(client, boxd):
    """Its output is still read; input sent to it is discarded without an error."""
    shell(client, "read go; seq -f %01000.0f 1 1000; exit 3")
    with V1(boxd, 0) as relay:
        relay.say(DATA, 0, b"go\n")
        boxdlib.wait_until(lambda: info(client)["status"] == "exited", 10, "it has ended")
        relay.say(DATA, 3, b"late")
        assert len(relay.output(1001 * 1000)) == 1001 * 1000
        assert relay.until(END) == 3
        assert relay.closed() == (1000, ENDED)
    assert exited(client)["exit_code"] == 3


# Too much input.


@pytest.mark.parametrize("protocol", ["mcp", "box.v1"])
def test_a_message_that_is_too_long(client, boxd, protocol):
    """One byte more than 16 MiB is refused before it arrives; the process and the next client
    continue."""
    start(client, "cat")
    with V1(boxd, 0) if protocol == "box.v1" else Bare(boxd.port) as relay:
        relay.send_raw(rawlib.frame(b"begun", opcode=rawlib.BINARY, declared=16 * MIB + 1))
        end = relay.wait_closed()
        assert (end.code, end.reason) == (1009, "message too large")
    with V1(boxd, 0) as relay:
        assert relay.next == 0
        piece = bytes(16 * MIB - 9)
        sender = threading.Thread(target=relay.say, args=(DATA, 0, piece), daemon=True)
        sender.start()
        got = 0
        while got < len(piece):
            # Confirmed input makes room for more.
            got += len(relay.output(1))
            if not sender.is_alive():
                relay.say(DONE, relay.first)
        sender.join()
    stop(client)
