"""The first client of LangBot that had a sandbox (langbot-plugin 0.4.0), unmodified, with native
boxes.

It knows no tokens, instances or contexts. Over stdio the client starts boxd as LangBot 4.10 does,
with nothing in its environment but the configuration; over WebSocket it connects without headers.
first_client_script.py runs the client; the results are checked here.
"""

import json
import os
import socket
import subprocess

import pytest

import boxdlib
import nativelib
import testpaths

SCRIPT = testpaths.SCRIPTS / "first_client_script.py"
SDK = os.environ.get("BOX_SDK_FIRST") or str(SCRIPT.parents[2] / "build" / "sdk-first")
CONFIG = {"backend": "local", "local": {"profile": "default"}}

pytestmark = pytest.mark.usefixtures("nothing_left")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def python(*args, **options):
    return subprocess.run(
        [f"{os.environ['BOX_VENV_OLD']}/bin/python", *args],
        env={**os.environ, "PYTHONPATH": SDK},
        capture_output=True,
        text=True,
        timeout=100,
        **options,
    )


def run_script(wanted, place):
    done = python(str(SCRIPT), json.dumps({"config": CONFIG, **wanted}), cwd=place.folder)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "Sanitizer" not in done.stderr and "runtime error:" not in done.stderr, done.stderr
    return json.loads(done.stdout)


def drive(carrier, place):
    if carrier == "websocket":
        with place.start(instance=None) as boxd:
            relay = f"http://127.0.0.1:{boxd.port}"
            return run_script({"carrier": carrier, "url": boxd.url, "relay": relay}, place)
    port = free_port()
    wanted = {
        "carrier": carrier,
        "command": place.command("-s", "--ws-control-port", str(port)),
        "env": place.environment(LANGBOT_BOX_CONFIG=json.dumps(CONFIG)),
        "relay": f"http://127.0.0.1:{port}",
    }
    return run_script(wanted, place)


@pytest.fixture(scope="module", params=["stdio", "websocket"])
def results(request, nothing_left):
    nativelib.skip_if_missing("root")
    with nativelib.Place("root") as place:
        yield drive(request.param, place)


def test_version():
    code = "import langbot_plugin.version as v; print(v.__version__)"
    assert python("-c", code).stdout.strip() == "0.4.0"


def test_commands(results):
    assert results["backend"] == {"name": "local", "available": True}
    echo = results["echo"]
    assert (echo["status"], echo["exit_code"]) == ("completed", 3)
    assert (echo["stdout"], echo["stderr"], echo["session_id"]) == ("hello", "e", "s")
    assert results["kept"]["stdout"] == "kept"
    assert len(results["offline"]["stdout"].splitlines()) <= 2, "lo and the heading of no routes"
    assert results["listed"] == ["s"]


def test_timeout(results):
    late = results["late"]
    assert (late["status"], late["exit_code"], late["stdout"]) == ("timed_out", None, "so far")
    assert results["listed late"] == ["s"]
    assert results["got late"][0] == "BoxSessionNotFoundError"
    assert results["status late"]["active_sessions"] == 1


def test_managed_process(results):
    assert results["created"]["session_id"] == "mcp-shared"
    assert results["started"]["status"] == "running"
    assert results["session"]["managed_process"]["command"] == "cat"
    assert results["echoed"] == "there and back\n"
    assert results["no relay"].startswith("400,")
    assert results["got stopped"][0] == "BoxManagedProcessNotFoundError"


def test_ends(results):
    assert results["deleted"] is None
    assert results["got deleted"][0] == "BoxSessionNotFoundError"
    assert results["listed deleted"] == ["s"]
    assert results["conflict"][0] == "BoxSessionConflictError"
    assert results["skills"] == []
    assert results["listed at the end"] == []
    if "exit_code" in results:
        assert results["exit_code"] == 0
        assert results["exit_seconds"] < 2.0 + boxdlib.STALL_SECONDS
