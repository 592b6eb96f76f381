"""The relay: stdin and stdout of a managed process over a WebSocket, as text.

One message per line with the subprotocol `mcp`, text as it arrives without it; who is let in; and
how it is closed.
"""

import threading

import pytest

import boxdlib
import httplib
import rawlib
import nativelib
from clientlib import MESSAGE_BYTES_MAX, TOKEN, Closed, context, physical
from relaylib import ENDED, Bare, Relay, exited, headers, info, narrow, path, shell, start, stop

LINE_TOO_LONG = "a line is longer than 16 MiB"


pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.fixture(scope="module")
def client(place):
    with nativelib.dialled(place) as made:
        yield made


@pytest.fixture(scope="module")
def boxd(client):
    return client.boxd


# Output.

HOWEVER = r"""
printf '{"a":1}\n{"b":2}\npart'; sleep 0.1; printf 'ial\n'
printf x; sleep 0.1; printf 'y\n\n\nz\n'
printf '\303'; sleep 0.1; printf '\251\r\n'
printf 'bad \377 and \342\202\n'
printf 'no end'
"""
HOWEVER_LINES = ['{"a":1}', '{"b":2}', "partial", "xy", "z", "é\r", "bad � and �", "no end"]


def test_one_message_a_line_however_it_is_written(client, boxd):
    shell(client, HOWEVER)
    with Relay(boxd) as relay:
        assert relay.rest() == (HOWEVER_LINES, (1000, ENDED))


def test_text_as_it_comes_without_a_subprotocol(client, boxd):
    shell(client, HOWEVER)
    with Relay(boxd, protocol=None) as relay:
        pieces, closed = relay.rest()
    text = "".join(pieces)
    assert text == (
        '{"a":1}\n{"b":2}\npartial\nxy\n\n\nz\né\r\nbad � and �\nno end'
    ) and closed == (1000, ENDED)
    assert len(pieces) > 1


def test_an_unknown_subprotocol_is_none(client, boxd):
    for offered, answer in (("other, soap", b"a\n"), ("other, mcp", b"a"), ("mcp,box.v2", b"a")):
        start(client, "cat")
        with Bare(boxd.port, protocol=offered) as bare:
            bare.send(b"a")
            assert bare.recv() == answer, offered
    stop(client)


@pytest.mark.parametrize("size", [1, 4096, 65535, 65536, 65537, 200_000, 1 << 20, 5_000_000])
def test_lines_of_any_length_there_and_back(client, boxd, size):
    start(client, "cat")
    with Relay(boxd) as relay:
        line = ("äb" * size)[: size // 2] + "c" * (size - size // 2)
        relay.send(line)
        assert relay.recv(30) == line
        relay.send(line)
        relay.send("next")
        assert relay.take(2, 30) == [line, "next"]
    stop(client)


def test_a_message_of_16_mib_and_one_byte_more(client, boxd):
    start(client, "cat")
    most = "m" * MESSAGE_BYTES_MAX
    with Relay(boxd) as relay:
        relay.send(most)
        assert relay.recv(30) == most
        relay.send("small")
        assert relay.recv() == "small"
    with Bare(boxd.port) as bare:
        bare.send_raw(rawlib.frame(b"begun", declared=MESSAGE_BYTES_MAX + 1))
        end = bare.wait_closed()
        assert (end.code, end.reason) == (1009, "message too large")
    with Relay(boxd) as relay:
        relay.send("still there")
        # Unconfirmed output is sent again.
        assert relay.recv() in ("small", "still there")
    stop(client)


def test_a_line_that_is_too_long_is_dropped(client, boxd):
    size = MESSAGE_BYTES_MAX
    zeros = "head -c {} /dev/zero | tr '\\0' x"
    shell(
        client,
        f"echo before; {zeros.format(size)}; echo; echo between;"
        f" {zeros.format(size + 1)}; echo tail; echo after; {zeros.format(3 * size)};"
        " echo; echo last; cat",
    )
    with Relay(boxd) as relay:
        assert relay.recv() == "before"
        assert relay.recv(30) == "x" * size
        assert relay.recv() == "between"
        assert relay.rest(30) == ([], (1009, LINE_TOO_LONG))
    with Relay(boxd) as relay:
        assert relay.recv(30) == "after"
        assert relay.rest(30) == ([], (1009, LINE_TOO_LONG))
    with Relay(boxd) as relay:
        assert relay.recv(30) == "last"
        relay.send("cat")
        assert relay.recv() == "cat"
    stop(client)


def test_a_line_that_is_too_long_as_text(client, boxd):
    """Invalid UTF-8 bytes become three bytes each: the size of the message counts."""
    third = MESSAGE_BYTES_MAX // 3
    bad = "head -c {} /dev/zero | tr '\\0' '\\377'"
    shell(client, f"{bad.format(third)}; echo x; {bad.format(third + 1)}; echo y; echo last; cat")
    with Relay(boxd) as relay:
        most = relay.recv(30)
        assert len(most.encode()) == MESSAGE_BYTES_MAX and most == "\ufffd" * third + "x"
        assert relay.rest(30) == ([], (1009, LINE_TOO_LONG))
    with Relay(boxd) as relay:
        assert relay.recv(30) == "last"
        relay.send("on")
        assert relay.recv() == "on"
    stop(client)


REFUSED = r"""
echo before; head -c 2000000 /dev/zero | tr '\0' x; echo; echo behind; exec cat
"""


def test_a_line_that_the_client_refuses_is_dropped(client, boxd):
    """The client closes with 1009, and would do so each time: it would never get the output after
    the line."""
    shell(client, REFUSED)
    with Relay(boxd, max_size=1 << 20) as relay:
        assert relay.recv() == "before"
        with pytest.raises(Closed):
            relay.recv()
    with Relay(boxd, max_size=1 << 20) as relay:
        assert relay.recv() == "behind"
        relay.send("more")
        assert relay.recv() == "more"
    stop(client)


def test_what_came_before_a_line_that_is_too_long_is_not_lost(client, boxd):
    shell(
        client,
        f"seq 1 30000; head -c {MESSAGE_BYTES_MAX + 9} /dev/zero | tr '\\0' x; echo; cat",
    )
    with Bare(boxd.port, sock=narrow(boxd)) as bare:
        boxdlib.wait_until(lambda: boxd.events("relay.line_too_long"), 30, "the line was met")
        got = []
        with pytest.raises(Closed) as closed:
            while True:
                got.append(int(bare.recv()))
        assert (closed.value.code, closed.value.reason) == (1009, LINE_TOO_LONG)
        assert got == list(range(1, 30001))
    stop(client)


# Input.


def test_every_message_is_written_with_a_line_end(client, boxd):
    shell(client, "head -c 21 | od -An -v -tx1 -w21")
    with Relay(boxd) as relay:
        relay.send("a")
        relay.send("")
        relay.send(b"\0\377\n")
        relay.send("two\nlines\n")
        relay.send("é")
        messages, closed = relay.rest()
    sent = "a\n\n".encode() + b"\0\377\n\n" + "two\nlines\n\né\n".encode()
    assert messages == [" " + sent.hex(" ")] and closed == (1000, ENDED)


def test_input_that_nobody_reads_waits(client, boxd):
    """More than all buffers hold: the client has to wait, and no input is lost."""
    shell(client, "while [ ! -e /tmp/go ]; do sleep 0.05; done; md5sum; rm /tmp/go")
    line = b"i" * 65535
    count = 400
    bare = Bare(boxd.port)
    with bare:
        bare.sock.settimeout(1)
        with pytest.raises(TimeoutError):
            for _ in range(count):
                bare.sock.sendall(rawlib.frame(line))
        assert info(client)["status"] == "running"
    client.exec("touch /tmp/go")
    stop(client)


def test_many_requests_ahead_of_their_answers(client, boxd):
    """A client that sends much before it reads: neither side may wait forever."""
    start(client, "cat")
    line, count = b"q" * 4000, 3000
    with Bare(boxd.port) as bare:
        # In pieces of whole frames, so that pongs can be sent between them.
        lock = threading.Lock()
        whole = bare.sock.sendall

        def send(data):
            with lock:
                whole(data)

        bare.send = lambda payload, **options: send(rawlib.frame(payload, **options))
        sender = threading.Thread(
            target=lambda: [bare.send(line) for _ in range(count)], daemon=True
        )
        sender.start()
        bare.sock.settimeout(10)
        assert all(bare.recv() == line for _ in range(count))
        sender.join(10)
    stop(client)


def test_one_message_of_many_lines(client, boxd):
    start(client, "cat")
    text = "\n".join(f"line {number}" for number in range(100_000))
    with Relay(boxd) as relay:
        relay.send(text)
        assert [relay.recv() for _ in range(100_000)] == text.split("\n")
    stop(client)


# Access.


def refused(boxd, where=None, without=(), **fields):
    """(status, body) of a handshake."""
    sent = {**rawlib.UPGRADE, **headers(), "X-LangBot-Box-Control-Token": TOKEN}
    sent |= {name.replace("_", "-"): value for name, value in fields.items()}
    for name in without:
        del sent[name]
    status, _, body = httplib.request(boxd, where or path(), sent)
    return status, body.decode()


def error(code, message):
    return 400, f'{{"error":{{"code":"{code}","message":"{message}"}}}}'


UNAUTHORIZED = (401, "Unauthorized")


def test_refusals_in_their_order(place):
    """Each request also has all faults that are checked later."""
    nowhere = path("p", "nosuch", workspace="other")
    with nativelib.dialled(place, token=TOKEN) as client:
        boxd = client.boxd
        assert refused(boxd, nowhere, without=["X-LangBot-Box-Control-Token"]) == UNAUTHORIZED
        assert refused(boxd, nowhere, X_LangBot_Box_Control_Token="x" * 40) == UNAUTHORIZED
        assert refused(boxd, nowhere, X_LangBot_Instance_Id="other") == UNAUTHORIZED
        assert refused(boxd, nowhere, without=["X-LangBot-Instance-Id"]) == UNAUTHORIZED
        assert refused(boxd, nowhere, without=["X-LangBot-Workspace-Id"]) == UNAUTHORIZED
        assert refused(boxd, nowhere, X_LangBot_Workspace_Id="w" * 257) == UNAUTHORIZED
        for generation in ("", "0", "01", "+1", "1.0", "-1", "x", "9" * 30):
            got = refused(boxd, nowhere, X_LangBot_Placement_Generation=generation)
            assert got == UNAUTHORIZED, generation
        # No generation has been seen yet: even the right one is not current.
        assert refused(boxd, path("p")) == UNAUTHORIZED
        start(client, "cat", process="p")
        for generation in ("2", "1000"):
            got = refused(boxd, path("p"), X_LangBot_Placement_Generation=generation)
            assert got == UNAUTHORIZED
        # The session of another placement, existing or not.
        start(client, "cat", context=context("other"))
        for where in (path(workspace="other"), nowhere, path(session="")):
            assert refused(boxd, where)[0] in (401, 404), where
        assert refused(boxd, path(workspace="other")) == UNAUTHORIZED
        assert refused(boxd, nowhere) == UNAUTHORIZED
        session = physical("s")
        assert refused(boxd, path("p", "nosuch")) == error(
            "BoxSessionNotFoundError", f"session {physical('nosuch')} not found"
        )
        missing = f"session {session} has no managed process with process_id="
        for process in (None, "nosuch"):
            assert refused(boxd, path(process)) == error(
                "BoxManagedProcessNotFoundError", missing + (process or "default")
            )
        start(client, "true", process="over")
        exited(client, "over")
        assert refused(boxd, path("over")) == error(
            "BoxManagedProcessConflictError",
            f"managed process over in session {session} is not running",
        )
        # A newer generation: the old placement is gone with everything in it.
        client.ask("box_status", context=context("ws1", 2))
        assert refused(boxd, path("p")) == UNAUTHORIZED
        assert refused(boxd, path("p"), X_LangBot_Placement_Generation="2") == UNAUTHORIZED


def test_a_relay_pins_no_instance(place):
    with place.start(instance=None) as boxd:
        assert refused(boxd) == UNAUTHORIZED
        with boxd.web(instance="another-one") as client:
            assert client.ask("__ping", context=None) == {}


# How relays are closed.


def end_by_exit(client):
    client.exec("touch /tmp/exit")


def end_by_stop(client):
    stop(client)


def end_by_replacing(client):
    start(client, "cat")


def end_by_deleting(client):
    client.ask("box_delete_session", {"session_id": "s"})


def end_by_killing(client):
    client.exec("kill -9 $(cat /tmp/pid)")


ENDS = [end_by_exit, end_by_stop, end_by_replacing, end_by_deleting, end_by_killing]


@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__)
@pytest.mark.parametrize("protocol", ["mcp", None])
def test_closed_with_the_end_of_the_process(client, boxd, end, protocol):
    shell(client, "echo $$ >/tmp/pid; while [ ! -e /tmp/exit ]; do sleep 0.02; done")
    with Relay(boxd, protocol=protocol) as relay:
        assert relay.is_silent(0.1)
        end(client)
        assert relay.rest() == ([], (1000, ENDED))
    client.call("box_delete_session", {"session_id": "s"})


def test_closed_by_a_newer_generation(place):
    with nativelib.dialled(place) as client:
        start(client, "cat")
        with Relay(client.boxd) as relay, Relay(client.boxd) as second:
            relay.send("a")
            assert relay.recv() == "a"
            client.ask("box_status", context=context("ws1", 2))
            assert relay.rest() == ([], (1000, ENDED))
            assert second.rest() == ([], (1000, ENDED))


def test_closed_when_the_box_dies(client, boxd):
    mark = nativelib.marker()
    start(client, "sleep", mark)
    with Relay(boxd) as relay:
        nativelib.proclib.kill_init(mark)
        assert relay.rest() == ([], (1000, ENDED))
    client.call("box_delete_session", {"session_id": "s"})


def test_closed_by_the_shutdown(place):
    with nativelib.dialled(place) as client:
        start(client, "cat")
        with Relay(client.boxd) as relay, Relay(client.boxd) as second:
            relay.send("a")
            assert relay.recv() == "a"
            client.boxd.signal(boxdlib.signal.SIGTERM)
            assert relay.rest() == ([], (1001, "Box runtime shutting down"))
            assert second.rest() == ([], (1001, "Box runtime shutting down"))
