"""A smoke test of the real programs, in seconds: the part of the system tests that `make check`
runs for every change.

A real client of each generation, commands, files, a managed process and its relay, a killed
box-rpc, the command `box`; also what test_access_local.py has about other users. Each has its own
test files elsewhere.
"""

import subprocess

import pytest

import boxdlib
import nativelib
from relaylib import Relay, shell

pytestmark = [pytest.mark.smoke, pytest.mark.usefixtures("nothing_left")]


@pytest.fixture(scope="module")
def made():
    nativelib.skip_if_missing("root")
    with nativelib.Place("root") as place:
        yield place


@pytest.mark.parametrize("generation", ["OLD", "NEW"])
@pytest.mark.parametrize("carrier", ["stdio", "websocket"])
def test_a_real_client_runs_a_command(made, generation, carrier):
    steps = {"exec": {"do": "exec", "session_id": "smoke", "cmd": "echo $((6 * 7)); id -u"}}
    results = nativelib.drive(generation, carrier, made, steps)
    assert results["exec"]["gave"]["stdout"].split() == ["42", "1000"], results


def test_a_session_survives_its_worker(made):
    with nativelib.dialled(made) as client:
        boxd = client.boxd
        assert client.exec("echo kept >note", "s")["exit_code"] == 0
        shell(client, "while read line; do echo got $line; done", process="echo", session="s")
        with Relay(boxd, "echo", "s") as relay:
            relay.send("one")
            assert relay.take(1) == ["got one"]
        boxd.kill_worker()
        with boxd.web() as again:
            again.init(backend="local")
            assert again.exec("cat note", "s")["stdout"].strip() == "kept"
            with Relay(boxd, "echo", "s") as relay:
                relay.send("two")
                assert relay.take(1) == ["got two"]


def test_a_box_is_a_box(made):
    """Only the box's own processes, a read-only root, and no network unless requested."""
    with nativelib.dialled(made) as client:
        told = client.exec("ls -d /proc/[0-9]* | wc -l; touch /usr/x 2>&1; tail -n +3 /proc/net/dev | cut -d: -f1", "s")
        count, refused, *links = told["stdout"].splitlines()
        assert int(count) < 10 and "Read-only" in refused and [name.strip() for name in links] == ["lo"], told


def test_the_command_runs_one_box(made):
    command = [boxdlib.build() / "box", "run", "--config", str(made.config), "--", "echo hi; exit 7"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=made.environment())
    assert (done.returncode, done.stdout) == (7, "hi\n"), done.stderr
