"""Real MCP servers from npm as managed processes, and real MCP clients (npm and PyPI) that hold
whole conversations with them through the relay.
"""

import hashlib
import json
import os
import shutil

import pytest

import clientlib
import langbotlib
import mcplib
import testpaths

CLIENTS = ("node", "python")
LONG_BYTES = {"node": 3 << 20, "python": 700_000}  # the client of PyPI takes 1 MiB a message
LINES = 20_000  # of the file, for that one


pytestmark = pytest.mark.usefixtures("nothing_left")


def node_command(world, wanted):
    script = world.folder / "mcp_client.mjs"
    shutil.copy(testpaths.SCRIPTS / script.name, script)
    return ["/usr/bin/node", str(script), json.dumps(wanted)]


def python_command(wanted):
    python = langbotlib.LANGBOT / "bin" / "python"
    return [str(python), str(testpaths.SCRIPTS / "mcp_client.py"), json.dumps(wanted)]


@pytest.fixture(scope="module", params=CLIENTS)
def talked(request, place):
    """What a client has received."""
    with place.start(token=clientlib.TOKEN) as boxd:
        world = mcplib.World(place, boxd)
        started = world.start()
        return {"started": started, "client": request.param, **talk(world, request.param)}


def talk(world, kind):
    boxd = world.boxd
    with boxd.web(token=clientlib.TOKEN) as client, mcplib.Door(boxd.port, world.headers) as door:
        port = door.port if kind == "python" else None
        urls = {name: world.url(name, port) for name in mcplib.SERVERS}
        wanted = {"urls": urls, "file": mcplib.FILE, "long_bytes": LONG_BYTES[kind]}
        if kind == "node":
            command = node_command(world, {**wanted, "headers": world.headers})
        else:
            urls["refused"] = world.url("everything")
            command = python_command({**wanted, "lines": LINES})
        environment = {**os.environ, "NO_PROXY": "127.0.0.1"}
        with mcplib.conversation(command, env=environment) as process:
            for line in process.stdout:
                if line == "tear\n":
                    door.tear()
                elif line == "waiting\n":
                    world.end(client, "everything")
                else:
                    results = json.loads(line)
        for name in ("everything", "files"):
            asked = {"session_id": mcplib.SESSION, "process_id": name}
            results[f"process {name}"] = client.ask("box_get_managed_process", asked)
    return results


# -- the server


def test_started(talked):
    """Started with the real client of langbot-plugin."""
    for name, args in mcplib.SERVERS.items():
        info = talked["started"][name]
        assert (info["status"], info["command"], info["args"]) == ("running", "node", args)


def test_headers_are_needed(talked):
    """A plain client sends none, and cannot."""
    assert "401" in talked["refused"]


def test_initialize(talked):
    assert talked["server"] == "mcp-servers/everything"
    wanted = {"completions", "logging", "prompts", "resources", "tools"}
    assert wanted <= set(talked["capabilities"])


# -- requests of a client


def test_tools(talked):
    assert {"echo", "get-sum", "trigger-sampling-request"} <= set(talked["tools"])
    assert talked["echo"] == "Echo: grüße \u2028 漢字 😀"
    assert talked["sum"] == "The sum of 40 and 2 is 42."
    assert set(talked["structured"]) == {"temperature", "conditions", "humidity"}
    assert talked["image"] == "image/png"


def test_long_answers(talked):
    """Messages of megabytes in both directions, where the client accepts them."""
    assert talked["long"] is True
    if talked["client"] == "node":
        text = f"{mcplib.FILE_LINE}\n" * mcplib.FILE_LINES
    else:
        text = "\n".join([mcplib.FILE_LINE] * LINES)
        assert talked["too_much"] == 1009
    assert talked["file"] == [len(text), hashlib.sha256(text.encode()).hexdigest()]


def test_many_at_once(talked):
    assert talked["at_once"] == [f"Echo: {number}" for number in range(50)]


def test_server_asks(talked):
    """The server asks the client's model in the middle of a call."""
    assert "sampled: Resource trigger-sampling-request context: hello" in talked["sampling"]


def test_resources_and_prompts(talked):
    assert (talked["resources"], talked["templates"]) == (7, 2)
    assert (talked["resource"], talked["dynamic"]) == ("text/markdown", "Resource 7")
    assert "args-prompt" in talked["prompts"]
    assert talked["prompt"] == "What's weather in Köln?"


def test_progress(talked):
    """A client may finish the call before it has handled the last notification."""
    assert talked["progress"][:3] == [1, 2, 3]


def test_ping(talked):
    assert talked["ping"] is True


def test_wrong_calls(talked):
    wrong, text = talked["wrong"]
    assert wrong is True and "MCP error -32602" in text
    assert (talked["wrong_tool"], talked["forbidden"]) == (True, True)
    assert talked["wrong_resource"][0] == talked["wrong_prompt"][0] == -32602


# -- broken connections


def test_broken_connection(talked):
    """In the middle of a call: the server goes on, and the next connection is served. What the
    server said meanwhile is not lost; a client that has forgotten the call takes it for an error.
    """
    if talked["client"] == "node":
        assert talked["broken"] == "MCP error -32000: Connection closed"
        assert talked["late"] is True
    else:
        assert talked["broken"] is None, "no word of it"
    assert talked["echo_again"] == "Echo: again"


def test_server_ends(talked):
    """The client sees its connection closed, and the runtime's log has the reason."""
    if talked["client"] == "node":
        assert talked["closed"] == "Not connected"
    else:
        assert talked["closed"] == [-32000, "Connection closed"]
    ended = talked["process everything"]
    assert (ended["status"], ended["exit_code"], ended["attached"]) == ("exited", 0, False)
    assert ended["end"] == {"reason": "exit", "signal": None}
    assert ended["stderr_preview"].startswith("Starting default (STDIO) server...")
    assert talked["process files"]["status"] == "running"
