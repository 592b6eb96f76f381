"""Specs of managed processes: what is accepted unchanged, what is refused with which error, and
that a refusal does not affect running processes.
"""

import pytest

import nativelib
from relaylib import Relay, exited, info, shell, start, stop


pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.fixture(scope="module")
def client(place):
    with nativelib.dialled(place) as made:
        yield made


def test_arguments_as_they_are(client):
    words = ["", " ", "a b", "ä", "'\"$x\\", "-n", "\n"]
    start(client, "sh", "-c", 'printf "[%s]" "$@" >&2', "name", *words)
    assert exited(client)["stderr_preview"] == "".join(f"[{word}]" for word in words)
    # Together, command, args, env and cwd have a limit.
    start(client, "sh", "-c", "printf %s ${#1} >&2", "name", "x" * 60_000)
    assert exited(client)["stderr_preview"] == "60000"
    data = {"session_id": "s", "spec": {"command": "echo", "args": ["x" * 132_000]}}
    assert client.fail("box_start_managed_process", data).startswith("BoxValidationError: ")
    stop(client)


@pytest.mark.parametrize("name", ["", " a ", "n" * 101, "\u754c" * 170, "a\tb", "Error: x", "..."])
def test_ids_as_they_are(client, name):
    """It can be found by this argument, whatever it was started as."""
    start(client, "sh", "-c", "echo here; exec cat", process=name)
    assert info(client, name)["process_id"] == name
    data = {"session_id": "s", "process_id": name, "wait_ms": 20_000}
    assert client.ask("box_get_process_output", data)["data"] == "here\n"
    stop(client, name)
    answer = client.fail("box_get_managed_process", data)
    assert answer.startswith("BoxManagedProcessNotFoundError: ")


def test_an_id_that_none_can_have(client):
    start(client, "cat", process="a")
    data = {"session_id": "s", "process_id": "a\0b"}
    for action in ("box_get_managed_process", "box_stop_managed_process"):
        assert client.fail(action, data).startswith("BoxManagedProcessNotFoundError: ")
    stop(client, "a")


BAD = [
    ("command", "", "command must not be empty"),
    ("command", "a\0b", "command must not contain NUL"),
    ("args", ["a\0b"], "args must not contain NUL"),
    ("args", ["a", 1], "args.1"),
    ("cwd", "relative", "cwd must be an absolute path inside the sandbox"),
    ("cwd", "../..", "cwd must be an absolute path inside the sandbox"),
    ("cwd", "/a\0b", "cwd must not contain NUL"),
    ("env", {"A=B": "x"}, "env.A="),
    ("env", {"": "x"}, "env"),
    ("env", {"A\0B": "x"}, "env"),
    ("env", {"A": "a\0b"}, "env"),
    ("process_id", 7, "process_id"),
    ("process_id", "a\0b", "process_id must not contain NUL"),
    ("memory_mb", "much", "memory_mb"),
]


@pytest.mark.parametrize("member, value, text", BAD)
def test_bad_specs(client, member, value, text):
    """Refused with its error; the process under that id keeps running, and its reader stays
    attached."""
    start(client, "cat")
    with Relay(client.boxd) as relay:
        spec = {"command": "cat", member: value}
        answer = client.fail("box_start_managed_process", {"session_id": "s", "spec": spec})
        assert answer.startswith("BoxValidationError: ") and text in answer
        relay.send("on")
        assert relay.recv() == "on"
    stop(client)
    spec = {"command": "cat", member: value}
    assert client.fail("box_start_managed_process", {"session_id": "s", "spec": spec}) == answer
    data = {"session_id": "s", "process_id": "default"}
    assert client.fail("box_get_managed_process", data).startswith("BoxManagedProcessNotFound")


def test_folders_that_lead_out_do_not(place, client):
    """All paths are resolved in the box; nothing is above its root."""
    here = str(place.programs)
    for cwd in ("/../../..", "/workspace/../../..", "/proc/self/cwd/../.."):
        shell(client, f"pwd >&2; ls -d {here} >&2", cwd=cwd)
        shown = exited(client)["stderr_preview"].splitlines()
        assert shown[0] == "/" and "No such file" in shown[1], cwd
    # A host folder does not exist there, or is another one of the same name.
    shell(client, "ls -A >&2", cwd=f"/..{here}")
    assert "boxd" not in exited(client)["stderr_preview"]
    stop(client)


TOO_MUCH = {
    "a long argument": {"args": ["x" * 132_000]},
    "many arguments": {"args": ["x"] * 4097},
    "a long value": {"env": {"A": "x" * 132_000}},
    "many variables": {"env": {f"A{number}": "" for number in range(4097)}},
}


@pytest.mark.parametrize("what", TOO_MUCH)
def test_one_that_is_too_large_stops_no_other(client, what):
    """The process of that id keeps running, and its reader stays attached."""
    start(client, "cat")
    with Relay(client.boxd) as relay:
        spec = {"command": "cat", **TOO_MUCH[what]}
        answer = client.fail("box_start_managed_process", {"session_id": "s", "spec": spec})
        assert answer.startswith("BoxValidationError: ") and "131052 bytes together" in answer
        relay.send("on")
        assert relay.recv() == "on"
        assert info(client)["status"] == "running"
    stop(client)
