"""The `box` command: its command line, and how it works with a boxd that has the fake backend."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import threading
import time

import pytest

import parallellib
from boxdlib import ROOT, STALL_SECONDS, build, wait_until
from clientlib import INSTANCE, TOKEN
from clilib import SECONDS, box, dialled, start

NO_BOXD = (
    "box: BoxRuntimeUnavailableError: no boxd answers on 127.0.0.1:5410: "
    "start one with `boxd`, or specify one with --endpoint\n"
)


@pytest.fixture(scope="module")
def scenes(request):
    with parallellib.begun(request) as made:
        yield made


@pytest.fixture
def programs(tmp_path):
    """The programs in a folder of this test, so that their processes can be identified."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("box", "boxd", "box-rpc"):
        shutil.copy2(build() / name, folder / name)
    return folder


def running(folder):
    """The pids of everything that runs from this folder; only root sees all of them."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.readlink(entry / "exe").startswith(str(folder)):
                found.append(int(entry.name))
    return found


def assert_gone(folder):
    wait_until(lambda: not running(folder), 5, lambda: f"left: {running(folder)}")


# `box run` with a private boxd.


@pytest.mark.usefixtures("scenes")  # these mostly wait, so they run in parallel
@pytest.mark.parametrize(
    "args, expected",
    [
        (["echo hi"], (0, "hi\n", "")),
        (["--", "echo hi"], (0, "hi\n", "")),
        (["echo", "hi"], (0, "hi\n", "")),
        (["true"], (0, "", "")),
        (["exit 3"], (3, "", "")),
        (["exit", "127"], (127, "", "")),
        (["exit 126"], (126, "", "")),
        (["signal 9"], (137, "", "")),
        (["signal 15"], (143, "", "")),
        (
            ["--timeout", "1", "sleep 5000"],
            (124, "", "box: the command timed out after 1 s\n"),
        ),
        (["fail BoxError it broke"], (125, "", "box: BoxError: it broke\n")),
        (
            ["fail BoxBackendUnavailableError none\there"],
            (125, "", "box: BoxBackendUnavailableError: none here\n"),
        ),
    ],
)
def test_run(args, expected):
    assert box("run", *args) == expected


@pytest.mark.parametrize(
    "args, line",
    [
        (["echo $HOME 'a' | b"], "$HOME 'a' | b"),
        (["echo", "$HOME", "'a'", "|", "b"], "'$HOME' ''\\''a'\\''' '|' b"),
        (["echo", "", "a b", "-n"], "'' 'a b' -n"),
        (["echo", "--timeout=1", "-v"], "'--timeout=1' -v"),
        (["--", "echo", "--", "-v"], "-- -v"),
    ],
)
def test_words_reach_the_shell_exactly(args, line):
    assert box("run", *args) == (0, line + "\n", "")


def test_run_takes_another_port_and_tells_nobody_its_secrets(programs):
    code, out, err = box("run", "-v", "echo", "hi", programs=programs)
    assert (code, out) == (0, "hi\n")
    assert " listening " in err and "port=5410" not in err
    assert_gone(programs)


@pytest.mark.skipif(not ROOT, reason="only root sees what boxd's processes run")
def test_run_leaves_nothing(programs):
    assert box("run", "echo", "hi", programs=programs)[0] == 0
    assert running(programs) == []


@pytest.mark.skipif(not ROOT, reason="only root sees what boxd's processes run")
@pytest.mark.parametrize("number, code", [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_a_signal_ends_run_and_all_of_it(programs, number, code):
    process = start("run", "sleep", "60000", programs=programs)
    wait_until(lambda: len(running(programs)) == 3, what="box, boxd and box-rpc run")
    time.sleep(0.5)
    began = time.monotonic()
    process.send_signal(getattr(signal, number))
    assert process.wait(SECONDS) == code
    assert process.communicate() == (b"", b"")
    assert time.monotonic() - began < 4 + STALL_SECONDS
    assert running(programs) == []


@pytest.mark.skipif(not ROOT, reason="only root sees what boxd's processes run")
def test_boxd_goes_when_box_is_killed(programs):
    process = start("run", "sleep", "60000", programs=programs)
    wait_until(lambda: len(running(programs)) == 3, what="box, boxd and box-rpc run")
    process.kill()
    process.communicate(timeout=SECONDS)
    assert_gone(programs)


def test_a_boxd_that_does_not_start_is_explained():
    env = {"LANGBOT_BOX_CONFIG": json.dumps({"backend": "fake", "limits": {"max_sessions": -1}})}
    code, out, err = box("run", "true", env=env)
    assert (code, out) == (125, "")
    *log, last = err.splitlines()
    assert last == "box: BoxRuntimeUnavailableError: boxd ended with code 78"
    assert any("max_sessions must be between 0 and 5000" in line for line in log), err


def test_a_missing_boxd_is_named(tmp_path):
    if any(pathlib.Path(folder, "boxd").exists() for folder in ("/usr/local/bin", "/usr/bin")):
        pytest.skip("a boxd is installed")
    shutil.copy2(build() / "box", tmp_path / "box")
    expected = "boxd was not found next to this program, where it is installed, or on PATH"
    options = {"programs": tmp_path, "env": {"PATH": "/nonexistent"}}
    assert box("run", "true", **options) == (
        125,
        "",
        f"box: BoxRuntimeUnavailableError: {expected}\n",
    )
    # A boxd in the working folder must not be used.
    (tmp_path / "empty").mkdir()
    shutil.copy2(build() / "boxd", tmp_path / "empty" / "boxd")
    options["env"] = {"PATH": ":."}
    assert expected in box("run", "true", cwd=tmp_path / "empty", **options)[2]


def test_run_gives_its_boxd_a_configuration(tmp_path):
    (tmp_path / "good.yaml").write_text("session_ttl_sec: 60\n")
    (tmp_path / "bad.yaml").write_text("local:\n  seccomp: none\n")
    good, bad = str(tmp_path / "good.yaml"), str(tmp_path / "bad.yaml")
    assert box("run", "--config", good, "echo", "hi") == (0, "hi\n", "")
    code, out, told = box("run", "--config", bad, "echo", "hi")
    assert (code, out) == (125, "") and "local.seccomp must be" in told
    code, out, told = box("run", "--config", good, "--endpoint", "ws://127.0.0.1:1", "true")
    assert (code, out) == (125, "") and "--config is for a boxd that box starts" in told


@pytest.mark.parametrize("option", ["--config", "--backend"])
def test_run_changes_no_runtime_that_others_use(boxd, option):
    """Also one that only the environment names: boxes of others would get this backend."""
    code, out, told = box("run", option, "native", "true", env={"BOX_ENDPOINT": boxd.url})
    assert (code, out) == (125, "") and f"{option} is for a boxd that box starts" in told


def test_boxd_is_found_on_path(tmp_path):
    shutil.copy2(build() / "box", tmp_path / "box")
    env = {"PATH": f"/nonexistent:{build()}"}
    assert box("run", "echo", "hi", programs=tmp_path, env=env) == (0, "hi\n", "")


def test_run_removes_its_box_from_a_shared_runtime(boxd):
    for cmd, code in (("echo hi", 0), ("exit 4", 4), ("fail BoxError x", 125)):
        assert dialled(boxd, "run", cmd)[0] == code
    assert dialled(boxd, "ls", "--json") == (0, "[]\n", "")


def test_a_signal_removes_the_box_from_a_shared_runtime(boxd):
    process = start("run", "--endpoint", boxd.url, "sleep 60000", private=False)

    def running():
        listed = json.loads(dialled(boxd, "ls", "--json")[1])
        return listed and listed[0]["status"] == "running"

    wait_until(running, what="a box with a command")
    process.send_signal(signal.SIGINT)
    assert process.wait(SECONDS) == 130
    process.communicate()
    assert dialled(boxd, "ls", "--json") == (0, "[]\n", "")


# create, exec, ls, rm.


def test_a_box_from_its_start_to_its_end(boxd):
    assert dialled(boxd, "create", "my box") == (0, "my-box\n", "")
    code, out, err = dialled(boxd, "ls")
    head, line = out.splitlines()
    assert (code, err) == (0, "")
    assert head.split() == ["NAME", "STATUS", "NETWORK", "MEMORY", "CPUS", "CREATED"]
    assert line.split()[:6] == ["my-box", "idle", "off", "512", "MB", "1"]
    assert dialled(boxd, "exec", "my box", "--", "echo", "a b") == (0, "'a b'\n", "")
    assert dialled(boxd, "exec", "my-box", "exit 9") == (9, "", "")
    assert dialled(boxd, "rm", "my-box") == (0, "my-box\n", "")
    assert dialled(boxd, "ls", "--json") == (0, "[]\n", "")


def test_create_asks_for_what_it_was_told(boxd):
    options = ["--network=on", "--memory", "64", "--cpus=.5", "--pids", "9", "--writable-root"]
    assert dialled(boxd, "create", *options, "n") == (0, "n\n", "")
    (session,) = json.loads(dialled(boxd, "ls", "--json")[1])
    asked = {"network": "on", "memory_mb": 64, "cpus": 0.5, "pids_limit": 9}
    asked |= {"read_only_rootfs": False, "persistent": True, "session_id": "n"}
    assert {key: session[key] for key in asked} == asked
    # A command in it does not conflict with its limits, either.
    assert dialled(boxd, "exec", "n", "echo hi") == (0, "hi\n", "")


def test_errors_have_their_names(boxd):
    assert dialled(boxd, "create", "n")[0] == 0
    code, out, err = dialled(boxd, "create", "n", "--memory=64")
    assert (code, out) == (125, "")
    said = "Box session n already exists with memory_mb=512"
    assert err == f"box: BoxSessionConflictError: {said}\n"
    for args in (["exec", "gone", "true"], ["rm", "gone"]):
        code, out, err = dialled(boxd, *args)
        assert (code, out) == (125, "")
        assert err == "box: BoxSessionNotFoundError: session gone not found\n"
    code, out, err = dialled(boxd, "create", "m", "--memory=31")
    assert (code, out, err.count("\n")) == (125, "", 1)
    assert err.startswith("box: BoxValidationError: ")
    assert "memory_mb must be at least 32" in err


def test_rm_goes_on_after_a_failure(boxd):
    for name in "abc":
        assert dialled(boxd, "create", name)[0] == 0
    code, out, err = dialled(boxd, "rm", "a", "gone", "c")
    assert (code, out) == (125, "a\nc\n")
    assert err.startswith("box: BoxSessionNotFoundError: ") and err.count("\n") == 1
    assert [one["session_id"] for one in json.loads(dialled(boxd, "ls", "--json")[1])] == ["b"]


def test_workspaces_are_apart(boxd):
    assert dialled(boxd, "create", "n", "--workspace=one")[0] == 0
    assert dialled(boxd, "ls", "--json", "--workspace=two") == (0, "[]\n", "")
    assert len(json.loads(dialled(boxd, "ls", "--json", "--workspace=one")[1])) == 1


def test_output_that_nobody_reads_is_an_error(boxd):
    options = {"private": False, "env": {"BOX_ENDPOINT": boxd.url}}
    with open("/dev/full", "w") as full:
        for args in (["ls"], ["ls", "--json"], ["create", "n"], ["--help"]):
            expected = (125, "", "box: stdout: No space left on device\n")
            assert box(*args, stdout=full, **options) == expected


# How the runtime is chosen.


def test_the_endpoint_comes_from_the_option_first(boxd):
    nowhere = "ws://127.0.0.1:1"
    assert box("ls", private=False, env={"BOX_ENDPOINT": boxd.url})[0] == 0
    assert box("--endpoint", boxd.url, "ls", private=False, env={"BOX_ENDPOINT": nowhere})[0] == 0
    code, _, err = box("ls", private=False, env={"BOX_ENDPOINT": nowhere})
    refused = "box: BoxRuntimeUnavailableError: 127.0.0.1:1: Connection refused\n"
    assert (code, err) == (125, refused)
    assert box("run", "true", private=False, env={"BOX_ENDPOINT": nowhere})[::2] == (125, refused)


@pytest.mark.parametrize("args", [["ls"], ["create", "n"], ["rm", "n"], ["exec", "n", "true"]])
def test_without_a_runtime_it_says_how_to_start_one(args):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", 5410), 1):
        pytest.skip("something listens on 127.0.0.1:5410")
    assert box(*args, private=False) == (125, "", NO_BOXD)


def test_token_and_instance(locked):
    url = locked.url

    def ls(*args, **env):
        code, out, err = box("ls", "--json", f"--endpoint={url}", *args, private=False, env=env)
        assert TOKEN not in err
        return code, out, err

    address = url.removeprefix("ws://").split("/")[0]
    text = "LANGBOT_BOX_CONTROL_TOKEN is missing or wrong, or the runtime serves another instance than"
    refusal = f'box: PermissionError: {address} denied access (401): {text} "%s"\n'
    token = {"LANGBOT_BOX_CONTROL_TOKEN": TOKEN}
    instance = {"LANGBOT_BOX_TRUSTED_INSTANCE_UUID": INSTANCE}
    assert ls(**token, **instance) == (0, "[]\n", "")
    assert ls(f"--instance={INSTANCE}", **token) == (0, "[]\n", "")
    assert ls(**instance) == (125, "", refusal % INSTANCE)
    assert ls(**token) == (125, "", refusal % "box")
    wrong = {"LANGBOT_BOX_CONTROL_TOKEN": TOKEN + "x"}
    assert ls(**wrong, **instance) == (125, "", refusal % INSTANCE)
    broken = {"LANGBOT_BOX_CONTROL_TOKEN": "a\r\nHost: b"}
    code, _, err = ls(**broken)
    assert (code, err) == (
        125,
        "box: the instance id or the token has characters that an HTTP header cannot carry\n",
    )


@pytest.mark.parametrize(
    "answer, why",
    [
        (b"SSH-2.0-OpenSSH\r\n", "%s is not a boxd: it does not speak HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\n\r\n", "%s answered 200 where boxd would open a WebSocket"),
        (b"HTTP/1.1 101 X\r\n\r\n", "%s is not a boxd: it does not upgrade to WebSocket"),
        (b"", "%s closed the connection without an answer"),
    ],
)
def test_other_servers_are_told_apart(answer, why):
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            peer, _ = listener.accept()
            with peer:
                peer.recv(65536)
                peer.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        address = "127.0.0.1:%d" % listener.getsockname()[1]
        code, out, err = box("ls", f"--endpoint=ws://{address}", private=False)
        thread.join(10)
    name = "BoxRuntimeUnavailableError"
    assert (code, out, err) == (125, "", f"box: {name}: {why % address}\n")


@parallellib.scene
def test_a_server_that_says_nothing_is_given_up():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = "127.0.0.1:%d" % listener.getsockname()[1]
        code, _, err = box("ls", f"--endpoint=ws://{address}", private=False)
    assert (code, err) == (125, f"box: BoxRuntimeUnavailableError: {address} does not answer\n")


def test_a_worker_that_dies_takes_the_command_with_it(boxd):
    process = start("run", "--endpoint", boxd.url, "sleep 60000", private=False)
    wait_until(lambda: json.loads(dialled(boxd, "ls", "--json")[1]), what="a box")
    boxd.kill_worker()
    out, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, out) == (125, b"")
    assert err == b"box: BoxRuntimeUnavailableError: the runtime closed the connection\n"
    boxd.wait_served(2)


# The command line.


@pytest.mark.parametrize(
    "args, line",
    [
        ([], "no command (see box --help)"),
        (["rum"], "unknown command rum, did you mean run? (see box --help)"),
        (["frobnicate"], "unknown command frobnicate (see box --help)"),
        (["--versoin"], "unknown option --versoin (did you mean --version?)"),
        (["-x", "run"], "unknown option -x"),
        (["run"], "run: no command (see box run --help)"),
        (["run", "--"], "run: no command (see box run --help)"),
        (["run", "--memroy", "5", "x"], "unknown option --memroy (did you mean --memory?)"),
        (["run", "--netwrk=on", "x"], "unknown option --netwrk (did you mean --network?)"),
        (["run", "--json", "x"], "unknown option --json"),
        (["run", "--memory"], "--memory: needs a value"),
        (["run", "--writable-root=1", "x"], "--writable-root: takes no value"),
        (["run", "--network", "maybe", "x"], '--network: "maybe" is not on or off'),
        (
            ["run", "--memory", "1g", "x"],
            '--memory: "1g" is not a whole number from 1 to 2147483647',
        ),
        (["run", "--pids=0", "x"], '--pids: "0" is not a whole number from 1 to 2147483647'),
        (
            ["run", "--timeout=99999999999999999999", "x"],
            '--timeout: "99999999999999999999" is not a whole number from 1 to 2147483647',
        ),
        (["run", "-it", "x"], "the input device is not a TTY"),
        (["exec", "-ti", "a"], "the input device is not a TTY"),
        (["exec", "-t", "a"], "exec: expected NAME CMD [ARG]... (see box exec --help)"),
        (["exec", "-i", "a"], "exec: expected NAME CMD [ARG]... (see box exec --help)"),
        (["run", "-i"], "run: no command (see box run --help)"),
        (["run", "-ix", "a"], "unknown option -x"),
        (["run", "-it=1", "a"], "unknown option -it"),
        (["create", "-it", "a"], "unknown option -i"),
        (["run", "--cpus=-1", "x"], '--cpus: "-1" is not a number greater than 0'),
        (["run", "--cpus=inf", "x"], '--cpus: "inf" is not a number greater than 0'),
        (["run", "--cpus=1.2.3", "x"], '--cpus: "1.2.3" is not a number greater than 0'),
        (["run", "--workdir=", "x"], "--workdir: must not be empty"),
        (["run", "--env==x", "x"], '--env: "=x" is not NAME or NAME=VALUE'),
        (["run", b"\xff"], "the command: not valid UTF-8"),
        (["run", b"--env=A=\xff", "x"], "--env: not valid UTF-8"),
        (["run", b"--a\xffb\xc3\xa9\xc3", "x"], "unknown option --a?b\u00e9?"),
        (
            ["run", "--cpus=1" + "\u00e4" * 60, "x"],
            '--cpus: "1' + "\u00e4" * 49 + '?" is not a number greater than 0',
        ),
        (["create"], "create: expected one NAME (see box create --help)"),
        (["create", "a", "b"], "create: expected one NAME (see box create --help)"),
        (["create", "a", "--env=A=b"], "unknown option --env"),
        (["exec", "a"], "exec: expected NAME CMD [ARG]... (see box exec --help)"),
        (["exec", "a", "--memory=64", "x"], "unknown option --memory"),
        (["ls", "a"], "ls: takes no arguments (see box ls --help)"),
        (["rm"], "rm: expected at least one NAME (see box rm --help)"),
        (["ls", "--endpoint=h:1"], 'endpoint "h:1": must begin with ws://, http:// or unix:'),
    ]
    + [
        (
            ["run", f"--mount={text}", "x"],
            f'--mount: "{text}" is not HOST:BOX[:ro|rw] with an absolute BOX',
        )
        for text in ("/a", ":/b", "/a:b", "/a:/b:rx", "/a:/b:ro:rw", "/a:/b:")
    ],
)
def test_misuse_is_one_line(args, line):
    assert box(*args, private=False) == (125, "", f"box: {line}\n")


@pytest.mark.parametrize(
    "args",
    [
        ["ls", b"--workspace=\xff"],
        ["rm", b"\xff"],
        ["exec", b"\xff", "true"],
        ["start", "n", b"--name=\xff", "true"],
        ["run", "--env=PASSED", "true"],
    ],
)
def test_text_that_is_no_utf8_is_refused_at_once(shared, args):
    env = {**os.environ, "LANGBOT_BOX_TRUSTED_INSTANCE_UUID": INSTANCE, "PASSED": b"\xff"}
    line = "box: a text in the request is not valid UTF-8\n"
    assert dialled(shared, *args, env=env) == (125, "", line)


def test_a_line_of_error_cannot_steer_a_terminal():
    code, _, err = box("run", "--\x1b[31mx\ny", private=False)
    assert (code, err) == (125, "box: unknown option -- [31mx y\n")


def test_help_and_version():
    assert box("--version", private=False) == (0, "box 0.2.0\n", "")
    code, out, err = box("--help", private=False)
    assert (code, err) == (0, "") and out.startswith("Usage: box [OPTION]... COMMAND")
    for command in ("run", "create", "exec", "ls", "rm"):
        assert f"\n  {command} " in out
        for flag in ("--help", "-h"):
            code, text, err = box(command, flag, private=False)
            assert (code, err) == (0, "") and text.startswith(f"Usage: box {command} ")
        assert max(map(len, text.splitlines())) <= 80
