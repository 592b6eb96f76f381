"""LangBot's own services against this runtime: what a bot platform really does.

langbot_script.py drives them in an environment that has LangBot (langbotlib.py), once with boxd as
a server that LangBot connects to, and once with boxd as LangBot's child, started by the package of
contrib/langbot. The results are checked here.
"""

import base64
import concurrent.futures
import contextlib
import json
import os
import random
import shutil
import socket
import subprocess
import uuid

import pytest

import clientlib
import langbotlib
import nativelib
import proclib
import testpaths

SCRIPT = testpaths.SCRIPTS / "langbot_script.py"
VERSION = "4.11.2"
LETTER_BYTES = len("grüße, 漢字\n".encode())
PICTURE_BYTES = 8 + (2 << 20)
NOTE = b"one\nthree\nfour\n"
LIVES = [(carrier, mode) for mode in nativelib.MODES for carrier in ("websocket", "child")]
EVERYTHING = "node_modules/@modelcontextprotocol/server-everything/dist/index.js"


def profile(mode):
    """LangBot's own default profile has network on; where that is not possible, its offline one."""
    can = shutil.which("pasta") and (mode == "root" or os.access("/dev/net/tun", os.W_OK))
    # Root may write to everything; whether an ordinary user may is in the mode of the device.
    if mode == "rootless" and can:
        can = os.stat("/dev/net/tun").st_mode & 0o006 == 0o006
    return ("default", "on") if can else ("offline", "off")


def free_port():
    """A port that nobody listens on, outside the range of outgoing connections."""
    while True:
        port = random.randrange(10240, 32000)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port


pytestmark = pytest.mark.usefixtures("nothing_left")


@contextlib.contextmanager
def furnished(mode):
    """A folder for LangBot that belongs to boxd's user."""
    with nativelib.Place(mode) as place:
        place.langbot = langbotlib.environment_for(place)
        place.server = place.make("server")
        place.write(place.server / "start.mjs", f'import "/workspace/tools/{EVERYTHING}";\n')
        place.wrapper = langbotlib.write_wrapper(place)
        yield place


@pytest.fixture(scope="module")
def lives(nothing_left):
    """The results of LangBot in all its setups, which run in parallel: futures."""
    with concurrent.futures.ThreadPoolExecutor(len(LIVES)) as pool, contextlib.ExitStack() as stack:
        begun = {}
        for mode in nativelib.MODES:
            try:
                place = stack.enter_context(furnished(mode))
            except pytest.skip.Exception as why:
                ours = {one: pool.submit(pytest.skip, str(why)) for one in LIVES if one[1] == mode}
            else:
                ours = {one: pool.submit(live, place, one[0]) for one in LIVES if one[1] == mode}
            begun |= ours
        yield begun
        concurrent.futures.wait(begun.values())  # before the places go


@pytest.fixture(scope="module", params=LIVES, ids=["-".join(one) for one in LIVES])
def driven(request, lives):
    """The results of LangBot."""
    return lives[request.param].result()


def live(place, carrier):
    host_root = place.make(carrier)
    for parts in (("default",), ("default", "tenants"), ("default", "tenants", namespace())):
        tenant = place.make(carrier, *parts)
    langbotlib.link_packages(tenant / "tools")
    name, network = profile(place.mode)
    wanted = {
        "instance": clientlib.INSTANCE,
        "host_root": str(host_root),
        "roots": [str(place.server)],
        "profile": name,
        "network": network,
        "server": str(uuid.uuid4()),
        "server_folder": str(place.server),
        "marker": nativelib.marker(),
    }
    if carrier == "websocket":
        results = dial(place, wanted)
    else:
        wanted |= {"endpoint": "", "port": free_port()}
        results = drive(place, wanted, LANGBOT_BOXD=str(place.wrapper))
    results["files"] = read_files(tenant)
    about = {"tenant": str(tenant), "carrier": carrier, "mode": place.mode}
    return {**results, **about, "wanted": wanted}


def dial(place, wanted):
    """With boxd as a server; its metrics after LangBot's shutdown are among the results."""
    with place.start(token=clientlib.TOKEN) as boxd:
        wanted["endpoint"] = f"ws://127.0.0.1:{boxd.port}"
        results = drive(place, wanted, LANGBOT_BOX_CONTROL_TOKEN=clientlib.TOKEN)
        with boxd.web(token=clientlib.TOKEN) as client:
            status = client.ask("box_status")
        results["counts"] = [status["active_sessions"], status["managed_processes"]]
    return results


def drive(place, wanted, **more):
    """One run of LangBot, and the processes that it left running."""
    command = [*place.before, str(place.langbot.python), str(SCRIPT), json.dumps(wanted)]
    done = subprocess.run(
        command,
        env=place.langbot.environ(HOME=str(place.home), **more),
        cwd=place.work,
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert "Sanitizer" not in done.stderr and "runtime error:" not in done.stderr, done.stderr
    results = json.loads(done.stdout.splitlines()[-1])
    arguments = (server_path(wanted["server"]), wanted["marker"])
    results["left"] = [pid for argument in arguments for pid in proclib.find(argument)]
    return results


def server_path(server):
    """A path in the box; LangBot has copied the folder there."""
    return f"/workspace/.mcp/{server}/workspace/start.mjs"


def namespace():
    workspace = "7c0d8f6e-5d0b-4a39-9a51-0d1c4f1f9a77"
    return clientlib.physical("", workspace).removesuffix("-g1-")


def read_files(folder):
    """All files except the packages, by path."""
    found = (path for path in folder.rglob("*") if path.is_file())
    named = {str(path.relative_to(folder)): path for path in found}
    return {name: path.read_bytes() for name, path in named.items() if name[:6] != "tools/"}


# -- the connection


def test_version():
    code = "import importlib.metadata as m; print(m.version('langbot'))"
    python = str(langbotlib.LANGBOT / "bin" / "python")
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == VERSION


def test_initialize(driven):
    assert (driven["available"], driven["error"]) == (True, "")
    assert driven["backend"]["backend"] == nativelib.backend(driven["mode"])
    assert driven["child"] == (None if driven["carrier"] == "websocket" else "boxd")


def test_shutdown(driven):
    """The server keeps nothing of LangBot's and keeps running; the child has ended by itself."""
    assert driven["left"] == [], "of processes of boxes"
    if driven["carrier"] == "websocket":
        assert driven["counts"] == [0, 0]
    else:
        assert driven["exit code"] == 0


# -- boxes of pipeline runs


def test_acquire_and_bind(driven):
    assert driven["status"]["available"] is True
    # LangBot asks for 64; one workspace may have all but an eighth.
    assert (driven["status"]["limit"], driven["status"]["used"]) == (56, 0)
    assert driven["again"] is True and driven["acquired"] == "idle"
    assert driven["outbox"] == "/workspace/outbox/run1"


def test_session(driven):
    (session,) = driven["sessions"]
    network = driven["wanted"]["network"]
    expected = {"network": network, "host_path": driven["tenant"], "status": "idle"}
    assert expected.items() <= session.items()
    assert driven["tenant folder"] == driven["tenant"]


def test_exec(driven):
    result = driven["exec"]
    assert (result["status"], result["exit_code"], result["backend"]) == ("completed", 3, "local")
    assert (result["stdout"], result["stderr"]) == ("hello\n1000\n/workspace", "")
    late = driven["late"]
    assert (late["status"], late["exit_code"], late["stdout"]) == ("timed_out", None, "so far")


def test_file_tools(driven):
    """Inside the box by commands, or on the disk where the runtime is LangBot's child."""
    assert driven["tools"] == ["exec", "read", "write", "edit", "glob", "grep"]
    note, done = "/workspace/a/note.txt", {"ok": True, "path": "/workspace/a/note.txt"}
    assert (driven["write"], driven["append"], driven["edit"]) == (done, done, done)
    assert driven["read"]["content"] == "one\ntwo\nfour"
    assert driven["grep"]["matches"] == [{"file": note, "line": 2, "content": "three"}]
    assert driven["glob"]["matches"] == [driven["imported"][0]["path"]]
    assert (driven["list"]["is_directory"], driven["list"]["content"]) == (True, "note.txt")
    assert driven["files"]["a/note.txt"] == NOTE
    assert driven["write binary"]["ok"] is True and driven["files"]["a/blob"] == bytes(range(256))
    assert base64.b64decode(driven["read binary"]["content"]) == bytes(range(256))
    assert driven["read nothing"]["ok"] is False and "not found" in driven["read nothing"]["error"]


# -- files in and out


def sums(text):
    """The output of sha256sum."""
    return [line.split(maxsplit=1) for line in text.splitlines()]


def test_import(driven):
    letter, picture = driven["imported"]
    path = "/workspace/inbox/run1-attachment-0/letter.txt"
    assert (letter["name"], letter["size"], letter["path"]) == ("letter.txt", LETTER_BYTES, path)
    assert (picture["type"], picture["size"]) == ("Image", PICTURE_BYTES)
    assert sums(driven["seen inside"]) == driven["sent"]


def test_import_by_exec(driven):
    """Where LangBot does not see the workspace, it sends files in commands of a megabyte."""
    names = [path.rsplit("/", 1)[1] for path in driven["by exec"]]
    assert names == [name for _, name in driven["parcels"]]
    assert sums(driven["parcels inside"]) == driven["parcels"]


def test_export(driven):
    """A file of 6 MB: the reference would have clipped it with stdout."""
    assert driven["made"]["exit_code"] == 0, driven["made"]
    assert driven["exported"] == [["big.bin", 6_000_000], ["copy.txt", LETTER_BYTES]]
    assert driven["exported whole"] is True
    assert not [path for path in driven["files"] if path.startswith("outbox")]
    name, text = driven["missing"]
    assert name == "BoxValidationError" and "No such file or directory" in text


# -- skills


def test_skill(driven):
    """An artifact mount, named by its digest and read-only."""
    (mount,) = driven["mounts"]
    digest = mount["content_digest"].removeprefix("sha256:")
    assert mount["mount_path"] == f"/opt/langbot-artifacts/{digest}" and mount["mode"] == "ro"
    greeted = driven["greeted"]
    assert greeted["stdout"] == "hello, world grüße\n./SKILL.md\n./data/word\n./greet.sh"
    spoiled = driven["spoiled"]
    assert spoiled["stdout"] == "SKILL.md\ndata\ngreet.sh"
    assert spoiled["stderr"].count("Read-only file system") == 2
    assert "Run greet.sh with a name." in driven["skill read"]["content"]


def test_skill_and_session(driven):
    """It is mounted in an existing session, for the commands of its run only."""
    assert driven["same session"]["stdout"] == "kept\nruns"
    assert driven["another run"]["stdout"] == "not here"


# -- MCP


def test_mcp_server(driven):
    mcp, server = driven["mcp"], driven["wanted"]["server"]
    assert (mcp["status"], mcp["error"], mcp["phase"]) == ("connected", None, None)
    assert {"echo", "get-sum", "langbot_mcp_read_resource"} <= set(mcp["tools"])
    process = mcp["process"]
    assert (process["status"], process["attached"]) == ("running", True)
    assert (process["command"], process["args"]) == ("node", [server_path(server), "stdio"])
    assert process["env_keys"] == ["GREETING"]


def test_mcp_tools(driven):
    mcp = driven["mcp"]
    assert (mcp["echo"], mcp["sum"]) == (["Echo: grüße"], ["The sum of 40 and 2 is 42."])
    seen = json.loads(mcp["env"][0])
    assert (seen["GREETING"], seen["HOME"]) == ("grüße", "/home/box")
    assert not [name for name in seen if name.startswith("LANGBOT")]
    assert mcp["long"] is True
    assert mcp["at once"] == [f"Echo: {number}" for number in range(20)]
    assert "MCP error -32602" in mcp["wrong"][1]
    assert mcp["unknown"] == ["ValueError", "Tool not found: no-such-tool"]


def test_mcp_resources(driven):
    mcp = driven["mcp"]
    assert mcp["resources"] == 7
    (content,) = mcp["resource"]
    assert content["mime_type"] == "text/markdown" and "Everything Server" in content["text"]


def test_mcp_reconnects(driven):
    """After the relay's connection broke, LangBot starts the process again."""
    mcp = driven["mcp"]
    assert (mcp["relays"], mcp["echo again"]) == (1, ["Echo: again"])
    again = mcp["process again"]
    assert (again["status"], again["attached"]) == ("running", True)


def test_mcp_removed(driven):
    name, text = driven["mcp"]["gone"]
    assert name == "BoxManagedProcessNotFoundError" and driven["wanted"]["server"] in text
    assert not [path for path in driven["files"] if path.startswith(".mcp")]


# -- storage


def directories(storage):
    return {one["key"]: one for one in storage["directories"]}


def test_storage_analysis(driven):
    storage = driven["storage"]
    found = directories(storage)
    order = ["workspace", "mcp", "inbox", "outbox"]
    assert [one["key"] for one in storage["directories"]][:4] == order
    assert found["workspace"]["path"] == driven["tenant"]
    # The packages, the note, the blob, the letter and the picture.
    fetched = (langbotlib.NPM / "node_modules").rglob("*")
    packages = [path for path in fetched if not is_folder(path)]
    size = sum(path.lstat().st_size for path in packages)
    came = LETTER_BYTES + PICTURE_BYTES
    assert found["workspace"]["file_count"] == len(packages) + 4
    assert found["workspace"]["size_bytes"] == size + len(NOTE) + 256 + came
    assert (found["inbox"]["size_bytes"], found["mcp"]["exists"]) == (came, False)
    roots = [one["size_bytes"] for one in storage["directories"] if one["kind"] == "root"]
    assert storage["size_bytes"] == sum(roots)
    assert (storage["active_sessions"], storage["managed_processes"]) == (1, 0)


def test_storage_analysis_with_mcp(driven):
    storage = driven["mcp"]["storage"]
    assert (storage["active_sessions"], storage["managed_processes"]) == (2, 1)
    assert directories(storage)["mcp"]["file_count"] == 1


def is_folder(path):
    return path.is_dir() and not path.is_symlink()
