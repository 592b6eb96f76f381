"""LangBot's own services against this runtime, over WebSocket: what a bot platform really does.

langbot_script.py drives them inside LangBot's environment (BOX_VENV_LANGBOT, else
build/venv-langbot, made by scripts/deps); here its results are judged. Skipped where there is none.
"""

import json
import os
import pathlib
import shutil
import subprocess

import pytest

import clientlib
import nativelib

ROOT = pathlib.Path(__file__).parents[2]
SCRIPT = pathlib.Path(__file__).with_name("langbot_script.py")
VENV = pathlib.Path(os.environ.get("BOX_VENV_LANGBOT") or ROOT / "build" / "venv-langbot")
VERSION = "4.11.2"
LETTER_BYTES = len("grüße, 漢字\n".encode())

pytestmark = pytest.mark.skipif(
    not (VENV / "bin" / "python").exists(), reason=f"no environment with langbot: {VENV}"
)


def profile(mode):
    """LangBot's own default has network on; where that cannot be had, its offline one."""
    can = shutil.which("pasta") and (mode == "root" or os.access("/dev/net/tun", os.W_OK))
    # Root may write to everything: what an ordinary user may is in the mode of the device.
    if mode == "rootless" and can:
        can = os.stat("/dev/net/tun").st_mode & 0o006 == 0o006
    return ("default", "on") if can else ("offline", "off")


@pytest.fixture(scope="module", autouse=True)
def nothing_left():
    with nativelib.nothing_left():
        yield


@pytest.fixture(scope="module", params=nativelib.MODES)
def driven(request, nothing_left):
    """What LangBot said, run by the user that boxd is."""
    mode = request.param
    with nativelib.Place(mode) as place:
        probe = [*place.before, str(VENV / "bin" / "python"), "-c", "import langbot"]
        if subprocess.run(probe, cwd="/", capture_output=True, timeout=60).returncode != 0:
            pytest.skip(f"the user that boxd is cannot use {VENV}")
        yield drive(place, mode)


def drive(place, mode):
    with place.start(token=clientlib.TOKEN) as boxd:
        name, network = profile(mode)
        wanted = {
            "endpoint": f"ws://127.0.0.1:{boxd.port}",
            "instance": clientlib.INSTANCE,
            "host_root": str(place.work / "box"),
            "profile": name,
        }
        done = subprocess.run(
            [*place.before, str(VENV / "bin" / "python"), str(SCRIPT), json.dumps(wanted)],
            env=place.environment(LANGBOT_BOX_CONTROL_TOKEN=clientlib.TOKEN),
            cwd=place.work,
            capture_output=True,
            text=True,
            timeout=110,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        tenant = place.work / "box/default/tenants" / namespace()
        files = {
            str(path.relative_to(tenant)): path.read_bytes()
            for path in tenant.rglob("*")
            if path.is_file()
        }
        results = json.loads(done.stdout.splitlines()[-1])
        return {**results, "files": files, "network": network, "tenant": str(tenant), "mode": mode}


def namespace():
    workspace = "7c0d8f6e-5d0b-4a39-9a51-0d1c4f1f9a77"
    return clientlib.physical("", workspace).removesuffix("-g1-")


def test_version():
    code = "import importlib.metadata as m; print(m.version('langbot'))"
    done = subprocess.run(
        [str(VENV / "bin" / "python"), "-c", code], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == VERSION


def test_initialize(driven):
    assert (driven["available"], driven["error"]) == (True, "")
    assert driven["backend"]["backend"] == nativelib.backend(driven["mode"])
    assert driven["tools"] == ["exec", "read", "write", "edit", "glob", "grep"]


def test_acquire_and_bind(driven):
    assert driven["status"]["available"] is True
    assert (driven["status"]["limit"], driven["status"]["used"]) == (64, 0)
    assert driven["again"] is True and driven["acquired"] == "idle"
    assert driven["outbox"] == "/workspace/outbox/run1"


def test_session(driven):
    (session,) = driven["sessions"]
    expected = {"network": driven["network"], "host_path": driven["tenant"], "status": "idle"}
    assert expected.items() <= session.items()
    assert driven["tenant folder"] == driven["tenant"]


def test_exec(driven):
    result = driven["exec"]
    assert (result["status"], result["exit_code"], result["backend"]) == ("completed", 3, "local")
    assert (result["stdout"], result["stderr"]) == ("hello\n1000\n/workspace", "")
    late = driven["late"]
    assert (late["status"], late["exit_code"], late["stdout"]) == ("timed_out", None, "so far")


def test_file_tools(driven):
    note = "/workspace/a/note.txt"
    assert driven["write"] == {"ok": True, "path": note}
    assert driven["read"]["content"] == "one\ntwo"
    assert driven["edit"] == {"ok": True, "path": note}
    assert driven["grep"]["matches"] == [{"file": note, "line": 2, "content": "three"}]
    assert driven["glob"]["matches"] == [note, driven["imported"][0]["path"]]
    assert driven["files"]["a/note.txt"] == b"one\nthree\n"


def test_import(driven):
    (item,) = driven["imported"]
    path = "/workspace/inbox/run1-attachment-0/letter.txt"
    assert (item["name"], item["size"], item["path"]) == ("letter.txt", LETTER_BYTES, path)


def test_export(driven):
    """Of 3 MiB too: the references' clip of stdout would have cut it."""
    assert driven["made"]["exit_code"] == 0, driven["made"]
    assert driven["exported"] == [["big.bin", 3 << 20], ["copy.txt", LETTER_BYTES]]
    assert driven["exported whole"] is True
    assert not [path for path in driven["files"] if path.startswith("outbox")]
    name, text = driven["missing"]
    assert name == "BoxValidationError" and "No such file or directory" in text


def test_storage_analysis(driven):
    storage = driven["storage"]
    directories = {one["key"]: one for one in storage["directories"]}
    order = ["workspace", "mcp", "inbox", "outbox"]
    assert [one["key"] for one in storage["directories"]][:4] == order
    assert directories["workspace"]["path"] == driven["tenant"]
    # Two files: the note and the letter.
    assert directories["workspace"]["file_count"] == 2
    assert directories["workspace"]["size_bytes"] == len(b"one\nthree\n") + LETTER_BYTES
    assert (directories["inbox"]["size_bytes"], directories["mcp"]["exists"]) == (
        LETTER_BYTES,
        False,
    )
    roots = [one["size_bytes"] for one in storage["directories"] if one["kind"] == "root"]
    assert storage["size_bytes"] == sum(roots)
    assert (storage["active_sessions"], storage["managed_processes"]) == (1, 0)
