"""The last output of a managed process, and output that forms no message: confirmed output is not
sent again, and nothing waits for a confirmation that cannot come.
"""

import pytest

import rawlib
import nativelib
from relaylib import DATA, DONE, ENDED, V1, Bare, Relay, shell, stop


pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.fixture(scope="module")
def client(place):
    with nativelib.dialled(place) as made:
        yield made


@pytest.fixture(scope="module")
def boxd(client):
    return client.boxd


def until_ping(bare):
    """The lines before the last message, and its payload."""
    lines = []
    while True:
        opcode, _, payload = bare.recv_frame()
        if opcode == rawlib.PING_FRAME:
            return lines, payload
        lines.append(payload.decode())


def test_many_empty_lines_behind_one_that_is_not_confirmed(client, boxd):
    shell(client, "echo a; yes '' | head -c 3000000; touch /tmp/written; echo b; cat")
    with Bare(boxd.port) as bare:
        lines, payload = until_ping(bare)
        assert lines == ["a"]
        # More output than the window arrives before the pong.
        assert client.exec("sleep 1; ls /tmp/written")["exit_code"] != 0
        bare.sock.sendall(rawlib.frame(payload, opcode=rawlib.PONG))
        lines, _ = until_ping(bare)
        assert lines == ["b"]
    client.exec("rm /tmp/written")
    stop(client)


def test_who_comes_behind_the_end_gets_nothing_again(client, boxd):
    shell(client, "read x; echo first; echo last")
    with Relay(boxd) as one, Relay(boxd) as two:
        one.send("go")
        assert one.rest() == (["first", "last"], (1000, ENDED))
        assert two.rest() == ([], (1000, ENDED))


def test_the_end_is_confirmed_by_a_client_s_own_word(client, boxd):
    shell(client, "read x; echo first; echo last")
    with V1(boxd) as one, Relay(boxd) as two:
        one.say(DATA, one.next, b"go\n")
        assert one.output(11) == b"first\nlast\n"
        one.say(DONE, 11)
        assert one.closed() == (1000, ENDED)
        assert two.rest() == ([], (1000, ENDED))
