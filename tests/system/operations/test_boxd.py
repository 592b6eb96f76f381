"""boxd from outside: its command line, what it passes to its worker, and the worker's privileges.

tests/drivers/fake_rpc.c is in place of box-rpc. What only root can see is skipped for others.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile

import pytest

from boxdlib import ROOT, is_alive, wait_until
from fakerpclib import (
    FLAG_FILE,
    FLAG_HOST,
    FLAG_ROOTS,
    FLAG_SOFT,
    FLAG_VARIABLE,
    FakeRpcBoxd,
    has_ipv6,
    run,
)

TOKEN = "t0ken-" * 8


# The command line.


def test_version_and_help(programs):
    version = run(programs, "--version")
    assert (version.returncode, version.stderr) == (0, "")
    assert re.fullmatch(r"boxd \S+\n", version.stdout)
    for flag in ("-h", "--help"):
        usage = run(programs, flag)
        assert (usage.returncode, usage.stderr) == (0, "")
        for word in ("--stdio-control", "--ws-control-port", "LANGBOT_BOX_CONTROL_TOKEN"):
            assert word in usage.stdout


@pytest.mark.parametrize(
    "args, text",
    [
        (["--ws-control-port", "70000"], '--ws-control-port: "70000" is not a valid port (0 to 65535)'),
        (["--log-level", "x"], '--log-level: "x" is not a valid level (debug, info, warning, error)'),
        (["--log-format", "x"], '--log-format: "x" is not a valid format (text, json)'),
        (["-s", "--standalone-box"], "--standalone-box: not together with --stdio-control"),
        (["--bogus"], "--bogus: no such flag (see boxd --help)"),
        (["serve"], '"serve": no argument is expected (see boxd --help)'),
        (["--config", "/nowhere/x"], "--config: /nowhere/x: No such file or directory"),
        (["--config", "/dev"], "--config: /dev: neither a regular file nor a pipe"),
    ],
)
def test_wrong_command_line(programs, args, text):
    result = run(programs, *args)
    assert (result.returncode, result.stdout, result.stderr) == (2, "", f"boxd: {text}\n")


# What boxd passes on.


def test_start_carries_everything(start_boxd, tmp_path):
    (tmp_path / "box.yaml").write_text("from: file\n")
    boxd = start_boxd(
        "--config=box.yaml",
        "--log-level=debug",
        "--host=127.0.0.1",
        cwd=tmp_path,
        env={
            "LANGBOT_BOX_CONTROL_TOKEN": TOKEN,
            "LANGBOT_BOX_TRUSTED_INSTANCE_UUID": "instance-1",
            "LANGBOT_BOX_CONFIG": '{"from": "variable"}',
            "LANGBOT_BOX_ALLOW_UNSAFE_SOFT_STORAGE_LIMITS": "yes",
        },
    )
    with boxd.connect() as peer:
        start = peer.ask_all("start")
    expected = {
        "flags": str(FLAG_FILE | FLAG_VARIABLE | FLAG_HOST | FLAG_SOFT | FLAG_ROOTS),
        "restarts": "0",
        "log_level": "0",
        "log_format": "1",
        "config_path": "box.yaml",
        "working_folder": str(tmp_path),
        "token": TOKEN,
        "instance": "instance-1",
        "file": "from: file",
        "variable": '{"from": "variable"}',
        "listeners": "1",
        "reloads": "0",
        "reload": "-",
    }
    assert start == expected


def test_texts_are_given_to_every_instance(start_boxd, tmp_path):
    (tmp_path / "c").write_text("one\n")
    boxd = start_boxd("--config", str(tmp_path / "c"), env={"LANGBOT_BOX_CONFIG": "{}"})
    with boxd.connect() as peer:
        (tmp_path / "c").write_text("two\n")
        os.kill(peer.pid, signal.SIGKILL)
    boxd.wait_event("worker.started", 2)
    with boxd.connect() as peer:
        start = peer.ask_all("start")
    assert (start["file"], start["variable"], start["restarts"]) == ("one", "{}", "1")


@pytest.mark.parametrize("taken", [False, True])
def test_only_a_text_that_was_taken_is_given_to_a_successor(start_boxd, tmp_path, taken):
    (tmp_path / "c").write_text("one\n")
    boxd = start_boxd("--config", str(tmp_path / "c"))
    with boxd.connect() as peer:
        (tmp_path / "c").write_text("two\n")
        boxd.signal(signal.SIGHUP)
        wait_until(lambda: peer.ask_all("start")["reload"] == "two")
        if taken:
            assert peer.ask("taken") == "ok"
        os.kill(peer.pid, signal.SIGKILL)
    boxd.wait_event("worker.started", 2)
    with boxd.connect() as peer:
        assert peer.ask_all("start")["file"] == ("two" if taken else "one")


def test_long_values_are_cut_so_that_it_shows(start_boxd):
    boxd = start_boxd(
        env={
            "LANGBOT_BOX_CONTROL_TOKEN": "x" * 9000,
            "LANGBOT_BOX_TRUSTED_INSTANCE_UUID": "y" * 9000,
        }
    )
    with boxd.connect() as peer:
        start = peer.ask_all("start")
    assert start["token"] == "x" * 4097
    assert start["instance"] == "y" * 257


def test_config_from_a_pipe_is_read_once(start_boxd):
    read_end, write_end = os.pipe()
    os.write(write_end, b"piped\n")
    os.close(write_end)
    boxd = start_boxd("--config", f"/dev/fd/{read_end}", pass_fds=[read_end])
    os.close(read_end)
    with boxd.connect() as peer:
        assert peer.ask_all("start")["file"] == "piped"
        boxd.signal(signal.SIGHUP)
        assert "a pipe cannot be read again" in boxd.wait_event("reload.failed")["why"]
        os.kill(peer.pid, signal.SIGKILL)
    boxd.wait_event("worker.started", 2)
    with boxd.connect() as peer:
        assert peer.ask_all("start")["file"] == "piped"


@pytest.mark.skipif(not ROOT, reason="only root may look at a process that is not dumpable")
def test_token_is_in_no_environment(start_boxd):
    boxd = start_boxd(env={"LANGBOT_BOX_CONTROL_TOKEN": TOKEN})
    with boxd.connect() as peer:
        assert peer.ask_all("start")["token"] == TOKEN
        assert pathlib.Path(f"/proc/{peer.pid}/environ").read_bytes() == b""
        assert pathlib.Path(f"/proc/{peer.pid}/cmdline").read_bytes() == b"box-rpc\0"
    assert TOKEN.encode() not in pathlib.Path(f"/proc/{boxd.pid}/environ").read_bytes()
    assert TOKEN not in "".join(boxd.lines)


def test_boxd_is_not_dumpable(programs):
    """Checked by the owner of its files in /proc, which is then root and not boxd's own user."""
    with tempfile.TemporaryDirectory(dir="/tmp") as reachable:
        os.chmod(reachable, 0o755)
        for program in programs.iterdir():
            shutil.copy(program, reachable)
        user = {"user": 65534, "group": 65534, "extra_groups": []} if ROOT else {}
        boxd = FakeRpcBoxd(programs=pathlib.Path(reachable), **user)
        try:
            with boxd.connect() as peer:
                uid = int(peer.ask_all("ids")["uid"].split()[0])
            assert uid == (65534 if ROOT else os.getuid())
            assert os.stat(f"/proc/{boxd.pid}/mem").st_uid == 0
        finally:
            boxd.stop()


# The worker's privileges.


def check_no_rights(ids, bounding="0000000000000000"):
    for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        assert ids[name] == "0000000000000000", name
    assert ids["CapBnd"] == bounding
    assert ids["NoNewPrivs"] == "1"


def test_worker_is_confined(start_boxd):
    stray = os.open("/etc/passwd", os.O_RDONLY)
    boxd = start_boxd(pass_fds=[stray], env={"SOME": "thing"})
    os.close(stray)
    with boxd.connect() as peer:
        ids = peer.ask_all("ids")
    own_bounding = re.search(
        r"CapBnd:\s*(\w+)", pathlib.Path("/proc/self/status").read_text()
    ).group(1)
    check_no_rights(ids, "0000000000000000" if ROOT else own_bounding)
    assert ids["environ"] == "0"
    assert ids["cwd"] == "/"
    assert ids["umask"] == "077"
    assert ids["core"] == "0"
    soft, hard = map(int, ids["nofile"].split())
    assert soft >= min(hard, 65536)
    assert ids["sid"] == ids["pgid"] == ids["pid"]
    assert ids["ppid"] == str(boxd.pid)
    assert ids["SigBlk"] == "0000000000000000"
    assert ids["sigpipe"] == "default"
    fds = dict(entry.split(":", 1) for entry in ids["fds"].rstrip(",").split(","))
    listeners = 2 if has_ipv6() else 1
    # boxd, the connection that asks, and the socket that tells which user a connection belongs to.
    assert list(fds.values()) == ["/dev/null", "pipe", "pipe"] + ["socket"] * (3 + listeners)
    assert list(fds) == [str(fd) for fd in range(6 + listeners)]


def test_worker_ids(start_boxd):
    boxd = start_boxd(**({"extra_groups": [4711, 4712]} if ROOT else {}))
    with boxd.connect() as peer:
        ids = peer.ask_all("ids")
    uids, gids = set(ids["uid"].split()), set(ids["gid"].split())
    assert len(uids) == 1 and len(gids) == 1
    uid, gid = int(uids.pop()), int(gids.pop())
    if not ROOT:
        assert (uid, gid) == (os.getuid(), os.getgid())
        return
    import pwd

    assert ids["Groups"] == ""
    try:
        account = pwd.getpwnam("box-rpc")
        assert (uid, gid) == (account.pw_uid, account.pw_gid)
    except KeyError:
        assert uid == gid
        assert 0xF0010000 + boxd.pid % 4000 <= uid < 0xF0020000
        with pytest.raises(KeyError):
            pwd.getpwuid(uid)


def test_worker_in_a_namespace_with_one_id(start_boxd):
    unshare = ["unshare", "--user", "--map-root-user"]
    if subprocess.run([*unshare, "true"], capture_output=True).returncode != 0:
        pytest.skip("no user namespaces here")
    boxd = start_boxd(before=unshare)
    with boxd.connect() as peer:
        ids = peer.ask_all("ids")
    assert ids["uid"] == "0 0 0"
    check_no_rights(ids)
    assert boxd.wait_event("worker.same_uid")["level"] == "warning"


def test_missing_worker(programs, start_boxd):
    (programs / "box-rpc").unlink()
    boxd = start_boxd()
    assert boxd.wait() == 1
    assert "boxd: box-rpc is neither beside boxd nor installed" in "".join(boxd.lines)


def test_failed_step_is_named(programs, start_boxd):
    (programs / "box-rpc").write_text("no program\n")
    (programs / "box-rpc").chmod(0o755)
    boxd = start_boxd()
    assert boxd.wait() == 1
    why = boxd.wait_event("worker.start_failed")["why"]
    assert why == "box-rpc cannot start: exec: Exec format error"


def test_worker_ends_with_boxd(start_boxd):
    boxd = start_boxd()
    with boxd.connect() as peer:
        assert peer.ask("stubborn") == "ok"
        boxd.process.kill()
        wait_until(lambda: not is_alive(peer.pid), what="the end of the worker")
