"""The published client of LangBot, unmodified, against this runtime.

Both generations (langbot-plugin 0.5.5 and 0.7.18), over stdio (the client starts `boxd -s` itself,
with the environment that LangBot gives it) and over WebSocket, without and with a token.
client_script.py runs the client in its own environment; the results are checked here.
"""

import concurrent.futures
import datetime
import itertools
import json
import os
import re
import subprocess

import pytest

import boxdlib
import testpaths
from clientlib import ERROR_NAMES, TOKEN

SCRIPT = testpaths.SCRIPTS / "client_script.py"
INSTANCE = "0d6fc1a6-3b7c-4f6e-9d53-1f0d2c1d5a11"

# What LangBot 4.11 sends without any configuration.
DEFAULT_CONFIG = {
    "enabled": True,
    "backend": "local",
    "limits": {
        "max_sessions": 64,
        "max_managed_processes": 64,
        "max_completed_processes": 256,
        "max_workspace_entries": 100000,
        "max_admission_records": 100000,
        "max_rpc_file_bytes": 20971520,
    },
    "admission": {
        "required": False,
        "logical_session_id": "global",
        "required_backend": "nsjail",
        "max_sessions": 1,
        "max_managed_processes": 0,
        "max_grant_ttl_sec": 300,
        "max_timeout_sec": 120,
        "cpus": 1.0,
        "memory_mb": 512,
        "pids_limit": 128,
        "read_only_rootfs": True,
        "workspace_quota_mb": 0,
        "readiness_cache_sec": 15,
    },
    "local": {
        "profile": "default",
        "image": "",
        "host_root": "./data/box",
        "default_workspace": "",
        "allowed_mount_roots": ["./data/box", "/tmp"],
        "workspace_quota_mb": None,
    },
    "default_memory_mb": 1536,
    "docker": {"cpu_limit_enabled": True},
    "e2b": {"api_key": "", "api_url": "", "template": ""},
}

# Names that the clients have a class for; they turn all others into BoxError.
KNOWN = set(ERROR_NAMES[:9])

SESSION_MEMBERS = {
    "session_id": "made",
    "backend_name": "fake",
    "image": "rockchin/langbot-sandbox:latest",
    "network": "off",
    "host_path": None,
    "host_path_mode": "rw",
    "mount_path": "/workspace",
    "persistent": False,
    "cpus": 1.0,
    "memory_mb": 64,
    "pids_limit": 128,
    "read_only_rootfs": True,
    "workspace_quota_mb": 0,
    "status": "idle",
}


def drive(generation, carrier, scenario, folder, variable="BOX_BUILD"):
    """Runs one scenario of client_script.py; returns its results."""
    token = None if carrier == "websocket" else TOKEN
    wanted = {
        "carrier": "stdio" if carrier == "stdio" else "websocket",
        "instance": INSTANCE,
        "scenario": scenario,
        "default_config": DEFAULT_CONFIG,
        "names": ERROR_NAMES,
    }
    if carrier == "stdio":
        wanted["command"] = [str(boxdlib.build(variable) / "boxd"), "-s", "--ws-control-port", "0"]
        wanted["env"] = boxdlib.environment(
            LANGBOT_BOX_CONTROL_TOKEN=token,
            LANGBOT_BOX_TRUSTED_INSTANCE_UUID=INSTANCE,
            LANGBOT_BOX_CONFIG=json.dumps(DEFAULT_CONFIG),
        )
        return run_script(generation, wanted, folder)
    with boxdlib.Boxd(token=token, programs=boxdlib.build(variable), cwd=folder) as boxd:
        wanted["url"] = boxd.url
        wanted["headers"] = {"X-LangBot-Instance-Id": INSTANCE}
        if token:
            wanted["headers"]["X-LangBot-Box-Control-Token"] = token
        return run_script(generation, wanted, folder)


def run_script(generation, wanted, folder):
    venv = os.environ.get(f"BOX_VENV_{generation}")
    assert venv, f"BOX_VENV_{generation} must name a virtual environment"
    done = subprocess.run(
        [f"{venv}/bin/python", str(SCRIPT), json.dumps(wanted)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert "Sanitizer" not in done.stderr and "runtime error:" not in done.stderr, done.stderr
    results = json.loads(done.stdout)
    if wanted["carrier"] == "stdio":
        # After the end of stdin everything is gone within the 2 s that clients wait.
        assert results.pop("exit_code") == 0
        assert results.pop("exit_seconds") < 2.0 + boxdlib.STALL_SECONDS
    return results


GENERATIONS = ("OLD", "NEW")
WAYS = ("stdio", "websocket", "websocket+token")
SCENARIOS = {
    "connect": "BOX_BUILD",
    "sandbox": "BOX_BUILD",
    "errors": "BOX_BUILD",
    "no_backend": "BOX_RELEASE",
}


@pytest.fixture(scope="module")
def driven(request, tmp_path_factory):
    """Each scenario for each generation and transport, two at a time: futures."""
    names = {name for item in request.session.items for name in getattr(item, "fixturenames", ())}
    everything = itertools.product(GENERATIONS, WAYS, [one for one in SCENARIOS if one in names])

    def run(generation, way, name):
        folder = tmp_path_factory.mktemp(name)
        return {"folder": folder, **drive(generation, way, name, folder, SCENARIOS[name])}

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        yield {one: pool.submit(run, *one) for one in everything}
        pool.shutdown(cancel_futures=True)


@pytest.fixture(scope="module", params=GENERATIONS)
def generation(request):
    return request.param


@pytest.fixture(scope="module", params=WAYS)
def way(request):
    return request.param


def scenario(name):
    """A fixture: the results of one scenario, run once for each generation and transport."""

    @pytest.fixture(scope="module", name=name)
    def results(driven, generation, way):
        return driven[generation, way, name].result()

    return results


connect = scenario("connect")
sandbox = scenario("sandbox")
errors = scenario("errors")
no_backend = scenario("no_backend")


def test_versions(generation):
    """The environments have the generations that this file names."""
    venv = os.environ[f"BOX_VENV_{generation}"]
    code = "import importlib.metadata as m; print(m.version('langbot-plugin'))"
    done = subprocess.run(
        [f"{venv}/bin/python", "-c", code], capture_output=True, text=True, timeout=30
    )
    assert done.stdout.strip() == {"OLD": "0.5.5", "NEW": "0.7.18"}[generation]


# 1. What LangBot does first.


def test_connect(connect):
    assert connect["ping"] == {}
    assert connect["init"] is None and connect["initialize"] is None
    assert connect["connect_seconds"] < 10
    # The default workspace was created below the working folder.
    assert (connect["folder"] / "data" / "box" / "default").is_dir()


def test_backend_info(connect):
    info = connect["backend_info"]
    assert set(info) == {"name", "available"} and isinstance(info["available"], bool)


def test_status(connect):
    status = connect["status"]
    assert status["backend"] == connect["backend_info"]
    assert (status["active_sessions"], status["managed_processes"]) == (0, 0)
    assert status["session_ttl_sec"] == 300
    sent = {k: v for k, v in DEFAULT_CONFIG["limits"].items() if k != "max_workspace_entries"}
    assert sent.items() <= status["limits"].items()
    assert status["capacity"] == {"limit": 56, "used": 0, "remaining": 56}
    assert connect["sessions"] == []


def test_file(connect, generation):
    form = r"[0-9a-f]+-[0-9a-f]{32}\.zip" if generation == "OLD" else r"ft1_[0-9a-f]{64}\.zip"
    assert re.fullmatch(form, connect["file_key"])


# 2. Commands and sessions.


def test_execute(sandbox):
    echo = sandbox["echo"]
    assert isinstance(echo["duration_ms"], int)
    expected = {
        "session_id": "s",
        "backend_name": "fake",
        "status": "completed",
        "exit_code": 0,
        "stdout": "hello",
        "stderr": "",
    }
    assert expected.items() <= echo.items()
    assert sandbox["exit"]["exit_code"] == 3
    assert sandbox["signal"]["exit_code"] == 128 + 9
    assert sandbox["backend_info"] == {"name": "fake", "available": True}


def test_sessions(sandbox):
    assert sandbox["reused"] == 1
    created, got = sandbox["created"], sandbox["got"]
    assert SESSION_MEMBERS.items() <= created.items()
    for name in ("created_at", "last_used_at"):
        assert datetime.datetime.fromisoformat(created[name]).tzinfo is not None
    assert created["backend_session_id"]
    for again in (sandbox["created_again"], got):
        assert again["created_at"] == created["created_at"]
        assert SESSION_MEMBERS.items() <= again.items()
    assert sorted(one["session_id"] for one in sandbox["listed"]) == ["made", "s"]
    assert sandbox["listed_elsewhere"] == []
    assert sandbox["status"]["active_sessions"] == 2
    assert sandbox["status"]["capacity"] == {"limit": 56, "used": 2, "remaining": 54}


def test_conflict_and_delete(sandbox):
    name, text = sandbox["conflict"]
    assert name == "BoxSessionConflictError" and text.endswith("already exists with memory_mb=64")
    assert sandbox["deleted"] is None
    assert sandbox["got_deleted"][0] == "BoxSessionNotFoundError"


def test_timeout(sandbox):
    late = sandbox["timeout"]
    assert (late["status"], late["exit_code"]) == ("timed_out", None)
    assert late["stderr"] == "Command timed out after 1 seconds."
    assert 1000 <= late["duration_ms"] < 5000
    assert sandbox["after_timeout"][0] == "BoxSessionNotFoundError"


def test_side_by_side(sandbox):
    assert sandbox["side_by_side"] == [str(n) for n in range(40)]


def test_texts(sandbox):
    assert sandbox["awkward"], "awkward characters did not come back equal"
    assert sandbox["large"], "1,000,000 bytes of output did not come back equal"
    assert sandbox["long_cmd"], "a cmd of 1 MiB did not come back equal"
    assert sandbox["long_wide_cmd"], "a cmd of 1 MiB of wide characters did not come back equal"


# 3. Errors.


@pytest.mark.parametrize("name", ERROR_NAMES)
def test_error_name(errors, name):
    expected = name if name in KNOWN else "BoxError"
    assert errors["named"][name] == [expected, f"{name}: some text"]


@pytest.mark.parametrize(
    "case, name, text",
    [
        ("validation", "BoxValidationError", "BoxValidationError: cmd must not be empty"),
        ("not_found", "BoxSessionNotFoundError", r"BoxSessionNotFoundError: session \S+ not found"),
        ("conflict", "BoxSessionConflictError", r".* already exists with memory_mb=512"),
        (
            "capacity",
            "BoxCapacityExceededError",
            r"BoxCapacityExceededError: Box session capacity reached \(1\)",
        ),
        (
            "process",
            "BoxManagedProcessNotFoundError",
            r"BoxManagedProcessNotFoundError: session \S+ has no managed process .*process_id=p",
        ),
        ("process_stop", "BoxManagedProcessNotFoundError", r"BoxManagedProcessNotFoundError: .*"),
        ("process_session", "BoxSessionNotFoundError", r"BoxSessionNotFoundError: .*"),
        (
            "admission",
            "BoxAdmissionError",
            "BoxAdmissionError: Sandbox admission enforcement is not enabled",
        ),
        ("blocked", "BoxValidationError", r"BoxValidationError: host_path .* blocked for security"),
        ("stale", "BoxError", "PermissionError: Stale Box placement generation"),
        ("other_instance", "BoxError", r"PermissionError: .*"),
        (
            "readiness",
            "BoxReadinessError",
            r"BoxReadinessError: Managed sandbox isolation is not ready \(failed checks: .+\)",
        ),
        ("initialize", "BoxRuntimeUnavailableError", r"box runtime unavailable: BoxReadiness.*"),
    ],
)
def test_error_as_it_comes(errors, case, name, text):
    got, message = errors["natural"][case]
    assert got == name, message
    assert re.fullmatch(text, message), message


def test_no_backend(no_backend):
    told = no_backend["backend_info"]
    assert (told["name"], told["available"], told["asked"]) == (None, False, "docker")
    assert told["error"].startswith("no backend docker: ")
    assert "set backend to one of" in told["error"]
    for case in ("execute", "create"):
        name, text = no_backend[case]
        assert name == "BoxBackendUnavailableError", text
        assert text.startswith("BoxBackendUnavailableError: ")
