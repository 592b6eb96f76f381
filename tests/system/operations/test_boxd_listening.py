"""boxd from outside: where it listens, and stdio as a second transport.

tests/drivers/fake_rpc.c is in place of box-rpc. What only root can see is skipped for others.
"""

import os
import signal
import socket

import pytest

from boxdlib import ROOT
from fakerpclib import FLAG_HOST, FLAG_ROOTS, FLAG_STDIO, FLAG_WIDE_OPEN, has_ipv6, run

TOKEN = "t0ken-" * 8


# Listening.

IN_USE = (
    "Address already in use; "
    "if it is another boxd (see box status), choose a port with --ws-control-port"
)


def test_loopback_only_by_default(start_boxd):
    boxd = start_boxd()
    with boxd.connect():
        pass
    boxd.wait_event("worker.started")  # logged after them
    listening = [(event["address"], event["port"]) for event in boxd.events("listening")]
    expected = ["127.0.0.1", "::1"] if has_ipv6() else ["127.0.0.1"]
    assert [address for address, _ in listening] == expected
    assert len({port for _, port in listening}) == 1
    if has_ipv6():
        with boxd.connect("::1") as peer:
            # Also the socket that tells which user a connection belongs to.
            assert peer.ask_all("start")["listeners"] == "3"


@pytest.mark.parametrize(
    "host, token, dialled, open_to_all",
    [
        ("127.0.0.1", None, ["127.0.0.1"], False),
        ("localhost", None, ["127.0.0.1"], False),
        ("0.0.0.0", None, ["127.0.0.1", "127.0.0.2"], True),
        ("0.0.0.0", TOKEN, ["127.0.0.1"], False),
        ("::1", None, ["::1"], False),
        ("::", None, ["127.0.0.1", "::1"], True),
    ],
)
def test_host(start_boxd, host, token, dialled, open_to_all):
    if ":" in host and not has_ipv6():
        pytest.skip("no IPv6")
    boxd = start_boxd("--host", host, env={"LANGBOT_BOX_CONTROL_TOKEN": token} if token else {})
    for address in dialled:
        with boxd.connect(address) as peer:
            flags = int(peer.ask_all("start")["flags"])
            assert flags == FLAG_ROOTS | FLAG_HOST | (FLAG_WIDE_OPEN if open_to_all else 0)


@pytest.mark.skipif(not has_ipv6(), reason="no IPv6")
def test_ipv6_host_is_ipv6_only(start_boxd):
    boxd = start_boxd("--host=::1")
    with pytest.raises(ConnectionRefusedError):
        boxd.connect("127.0.0.1")


def test_port_taken(programs, start_boxd):
    first = start_boxd()
    port = first.port
    result = run(programs, f"--ws-control-port={port}")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == f"boxd: cannot listen on 127.0.0.1 port {port}: {IN_USE}\n"


def test_ipv6_port_taken(programs):
    if not has_ipv6():
        pytest.skip("no IPv6")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with socket.socket(socket.AF_INET6) as other:
        other.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        other.bind(("::1", port))
        other.listen()
        result = run(programs, f"--ws-control-port={port}")
    assert result.returncode == 1
    assert result.stderr == f"boxd: cannot listen on ::1 port {port}: {IN_USE}\n"


@pytest.mark.parametrize("host", ["nowhere.invalid", "192.0.2.1"])
def test_host_that_is_not_ours(programs, host):
    result = run(programs, f"--host={host}", "--ws-control-port=0")
    assert result.returncode == 1
    assert result.stderr.startswith("boxd: ") and host in result.stderr


def test_port_taken_with_stdio(start_boxd):
    first = start_boxd()
    boxd = start_boxd(f"--ws-control-port={first.port}", stdio=True)
    warning = boxd.wait_event("listen.failed")
    assert warning["level"] == "warning"
    assert f"127.0.0.1 port {first.port}" in warning["why"]
    boxd.tell("start")
    assert boxd.answers()["listeners"] == "0"
    boxd.process.stdin.close()
    assert boxd.wait() == 0


# Stdio.


@pytest.fixture
def stdio(start_boxd):
    def start(*args):
        return start_boxd(*args, stdio=True)

    return start


def test_stdio_and_the_port_beside_it(stdio):
    boxd = stdio()
    boxd.tell("start")
    assert int(boxd.answers()["flags"]) == FLAG_ROOTS | FLAG_STDIO
    with boxd.connect() as peer:
        assert peer.ask("getstate") == "-"
    if ROOT:
        for fd in (0, 1):
            assert os.readlink(f"/proc/{boxd.pid}/fd/{fd}") == "/dev/null"
    boxd.process.stdin.close()
    assert boxd.wait() == 0
    assert boxd.process.stdout.read() == b""


@pytest.mark.parametrize(
    "command, code", [("exit 0", 0), ("exit 3", 1), ("exit 78", 78), ("abort", 1)]
)
def test_stdio_exit_codes(stdio, command, code):
    boxd = stdio()
    boxd.tell(command)
    assert boxd.wait() == code
    assert len(boxd.events("worker.started")) == 1


def test_stdio_worker_killed(stdio):
    boxd = stdio()
    pid = boxd.wait_event("worker.started")["pid"]
    os.kill(pid, signal.SIGKILL)
    assert boxd.wait() == 1
    assert boxd.process.stdout.read() == b""


def test_stdio_stop(stdio):
    boxd = stdio()
    with boxd.connect():
        boxd.signal(signal.SIGTERM)
        assert boxd.wait() == 0


def test_closed_standard_fds(start_boxd):
    """Files that boxd opens must not become fd 0, 1 or 2."""
    boxd = start_boxd(before=["sh", "-c", 'exec "$@" <&- >&-', "sh"])
    with boxd.connect() as peer:
        fds = peer.ask_all("ids")["fds"]
    assert fds.startswith("0:/dev/null,1:pipe,2:pipe,3:socket,")
