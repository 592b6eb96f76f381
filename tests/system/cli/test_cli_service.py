"""`box status` and `box profiles`: as text and as JSON, with and without a runtime."""

import json
import socket

import pytest

import boxdlib
from clilib import box, dialled

ALONE = {"private": False, "env": {"LANGBOT_BOX_CONFIG": ""}}
BUILT_IN = ["default", "network_basic", "network_extended", "offline", "offline_readonly"]
OWN = """
local:
  profile: mine
  profiles:
    mine:
      base: network_basic
      memory_mb: "2048"
      locked: network, memory_mb
"""


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text(OWN)
    return str(path)


def lines(text):
    """{first word: rest} of a table without a header."""
    return dict(line.split(None, 1) for line in text.splitlines())


# -- profiles


def test_profiles_are_listed():
    code, out, err = box("profiles", **ALONE)
    assert (code, err) == (0, "")
    head, *rows = out.splitlines()
    assert head.split() == "NAME NETWORK MEMORY CPUS PIDS ROOT FILES TIMEOUT/MAX LOCKED".split()
    assert [row.split()[0] for row in rows] == BUILT_IN
    assert rows[4].split()[1:9] == ["off", "256", "MB", "0.5", "64", "ro", "ro", "30/60"]
    assert rows[4].endswith("network, host_path_mode, read_only_rootfs")
    assert rows[0].endswith(" -")
    code, out, err = box("profiles", "--json", **ALONE)
    assert [one["name"] for one in json.loads(out)] == BUILT_IN
    assert json.loads(out)[0]["network"] == "on" and json.loads(out)[0]["built_in"] is True


def test_one_profile_of_the_operators_own(own):
    code, out, err = box("profiles", "--config", own, "mine", **ALONE)
    assert (code, err) == (0, "")
    told = lines(out)
    assert told["memory_mb"] == "2048" and told["locked"] == "network, memory_mb"
    assert told["built_in"] == "false" and told["network"] == "on"
    code, out, err = box("profiles", "--config", own, "--json", "mine", **ALONE)
    assert json.loads(out)["locked"] == ["network", "memory_mb"]
    code, out, err = box("profiles", "--config", own, "--json", **ALONE)
    assert [one["name"] for one in json.loads(out)] == [BUILT_IN[0], "mine", *BUILT_IN[1:]]


def test_where_profiles_are_read(tmp_path):
    variable = {"LANGBOT_BOX_CONFIG": json.dumps({"local": {"profiles": {"v": {}}}})}
    assert lines(box("profiles", "v", private=False, env=variable)[1])["name"] == "v"
    # In a file of LangBot's the map is a section.
    path = tmp_path / "config.yaml"
    path.write_text(json.dumps({"api": {"port": 1}, "box": {"local": {"profiles": {"f": {}}}}}))
    out = box("profiles", "--config", str(path), "f", private=False, env=variable)[1]
    assert lines(out)["name"] == "f"


@pytest.mark.parametrize(
    "text, args, says",
    [
        ("{}", ["nope"], f"unknown box profile 'nope', available profiles: {', '.join(BUILT_IN)}"),
        ("{}", ["a", "b"], "profiles: expected at most one PROFILE (see box profiles --help)"),
        ("a: [", [], ":2:1: "),
        ("local: {profiles: {m: {memory_mb: 1}}}", [], "memory_mb must be at least 32"),
        ("local: {profiles: {m: {lokced: []}}}", [], "lokced Extra inputs are not permitted"),
        (None, [], "No such file or directory"),
    ],
)
def test_profiles_that_are_wrong(tmp_path, text, args, says):
    path = tmp_path / "config.yaml"
    if text is not None:
        path.write_text(text)
    code, out, err = box("profiles", "--config", str(path), *args, **ALONE)
    assert (code, out) == (125, "") and says in err and err.count("\n") == 1, err


# -- status


def test_status_well(boxd):
    code, out, err = dialled(boxd, "status")
    assert (code, err) == (0, "")
    told = lines(out)
    assert told["state"] == "healthy" and told["backend"] == "fake" and told["profile"] == "default"
    # The share of one workspace, out of 64 for all.
    assert told["boxes"] == "0, limit 56, 56 free"
    assert told["runtime"] == boxd.url and "exec_tty" in told["features"]
    assert dialled(boxd, "create", "one")[0] == 0
    code, out, err = dialled(boxd, "status", "--json")
    answer = json.loads(out)
    assert (code, answer["state"]) == (0, "well")
    assert answer["available"] is True and answer["enabled"] is True
    assert answer["active_sessions"] == 1 and answer["backend"]["available"] is True
    assert "connector_error" not in answer


def test_status_without_a_backend(tmp_path):
    with boxdlib.Boxd(cwd=tmp_path, config={"backend": "docker"}) as boxd:
        code, out, err = dialled(boxd, "status")
        told = lines(out)
        assert (code, err, told["state"]) == (1, "", "no_backend")
        assert told["reason"] and told["backend"].endswith("not available")
        assert json.loads(dialled(boxd, "status", "--json")[1])["available"] is False


def test_status_unreachable_and_disabled(tmp_path, own):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens
        url = f"ws://127.0.0.1:{taken.getsockname()[1]}"
        code, out, err = box("status", "--endpoint", url, "--config", own, **ALONE)
        told = lines(out)
        assert (code, err, told["state"], told["profile"]) == (1, "", "unreachable", "mine")
        assert told["reason"] and told["runtime"] == url and "backend" not in told
        # Named by the file itself.
        path = tmp_path / "box.json"
        path.write_text(json.dumps({"runtime": {"endpoint": url}}))
        out = box("status", "--config", str(path), "--json", **ALONE)[1]
        assert json.loads(out)["endpoint"] == url
    path.write_text(json.dumps({"enabled": False, "runtime": {"endpoint": url}}))
    code, out, err = box("status", "--config", str(path), **ALONE)
    assert (code, err, lines(out)["state"]) == (1, "", "disabled")
    assert "box.enabled = false" in lines(out)["reason"] and "runtime" not in lines(out)


def test_status_changes_nothing(boxd, tmp_path):
    before = json.loads(dialled(boxd, "status", "--json")[1])
    path = tmp_path / "box.json"
    path.write_text(json.dumps({"session_ttl_sec": 7, "backend": "docker"}))
    after = json.loads(dialled(boxd, "status", "--json", "--config", str(path))[1])
    assert before == after


def test_status_takes_no_words():
    says = "box: status: takes no arguments (see box status --help)\n"
    assert box("status", "x", **ALONE) == (125, "", says)
