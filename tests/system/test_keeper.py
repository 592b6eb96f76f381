"""boxd from outside, with tests/unit/fake_rpc.c in the place of box-rpc.

BOX_BUILD is the build folder: boxd and fake_rpc are somewhere in it. Runs as root and as a plain
user; what only root can see is skipped for the other.
"""

import errno
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

import pytest

ROOT = os.geteuid() == 0
FLAG_STDIO, FLAG_FILE, FLAG_VARIABLE, FLAG_STATE, FLAG_CHECK, FLAG_HOST, FLAG_SOFT = (
    1 << bit for bit in range(7)
)
FLAG_WIDE_OPEN = 1 << 7
TOKEN = "t0ken-" * 8


def find_program(name):
    build = pathlib.Path(os.environ["BOX_BUILD"])
    found = [path for path in sorted(build.rglob(name)) if path.is_file()]
    assert found, f"no {name} in {build}"
    return found[0]


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
        return True
    except OSError:
        return False


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def is_alive(pid):
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        return state not in "ZX"
    except FileNotFoundError:
        return False


def wait_until(condition, seconds=5.0, what="condition"):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.005)
    raise AssertionError(f"not within {seconds} s: {what}")


class Peer:
    """A connection to the double."""

    def __init__(self, port, host="127.0.0.1"):
        self.socket = socket.create_connection((host, port), timeout=10)
        self.file = self.socket.makefile("r")
        self.pid = int(self.file.readline()[1:])

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        self.file.close()
        self.socket.close()

    def send(self, command):
        self.socket.sendall(command.encode() + b"\n")

    def ask(self, command):
        self.send(command)
        return self.file.readline().rstrip("\n")

    def ask_all(self, command):
        self.send(command)
        return read_answers(self.file)


def read_answers(file):
    answers = {}
    for line in file:
        if line == ".\n":
            return answers
        key, _, value = line.rstrip("\n").partition("=")
        answers[key] = value
    raise AssertionError("the answer has no end")


class Boxd:
    def __init__(self, folder, *args, env=None, before=(), **popen):
        # LeakSanitizer needs ptrace, which a process that is not dumpable forbids.
        environment = {"PATH": os.environ["PATH"], "ASAN_OPTIONS": "detect_leaks=0"}
        environment.update(env or {})
        self.lines = []
        self.process = subprocess.Popen(
            [*before, str(folder / "boxd"), "--log-format=json", *args],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
            **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, **popen},
        )
        self.pid = self.process.pid
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stderr:
            self.lines.append(line.rstrip("\n"))

    def events(self, name=None):
        found = [json.loads(line) for line in list(self.lines) if line.startswith("{")]
        return [event for event in found if name in (None, event["event"])]

    def wait_event(self, name, count=1, seconds=5.0):
        def arrived():
            return self.events(name)[count - 1 : count]

        return wait_until(arrived, seconds, f"event {count} {name}: {self.lines}")[0]

    def port(self):
        return self.wait_event("listening")["port"]

    def connect(self, host="127.0.0.1"):
        return Peer(self.port(), host)

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, seconds=5.0):
        code = self.process.wait(seconds)
        self.reader.join(5)
        return code

    def stop(self):
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.reader.join(5)
        assert not [line for line in self.lines if "Sanitizer" in line], self.lines


@pytest.fixture
def folder(tmp_path):
    programs = tmp_path / "bin"
    programs.mkdir()
    shutil.copy(find_program("boxd"), programs / "boxd")
    shutil.copy(find_program("fake_rpc"), programs / "box-rpc")
    return programs


@pytest.fixture
def boxd(folder):
    started = []

    def start(*args, **options):
        if not any(arg.startswith("--ws-control-port") for arg in args):
            args = ("--ws-control-port=0", *args)
        started.append(Boxd(folder, *args, **options))
        return started[-1]

    yield start
    for one in started:
        one.stop()


def run(folder, *args, **options):
    return subprocess.run(
        [str(folder / "boxd"), *args], capture_output=True, text=True, timeout=10, **options
    )


# 1. The command line.


def test_version_and_help(folder):
    version = run(folder, "--version")
    assert (version.returncode, version.stderr) == (0, "")
    assert re.fullmatch(r"boxd \S+\n", version.stdout)
    for flag in ("-h", "--help"):
        usage = run(folder, flag)
        assert (usage.returncode, usage.stderr) == (0, "")
        for word in ("--stdio-control", "--ws-control-port", "LANGBOT_BOX_CONTROL_TOKEN"):
            assert word in usage.stdout


@pytest.mark.parametrize(
    "args, text",
    [
        (["--ws-control-port", "70000"], '--ws-control-port: "70000" is no port (0 to 65535)'),
        (["--log-level", "x"], '--log-level: "x" is no level (debug, info, warning, error)'),
        (["--log-format", "x"], '--log-format: "x" is no format (text, json)'),
        (["-s", "--standalone-box"], "--standalone-box: not together with --stdio-control"),
        (["--bogus"], "--bogus: no such flag (see boxd --help)"),
        (["serve"], '"serve": no argument is expected (see boxd --help)'),
        (["--config", "/nowhere/x"], "--config: /nowhere/x: No such file or directory"),
        (["--config", "/dev"], "--config: /dev: neither a regular file nor a pipe"),
    ],
)
def test_wrong_command_line(folder, args, text):
    result = run(folder, *args)
    assert (result.returncode, result.stdout, result.stderr) == (2, "", f"boxd: {text}\n")


# 2 and 3. What boxd carries.


def test_start_carries_everything(boxd, tmp_path):
    (tmp_path / "box.yaml").write_text("from: file\n")
    keeper = boxd(
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
    with keeper.connect() as peer:
        start = peer.ask_all("start")
    expected = {
        "flags": str(FLAG_FILE | FLAG_VARIABLE | FLAG_HOST | FLAG_SOFT),
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


def test_texts_are_given_to_every_instance(boxd, tmp_path):
    (tmp_path / "c").write_text("one\n")
    keeper = boxd("--config", str(tmp_path / "c"), env={"LANGBOT_BOX_CONFIG": "{}"})
    with keeper.connect() as peer:
        (tmp_path / "c").write_text("two\n")
        os.kill(peer.pid, signal.SIGKILL)
    keeper.wait_event("worker.started", 2)
    with keeper.connect() as peer:
        start = peer.ask_all("start")
    assert (start["file"], start["variable"], start["restarts"]) == ("one", "{}", "1")


@pytest.mark.parametrize("taken", [False, True])
def test_only_a_text_that_was_taken_is_given_to_a_successor(boxd, tmp_path, taken):
    (tmp_path / "c").write_text("one\n")
    keeper = boxd("--config", str(tmp_path / "c"))
    with keeper.connect() as peer:
        (tmp_path / "c").write_text("two\n")
        keeper.signal(signal.SIGHUP)
        wait_until(lambda: peer.ask_all("start")["reload"] == "two")
        if taken:
            assert peer.ask("taken") == "ok"
        os.kill(peer.pid, signal.SIGKILL)
    keeper.wait_event("worker.started", 2)
    with keeper.connect() as peer:
        assert peer.ask_all("start")["file"] == ("two" if taken else "one")


def test_long_values_are_cut_so_that_it_shows(boxd):
    keeper = boxd(
        env={
            "LANGBOT_BOX_CONTROL_TOKEN": "x" * 9000,
            "LANGBOT_BOX_TRUSTED_INSTANCE_UUID": "y" * 9000,
        }
    )
    with keeper.connect() as peer:
        start = peer.ask_all("start")
    assert start["token"] == "x" * 4097
    assert start["instance"] == "y" * 257


def test_config_from_a_pipe_is_read_once(boxd):
    read_end, write_end = os.pipe()
    os.write(write_end, b"piped\n")
    os.close(write_end)
    keeper = boxd("--config", f"/dev/fd/{read_end}", pass_fds=[read_end])
    os.close(read_end)
    with keeper.connect() as peer:
        assert peer.ask_all("start")["file"] == "piped"
        keeper.signal(signal.SIGHUP)
        assert "a pipe cannot be read again" in keeper.wait_event("reload.failed")["why"]
        os.kill(peer.pid, signal.SIGKILL)
    keeper.wait_event("worker.started", 2)
    with keeper.connect() as peer:
        assert peer.ask_all("start")["file"] == "piped"


@pytest.mark.skipif(not ROOT, reason="only root may look at a process that is not dumpable")
def test_token_is_in_no_environment(boxd):
    keeper = boxd(env={"LANGBOT_BOX_CONTROL_TOKEN": TOKEN})
    with keeper.connect() as peer:
        assert peer.ask_all("start")["token"] == TOKEN
        assert pathlib.Path(f"/proc/{peer.pid}/environ").read_bytes() == b""
        assert pathlib.Path(f"/proc/{peer.pid}/cmdline").read_bytes() == b"box-rpc\0"
    assert TOKEN.encode() not in pathlib.Path(f"/proc/{keeper.pid}/environ").read_bytes()
    assert TOKEN not in "".join(keeper.lines)


def test_boxd_is_not_dumpable(folder):
    """Seen by the owner of its files in /proc, which is then root and not boxd's own user."""
    with tempfile.TemporaryDirectory(dir="/tmp") as reachable:
        os.chmod(reachable, 0o755)
        for program in folder.iterdir():
            shutil.copy(program, reachable)
        user = {"user": 65534, "group": 65534, "extra_groups": []} if ROOT else {}
        keeper = Boxd(pathlib.Path(reachable), "--ws-control-port=0", **user)
        try:
            with keeper.connect() as peer:
                uid = int(peer.ask_all("ids")["uid"].split()[0])
            assert uid == (65534 if ROOT else os.getuid())
            assert os.stat(f"/proc/{keeper.pid}/mem").st_uid == 0
        finally:
            keeper.stop()


# 4. Listening.


def test_loopback_only_by_default(boxd):
    keeper = boxd()
    with keeper.connect():
        pass
    listening = [(event["address"], event["port"]) for event in keeper.events("listening")]
    expected = ["127.0.0.1", "::1"] if has_ipv6() else ["127.0.0.1"]
    assert [address for address, _ in listening] == expected
    assert len({port for _, port in listening}) == 1
    assert keeper.events("listening.unprotected") == []
    if has_ipv6():
        with keeper.connect("::1") as peer:
            assert peer.ask_all("start")["listeners"] == "2"


@pytest.mark.parametrize(
    "host, token, dialled, warned",
    [
        ("127.0.0.1", None, ["127.0.0.1"], False),
        ("localhost", None, ["127.0.0.1"], False),
        ("0.0.0.0", None, ["127.0.0.1", "127.0.0.2"], True),
        ("0.0.0.0", TOKEN, ["127.0.0.1"], False),
        ("::1", None, ["::1"], False),
        ("::", None, ["127.0.0.1", "::1"], True),
    ],
)
def test_host(boxd, host, token, dialled, warned):
    if ":" in host and not has_ipv6():
        pytest.skip("no IPv6")
    keeper = boxd("--host", host, env={"LANGBOT_BOX_CONTROL_TOKEN": token} if token else {})
    for address in dialled:
        with keeper.connect(address) as peer:
            flags = int(peer.ask_all("start")["flags"])
            assert flags == FLAG_HOST | (FLAG_WIDE_OPEN if warned else 0)
    assert len(keeper.events("listening.unprotected")) == int(warned)


@pytest.mark.skipif(not has_ipv6(), reason="no IPv6")
def test_ipv6_host_is_ipv6_only(boxd):
    keeper = boxd("--host=::1")
    with pytest.raises(ConnectionRefusedError):
        keeper.connect("127.0.0.1")


def test_port_taken(folder, boxd):
    first = boxd()
    port = first.port()
    result = run(folder, f"--ws-control-port={port}")
    assert (result.returncode, result.stdout) == (1, "")
    reason = "Address already in use"
    assert result.stderr == f"boxd: cannot listen on 127.0.0.1 port {port}: {reason}\n"


def test_ipv6_port_taken(folder):
    if not has_ipv6():
        pytest.skip("no IPv6")
    port = free_port()
    with socket.socket(socket.AF_INET6) as other:
        other.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        other.bind(("::1", port))
        other.listen()
        result = run(folder, f"--ws-control-port={port}")
    assert result.returncode == 1
    assert result.stderr == f"boxd: cannot listen on ::1 port {port}: Address already in use\n"


@pytest.mark.parametrize("host", ["nowhere.invalid", "192.0.2.1"])
def test_host_that_is_not_ours(folder, host):
    result = run(folder, f"--host={host}", "--ws-control-port=0")
    assert result.returncode == 1
    assert result.stderr.startswith("boxd: ") and host in result.stderr


def test_port_taken_with_stdio(boxd):
    first = boxd()
    keeper = boxd(
        "-s", f"--ws-control-port={first.port()}", stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    warning = keeper.wait_event("listen.failed")
    assert warning["level"] == "warning"
    assert f"127.0.0.1 port {first.port()}" in warning["why"]
    keeper.process.stdin.write("start\n")
    keeper.process.stdin.flush()
    assert read_answers(keeper.process.stdout)["listeners"] == "0"
    keeper.process.stdin.close()
    assert keeper.wait() == 0


# 5. What the worker is.


def check_no_rights(ids, bounding="0000000000000000"):
    for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        assert ids[name] == "0000000000000000", name
    assert ids["CapBnd"] == bounding
    assert ids["NoNewPrivs"] == "1"


def test_worker_is_fenced(boxd):
    stray = os.open("/etc/passwd", os.O_RDONLY)
    keeper = boxd(pass_fds=[stray], env={"SOME": "thing"})
    os.close(stray)
    with keeper.connect() as peer:
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
    assert ids["ppid"] == str(keeper.pid)
    assert ids["SigBlk"] == "0000000000000000"
    assert ids["sigpipe"] == "default"
    fds = dict(entry.split(":", 1) for entry in ids["fds"].rstrip(",").split(","))
    listeners = 2 if has_ipv6() else 1
    assert list(fds.values()) == ["/dev/null", "pipe", "pipe"] + ["socket"] * (2 + listeners)
    assert list(fds) == [str(fd) for fd in range(5 + listeners)]


def test_worker_ids(boxd):
    keeper = boxd(**({"extra_groups": [4711, 4712]} if ROOT else {}))
    with keeper.connect() as peer:
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
        assert 61184 + keeper.pid % 4000 <= uid < 65520
        with pytest.raises(KeyError):
            pwd.getpwuid(uid)


def test_worker_in_a_namespace_with_one_id(boxd):
    unshare = ["unshare", "--user", "--map-root-user"]
    if subprocess.run([*unshare, "true"], capture_output=True).returncode != 0:
        pytest.skip("no user namespaces here")
    keeper = boxd(before=unshare)
    with keeper.connect() as peer:
        ids = peer.ask_all("ids")
    assert ids["uid"] == "0 0 0"
    check_no_rights(ids)
    assert keeper.wait_event("worker.same_uid")["level"] == "warning"


def test_missing_worker(folder, boxd):
    (folder / "box-rpc").unlink()
    keeper = boxd()
    assert keeper.wait() == 1
    why = keeper.wait_event("worker.start_failed")["why"]
    assert why == "box-rpc is neither beside boxd nor installed"


def test_failed_step_is_named(folder, boxd):
    (folder / "box-rpc").write_text("no program\n")
    (folder / "box-rpc").chmod(0o755)
    keeper = boxd()
    assert keeper.wait() == 1
    why = keeper.wait_event("worker.start_failed")["why"]
    assert why == "box-rpc cannot start: exec: Exec format error"


def test_worker_ends_with_boxd(boxd):
    keeper = boxd()
    with keeper.connect() as peer:
        assert peer.ask("stubborn") == "ok"
        keeper.process.kill()
        wait_until(lambda: not is_alive(peer.pid), what="the end of the worker")


# 6. Supervision.


def count_fds(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def keep_state(peer, text):
    assert peer.ask(f"state {text}") == "ok"
    # Packets are served in order: after this answer the STATE has been taken.
    assert peer.ask("folder /usr") == "0"


def dial_until(stop, port, failures, greeted):
    while not stop.is_set():
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
                try:
                    greeted.append(client.recv(1) == b"p")
                except ConnectionResetError:
                    pass  # accepted by the one that was killed
        except OSError as error:
            failures.append(error)


@pytest.fixture
def dial_all_the_time():
    """Dials a port without a pause until the test ends or asks for what came of it."""
    stop, failures, greeted, threads = threading.Event(), [], [], []

    def start(port):
        threads.append(
            threading.Thread(target=dial_until, args=(stop, port, failures, greeted), daemon=True)
        )
        threads[0].start()

    def finish():
        stop.set()
        for thread in threads:
            thread.join(15)
        return failures, greeted

    start.finish = finish
    yield start
    finish()


def test_fifty_kills(boxd, dial_all_the_time):
    """No connection is refused, nothing leaks, and the port stays."""
    keeper = boxd()
    port = keeper.port()
    dial_all_the_time(port)
    fds = None
    for count in range(1, 51):
        with Peer(port) as peer:
            keep_state(peer, str(count))
            if count == 2 and ROOT:
                fds = count_fds(keeper.pid)
            os.kill(peer.pid, signal.SIGKILL)
        keeper.wait_event("worker.started", count + 1)
    with Peer(port) as peer:
        assert peer.ask("getstate") == "50"
        assert peer.ask_all("start")["restarts"] == "50"
        if ROOT:
            assert count_fds(keeper.pid) == fds
    failures, greeted = dial_all_the_time.finish()
    assert failures == []
    assert greeted.count(True) > 100
    assert {event["how"] for event in keeper.events("worker.died")} == {"signal 9"}
    restarts = [event["restarts"] for event in keeper.events("worker.started")]
    assert restarts == list(range(51))


def event_ms(event):
    clock = event["time"].split("T")[1].rstrip("Z").split(":")
    return (int(clock[0]) * 3600 + int(clock[1]) * 60 + float(clock[2])) * 1000


def kill_by_command(keeper, count, command):
    with keeper.connect() as peer:
        peer.send(command)
        keeper.wait_event("worker.started", count + 1)


def test_pause_grows_and_a_good_run_resets_it(boxd):
    keeper = boxd()
    for count in range(1, 9):
        kill_by_command(keeper, count, "abort" if count == 2 else "exit 3")
    time.sleep(5.2)
    kill_by_command(keeper, 9, "exit 0")
    kill_by_command(keeper, 10, "exit 3")
    died, started = keeper.events("worker.died"), keeper.events("worker.started")
    assert [event["how"] for event in died] == (
        ["exit 3", "signal 6"] + ["exit 3"] * 6 + ["exit 0", "exit 3"]
    )
    assert {event["pid"] for event in died} == {event["pid"] for event in started[:-1]}
    pauses = [event_ms(after) - event_ms(end) for end, after in zip(died, started[1:])]
    expected = [0, 50, 100, 200, 400, 500, 500, 500, 0, 50]
    for pause, least in zip(pauses, expected):
        assert least - 2 <= pause < least + 150, pauses


def test_never_ready(boxd, tmp_path):
    (tmp_path / "c").write_text("exit 3\n")
    keeper = boxd("--config", str(tmp_path / "c"))
    assert keeper.wait() == 1
    assert len(keeper.events("worker.started")) == 3
    assert "never ready" in keeper.wait_event("worker.given_up")["why"]


def test_wrong_configuration_ends_boxd(boxd, tmp_path):
    (tmp_path / "c").write_text("exit 78\n")
    keeper = boxd("--config", str(tmp_path / "c"))
    assert keeper.wait() == 78
    assert len(keeper.events("worker.started")) == 1


@pytest.mark.parametrize("text, code", [("good", 0), ("exit 78", 78), ("exit 5", 5)])
@pytest.mark.parametrize("flags", [[], ["-s"]])
def test_check_config(boxd, tmp_path, text, code, flags):
    (tmp_path / "c").write_text(text + "\n")
    keeper = boxd("--check-config", "--config", str(tmp_path / "c"), *flags)
    assert keeper.wait() == code
    assert keeper.events("listening") == []
    assert len(keeper.events("worker.started")) == 1


def test_config_that_goes_away_is_remembered(boxd, tmp_path):
    (tmp_path / "c").write_text("one\n")
    keeper = boxd("--config", str(tmp_path / "c"))
    with keeper.connect() as peer:
        (tmp_path / "c").unlink()
        keeper.signal(signal.SIGHUP)
        why = keeper.wait_event("reload.failed")["why"]
        assert why == f"--config: {tmp_path}/c: No such file or directory"
        os.kill(peer.pid, signal.SIGKILL)
    keeper.wait_event("worker.started", 2)
    with keeper.connect() as peer:
        assert peer.ask_all("start")["file"] == "one"


def test_state_is_handed_over(boxd):
    keeper = boxd()
    with keeper.connect() as peer:
        assert peer.ask("getstate") == "-"
        assert peer.ask("state first") == "ok"
        assert peer.ask("state second") == "ok"
        os.kill(peer.pid, signal.SIGKILL)
    keeper.wait_event("worker.started", 2)
    with keeper.connect() as peer:
        assert int(peer.ask_all("start")["flags"]) == FLAG_STATE
        assert peer.ask("getstate") == "second"
        peer.send("abort")
        keeper.wait_event("worker.started", 3)
    with keeper.connect() as peer:
        assert peer.ask("getstate") == "second"
        # Sent by one that is dead before boxd looks.
        keeper.signal(signal.SIGSTOP)
        peer.send("laststate third")
        wait_until(lambda: not is_alive(peer.pid), what="the end of the worker")
        keeper.signal(signal.SIGCONT)
        keeper.wait_event("worker.started", 4)
    with keeper.connect() as peer:
        assert peer.ask("getstate") == "third"


GARBAGE = {
    "kind": "a packet of an unknown kind",
    "downward": "a packet of an unknown kind",
    "short": "a malformed packet",
    "long": "a packet of a wrong size",
    "huge": "a malformed packet",
    "ready": "a second READY",
    "nofd": "a packet with a wrong number of fds",
    "twofds": "a packet with a wrong number of fds",
    "manyfds": "a packet with a wrong number of fds",
    "hundredfds": "a malformed packet",
    "bigstate": "a STATE that is too big",
    "pipestate": "a STATE that is no file",
    "path": "a path without an end",
}


@pytest.mark.parametrize("what", GARBAGE)
def test_wrong_packet_ends_the_worker(boxd, what):
    keeper = boxd()
    with keeper.connect() as peer:
        keep_state(peer, "kept")
        fds = count_fds(keeper.pid) if ROOT else 0
        peer.send(f"garbage {what}")
        assert keeper.wait_event("worker.refused")["why"] == GARBAGE[what]
        assert keeper.wait_event("worker.died")["how"] == "signal 9"
    with keeper.connect() as peer:
        assert peer.ask("getstate") == "kept"
        assert not ROOT or count_fds(keeper.pid) == fds


@pytest.mark.parametrize("command", ["garbage empty", "hangup"])
def test_worker_that_closes_its_socket_is_ended(boxd, command):
    keeper = boxd()
    with keeper.connect() as peer:
        assert peer.ask("stubborn") == "ok"
        peer.send(command)
        keeper.wait_event("worker.late")
        assert keeper.wait_event("worker.died")["how"] == "signal 9"
    keeper.wait_event("worker.started", 2)


def test_flood_without_reading_ends_the_worker(boxd):
    keeper = boxd()
    with keeper.connect() as peer:
        peer.send("flood")
        why = keeper.wait_event("worker.refused", seconds=20)["why"]
        assert why == "it does not read its answers"
    keeper.wait_event("worker.started", 2)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stop(boxd, number):
    keeper = boxd()
    with keeper.connect() as peer:
        keeper.signal(number)
        assert keeper.wait() == 0
        assert not is_alive(peer.pid)
    assert keeper.events("worker.died")[0]["how"] == "exit 0"


def test_stop_of_a_stubborn_worker_takes_nine_seconds(boxd):
    keeper = boxd()
    with keeper.connect() as peer:
        assert peer.ask("stubborn") == "ok"
        begin = time.monotonic()
        keeper.signal(signal.SIGTERM)
        assert keeper.wait(15) == 0
        assert 8.9 < time.monotonic() - begin < 10.5
        assert not is_alive(peer.pid)
    assert keeper.events("worker.died")[0]["how"] == "signal 9"


def test_second_signal_kills_at_once(boxd):
    keeper = boxd()
    with keeper.connect() as peer:
        assert peer.ask("stubborn") == "ok"
        keeper.signal(signal.SIGTERM)
        keeper.wait_event("stopping")
        begin = time.monotonic()
        keeper.signal(signal.SIGINT)
        assert keeper.wait() == 0
        assert time.monotonic() - begin < 2
        assert not is_alive(peer.pid)


def test_stop_in_a_restart_pause(boxd):
    keeper = boxd()
    for count in range(1, 7):
        kill_by_command(keeper, count, "exit 3")
    with keeper.connect() as peer:
        peer.send("exit 3")
        keeper.wait_event("worker.died", 7)
        begin = time.monotonic()
        keeper.signal(signal.SIGTERM)
        assert keeper.wait() == 0
        assert time.monotonic() - begin < 0.5
    assert len(keeper.events("worker.started")) == 7


def test_reload(boxd, tmp_path):
    (tmp_path / "c").write_text("one\n")
    keeper = boxd("--config", str(tmp_path / "c"))
    with keeper.connect() as peer:
        replacement = tmp_path / "d"
        replacement.write_text("two\n")
        replacement.rename(tmp_path / "c")
        keeper.signal(signal.SIGHUP)
        wait_until(lambda: peer.ask_all("start")["reloads"] == "1")
        start = peer.ask_all("start")
        assert (start["file"], start["reload"]) == ("one", "two")
        (tmp_path / "c").unlink()
        keeper.signal(signal.SIGHUP)
        why = keeper.wait_event("reload.failed")["why"]
        assert why == f"--config: {tmp_path}/c: No such file or directory"
        assert peer.ask_all("start")["reloads"] == "1"


def test_nothing_to_reload(boxd):
    keeper = boxd()
    with keeper.connect() as peer:
        keeper.signal(signal.SIGHUP)
        assert "no --config" in keeper.wait_event("reload.nothing")["why"]
        assert peer.ask_all("start")["reloads"] == "0"


# Stdio.


@pytest.fixture
def stdio(boxd):
    def start(*args):
        return boxd("-s", *args, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    return start


def tell(keeper, command):
    keeper.process.stdin.write(command + "\n")
    keeper.process.stdin.flush()


def test_stdio_and_the_port_beside_it(stdio):
    keeper = stdio()
    tell(keeper, "start")
    assert int(read_answers(keeper.process.stdout)["flags"]) == FLAG_STDIO
    with keeper.connect() as peer:
        assert peer.ask("getstate") == "-"
    if ROOT:
        for fd in (0, 1):
            assert os.readlink(f"/proc/{keeper.pid}/fd/{fd}") == "/dev/null"
    keeper.process.stdin.close()
    assert keeper.wait() == 0
    assert keeper.process.stdout.read() == ""


@pytest.mark.parametrize(
    "command, code", [("exit 0", 0), ("exit 3", 1), ("exit 78", 78), ("abort", 1)]
)
def test_stdio_exit_codes(stdio, command, code):
    keeper = stdio()
    tell(keeper, command)
    assert keeper.wait() == code
    assert len(keeper.events("worker.started")) == 1


def test_stdio_worker_killed(stdio):
    keeper = stdio()
    pid = keeper.wait_event("worker.started")["pid"]
    os.kill(pid, signal.SIGKILL)
    assert keeper.wait() == 1
    assert keeper.process.stdout.read() == ""


def test_stdio_stop(stdio):
    keeper = stdio()
    with keeper.connect():
        keeper.signal(signal.SIGTERM)
        assert keeper.wait() == 0


def test_closed_standard_fds(folder, boxd):
    """What boxd opens must not land on 0, 1 or 2."""
    keeper = boxd(before=["sh", "-c", 'exec "$@" <&- >&-', "sh"])
    with keeper.connect() as peer:
        fds = peer.ask_all("ids")["fds"]
    assert fds.startswith("0:/dev/null,1:pipe,2:pipe,3:socket,")


# 7. MAKE_FOLDER.

EPERM, ENOTDIR, EINVAL, ELOOP = -errno.EPERM, -errno.ENOTDIR, -errno.EINVAL, -errno.ELOOP


@pytest.fixture
def host_folder(tmp_path):
    base = tmp_path / "host"
    base.mkdir()
    (base / "file").write_text("")
    (base / "real").mkdir()
    links = {
        "link": "real",
        "dangling": "nowhere",
        "loop": "loop",
        "to-etc": "/etc",
        "to-passwd": "/etc/passwd",
        "to-new-in-etc": "/etc/box-test-missing",
        "to-run": "/run",
        "to-root": "/",
        "twice": "to-etc",
        "upwards": "../" * 40 + "etc",
    }
    for name, target in links.items():
        (base / name).symlink_to(target)
    return base


FOLDERS = [
    ("BASE", 0),
    ("BASE/a/b/c", 0),
    ("BASE/a", 0),
    ("BASE/a/b/d", 0),
    ("BASE/real", 0),
    ("BASE/link", 0),
    ("BASE/link/new", 0),
    ("BASE/" + "n" * 255, 0),
    ("BASE/" + "n" * 256, -errno.ENAMETOOLONG),
    ("BASE/file", ENOTDIR),
    ("BASE/file/x", ENOTDIR),
    ("BASE/dangling", ENOTDIR),
    ("BASE/dangling/x", ENOTDIR),
    ("BASE/loop", ELOOP),
    ("BASE/to-etc", EPERM),
    ("BASE/to-etc/box-test", EPERM),
    ("BASE/to-etc/box-test/deeper", EPERM),
    ("BASE/to-etc/passwd", EPERM),
    ("BASE/to-passwd", ENOTDIR),
    ("BASE/to-new-in-etc", ENOTDIR),
    ("BASE/to-new-in-etc/x", ENOTDIR),
    ("BASE/to-run/box-test", EPERM),
    ("BASE/to-root", EPERM),
    ("BASE/to-root/etc/box-test", EPERM),
    ("BASE/to-rootBASE/through-root", 0),
    ("BASE/twice/box-test", EPERM),
    ("BASE/upwards/box-test", EPERM),
    ("/", EPERM),
    ("/etc", EPERM),
    ("/etc/passwd", EPERM),
    ("/etc/passwd/x", EPERM),
    ("/etc/box-test", EPERM),
    ("/proc", EPERM),
    ("/proc/self/cwd/box-test", EPERM),
    ("/proc/self/root/tmp/box-test", EPERM),
    ("/proc/self/fd/0", EPERM),
    ("/sys/box-test", EPERM),
    ("/dev/shm/box-test", EPERM),
    ("/root", EPERM),
    ("/root/box-test/x", EPERM),
    ("/boot/box-test", EPERM),
    ("/run/box-test", EPERM),
    ("/var/run/box-test", EPERM),
    ("", EINVAL),
    ("tmp/x", EINVAL),
    ("//tmp/x", EINVAL),
    ("BASE//x", EINVAL),
    ("BASE/x/", EINVAL),
    ("BASE/./x", EINVAL),
    ("BASE/..", EINVAL),
    ("BASE/../etc", EINVAL),
]


def test_make_folder(boxd, host_folder):
    with boxd(umask=0o077).connect() as peer:
        answers = {}
        for path, _ in FOLDERS:
            answers[path] = int(peer.ask("folder " + path.replace("BASE", str(host_folder))))
    assert answers == dict(FOLDERS)
    for made in ("a", "a/b/c", "a/b/d", "real/new", "through-root"):
        status = (host_folder / made).stat()
        assert (status.st_mode, status.st_uid) == (0o40755, os.geteuid()), made
    assert not (host_folder / "nowhere").exists()
    for system in ("/etc", "/run", "/dev/shm", "/tmp"):
        assert not os.path.lexists(system + "/box-test"), system
    assert not os.path.lexists("/etc/box-test-missing")


@pytest.mark.skipif(ROOT, reason="root may write everywhere")
def test_make_folder_where_the_user_may_not(boxd):
    with boxd().connect() as peer:
        assert int(peer.ask("folder /usr/box-test")) == -errno.EACCES
        assert int(peer.ask("folder /usr")) == 0


IN_NAMESPACE = ["unshare", "--mount", "--propagation", "private", "sh", "-ec"]


def can_mount():
    return ROOT and subprocess.run([*IN_NAMESPACE, "true"], capture_output=True).returncode == 0


@pytest.mark.skipif(not can_mount(), reason="needs mounts")
def test_make_folder_behind_bind_mounts(boxd, host_folder):
    for name in ("bound-etc", "bound-root", "self"):
        (host_folder / name).mkdir()
    script = f"""cd {host_folder}
        mount --bind /etc bound-etc
        mount --rbind / bound-root
        mount --bind {host_folder} self
        mount -t tmpfs none /boot
        mkdir -p /boot/a/a
        mount --bind /boot/a /boot/a/a
        exec "$@\""""
    table = [
        ("bound-etc", EPERM),
        ("bound-etc/box-test", EPERM),
        ("bound-root", EPERM),
        ("bound-root/etc/box-test", EPERM),
        ("bound-root/proc/box-test", EPERM),
        ("self/self-made", 0),
        # A folder mounted inside itself: the way up must not stop between the two.
        ("to-root/boot/a/a/box-test", EPERM),
    ]
    with boxd(before=[*IN_NAMESPACE, script, "sh"]).connect() as peer:
        answers = [(name, int(peer.ask(f"folder {host_folder}/{name}"))) for name, _ in table]
    assert answers == table
    assert (host_folder / "self-made").is_dir()
    assert not os.path.lexists("/etc/box-test")


@pytest.mark.skipif(not can_mount(), reason="needs mounts")
def test_make_folder_makes_no_missing_system_folder(boxd, tmp_path):
    """A host without /boot and /run, in which a link leads to /."""
    script = """cd "$0"
        mount -t tmpfs none .
        for name in usr dev proc tmp etc; do mkdir $name; mount --rbind /$name $name; done
        for name in bin lib lib32 lib64 libx32; do
            if [ -L /$name ]; then cp -P /$name .
            elif [ -e /$name ]; then mkdir $name; mount --rbind /$name $name; fi
        done
        mkdir var
        ln -s / to-root
        exec chroot . "$@\""""
    new_root = tmp_path / "new-root"
    new_root.mkdir()
    table = [
        ("/boot", EPERM),
        ("/boot/x", EPERM),
        ("/run/x", EPERM),
        ("/var/run", EPERM),
        ("/to-root/boot", EPERM),
        ("/to-root/var/run/x", EPERM),
        ("/data/boot/run", 0),
        ("/var/lib/run", 0),
    ]
    with boxd(before=[*IN_NAMESPACE, script, str(new_root)]).connect() as peer:
        answers = [(path, int(peer.ask(f"folder {path}"))) for path, _ in table]
    assert answers == table
