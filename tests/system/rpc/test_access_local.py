"""Who may connect: the operator's socket, users of this host without a token, wider listeners,
changed tokens, claimed instances, and log events about refused peers.
"""

import contextlib
import encodings.idna  # noqa: F401: it is not found any more as another user
import fcntl
import http.client
import os
import pathlib
import signal
import socket
import stat
import struct
import subprocess
import time

import boxdlib
import pytest
from clientlib import context

NOBODY = 65534
OLD = "old-token-0123456789abcdef0123456789"
NEW = "new-token-0123456789abcdef0123456789"
UPGRADE = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}

needs_root = pytest.mark.skipif(not boxdlib.ROOT, reason="only root can become another user")


@pytest.fixture
def folder():
    """A short path, since the path of a socket has at most 107 bytes."""
    made = pathlib.Path(f"/run/box-test-{os.getpid()}" if boxdlib.ROOT else f"/tmp/box-{os.getpid()}")
    made.mkdir(mode=0o755)
    yield made
    for left in made.iterdir():
        left.unlink()
    made.rmdir()


def as_user(uid, *command):
    before = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--"]
    return subprocess.run(
        [*before, *map(str, command)],
        cwd="/",
        env=boxdlib.environment(),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,

    )


def run_box(*words, uid=0):
    done = as_user(uid, boxdlib.build() / "box", *words)
    return done.returncode, done.stdout, done.stderr


def head(instance="evil", **fields):
    lines = {"Host": "127.0.0.1", "X-LangBot-Instance-Id": instance, **UPGRADE, **fields}
    text = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"GET /rpc/ws HTTP/1.1\r\n{text}\r\n".encode()


def status_of(sock):
    sock.settimeout(10)
    answer = b""
    while b"\r\n" not in answer:
        piece = sock.recv(4096)
        if not piece:
            break
        answer += piece
    return int(answer.split()[1]) if answer else None


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=10)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


def page(path, name):
    with contextlib.closing(UnixConnection(path)) as connection:
        connection.request("GET", name)
        answer = connection.getresponse()
        return answer.status, answer.read()


# The operator's socket.


def test_the_operator_needs_nothing_and_claims_nothing(tmp_path, folder):
    path = folder / "box.sock"
    with boxdlib.fake_boxd(tmp_path, "--socket", str(path), token=OLD) as boxd:
        boxd.wait_served()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert run_box("--endpoint", f"unix:{path}", "create", "mine")[0] == 0
        assert "mine" in run_box("--endpoint", f"unix:{path}", "ls")[1]
        assert page(path, "/metrics")[0] == 200
        assert b"resources" in page(path, "/readyz")[1]
        assert not boxd.events("instance.claimed")
        with boxd.web(instance="tenant") as client:
            client.context = context(instance="tenant")
            assert client.ask("box_get_sessions")["sessions"] == []
            # The operator's instance belongs to nobody else.
            assert client.fail("box_status", context=context(instance="_operator")).startswith(
                "PermissionError: "
            )
            client.init()
            assert boxd.wait_event("instance.claimed")["instance"] == "tenant"
            # A shutdown ends the boxes of the caller's instance.
            ask = ["--endpoint", f"unix:{path}", "--instance"]
            assert run_box(*ask, "third", "create", "of-another")[0] == 0
            client.ask("box_create_session", {"session_id": "of-the-tenant"})
            client.ask("box_shutdown")
            assert client.ask("box_get_sessions")["sessions"] == []
            assert "of-another" in run_box(*ask, "third", "ls")[1]
        # The operator can use the boxes of others, too.
        listed = run_box("--endpoint", f"unix:{path}", "--instance", "tenant", "ls")
        assert listed[0] == 0
        assert "mine" in run_box("--endpoint", f"unix:{path}", "ls")[1]
    assert not path.exists()


@needs_root
def test_only_root_uses_its_socket_and_a_group_can_be_let_in(tmp_path, folder):
    path = folder / "box.sock"
    with boxdlib.fake_boxd(tmp_path, "--socket", str(path)) as boxd:
        boxd.wait_served()
        code, _, err = run_box("--endpoint", f"unix:{path}", "ls", uid=NOBODY)
        assert code == 125
        assert "Permission denied" in err
        assert "--socket-group" in err
    with boxdlib.fake_boxd(
        tmp_path, "--socket", str(path), "--socket-group", str(NOBODY)
    ) as boxd:
        boxd.wait_served()
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        assert run_box("--endpoint", f"unix:{path}", "ls", uid=NOBODY)[0] == 0
        assert run_box("--endpoint", f"unix:{path}", "ls", uid=1)[0] == 125


@needs_root
def test_a_loosened_mode_lets_nobody_in(tmp_path, folder):
    path = folder / "box.sock"
    ends = ("--endpoint", f"unix:{path}", "ls")
    with boxdlib.fake_boxd(tmp_path, "--socket", str(path), "--log-level=debug") as boxd:
        boxd.wait_served()
        path.chmod(0o666)
        code, _, err = run_box(*ends, uid=NOBODY)
        assert code == 125
        assert f"uid {NOBODY}" in err
        assert "--socket-group" in err
        assert boxd.wait_event("operator.refused")["uid"] == NOBODY
        assert not boxd.events("operator.connected")
        with contextlib.ExitStack() as stack:
            os.seteuid(NOBODY)
            stack.callback(os.seteuid, 0)
            assert page(path, "/metrics")[0] == 401
            assert page(path, "/healthz")[0] == 401
        assert run_box(*ends)[0] == 0
        assert boxd.wait_event("operator.connected")["uid"] == 0
        with contextlib.closing(UnixConnection(path)) as connection:
            connection.connect()
            boxd.wait_event("operator.connected", 2)
            assert boxd.events("operator.connected")[-1]["pid"] == os.getpid()


@needs_root
def test_a_plain_users_socket_is_that_users_alone(tmp_path, folder):
    """boxd is in a user namespace, where all other users look the same."""
    path = folder / "of-user" / "box.sock"
    path.parent.mkdir()
    os.chown(path.parent, NOBODY, NOBODY)
    before = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--")
    ends = ("--endpoint", f"unix:{path}", "ls")
    try:
        with boxdlib.Boxd(
            "--socket", str(path), before=before, cwd="/", config=boxdlib.FAKE
        ) as boxd:
            boxd.wait_served()
            path.chmod(0o666)
            assert run_box(*ends, uid=NOBODY)[0] == 0
            for uid in (0, 1):
                code, _, err = run_box(*ends, uid=uid)
                assert code == 125, uid
                assert "be that user" in err
    finally:
        path.parent.rmdir()


def test_a_dead_socket_is_replaced_and_a_live_one_is_not(tmp_path, folder):
    path = folder / "box.sock"
    with boxdlib.fake_boxd(tmp_path, "--socket", str(path)) as boxd:
        boxd.wait_served()
        with boxdlib.fake_boxd(tmp_path, "--socket", str(path)) as second:
            assert second.wait() == 1
            assert "another running boxd has it" in second.tail()
        worker = boxd.worker
        os.kill(boxd.pid, signal.SIGKILL)
        boxd.process.wait(10)
        boxdlib.wait_until(lambda: not boxdlib.is_alive(worker))
    assert path.exists()
    with boxdlib.fake_boxd(tmp_path, "--socket", str(path)) as boxd:
        boxd.wait_served()
        assert page(path, "/healthz")[0] == 200
    assert not path.exists()


@needs_root
@pytest.mark.parametrize("fault", ["writable", "foreign", "link", "file"])
def test_a_folder_that_others_could_use_is_refused(tmp_path, folder, fault):
    place = folder / "place"
    place.mkdir(mode=0o755)
    path = place / "box.sock"
    if fault == "writable":
        place.chmod(0o775)
    elif fault == "foreign":
        os.chown(place, NOBODY, NOBODY)
    elif fault == "link":
        (folder / "link").symlink_to(place)
        path = folder / "link" / "box.sock"
    else:
        path.write_text("")
    try:
        with boxdlib.fake_boxd(tmp_path, "--socket", str(path)) as boxd:
            assert boxd.wait() == 1
            assert "the operator's socket" in boxd.tail()
    finally:
        for left in place.iterdir():
            left.unlink()
        place.rmdir()


def test_a_folder_that_others_have_locked_does_not_hold_up_boxd(tmp_path, folder):
    """Whoever can read a folder can lock it; nobody else can read one that boxd creates."""
    with open_folder(folder) as fd:
        fcntl.flock(fd, fcntl.LOCK_EX)
        with boxdlib.fake_boxd(tmp_path, "--socket", str(folder / "box.sock")) as boxd:
            assert boxd.wait() == 1
            assert "another process has its folder locked" in boxd.tail()
    made = folder / "made"
    with boxdlib.fake_boxd(tmp_path, "--socket", str(made / "box.sock")) as boxd:
        boxd.wait_served()
        assert made.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH) == 0
        if boxdlib.ROOT:
            assert as_user(NOBODY, "ls", made).returncode != 0


@contextlib.contextmanager
def open_folder(path):
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield fd
    finally:
        os.close(fd)


@needs_root
def test_box_dials_the_socket_of_root_first(tmp_path):
    """As root no setting is needed; as another user `box` tries TCP next, and is refused with the
    reason."""
    path = pathlib.Path("/run/box/box.sock")
    if path.exists():
        pytest.skip("a boxd of this machine has the operator's socket")
    with boxdlib.Boxd("--socket", str(path), cwd=tmp_path, config=boxdlib.FAKE) as boxd:
        boxd.wait_served()
        assert run_box("create", "hello")[0] == 0
        assert "hello" in run_box("ls")[1]
        code, _, err = run_box("--endpoint", boxd.url, "ls", uid=NOBODY)
        assert code == 125
        assert f"uid {NOBODY}" in err
        assert "LANGBOT_BOX_CONTROL_TOKEN" in err


# TCP without a token.


@pytest.fixture
def open_boxd(tmp_path):
    with boxdlib.fake_boxd(tmp_path) as boxd:
        boxd.wait_served()
        yield boxd


@contextlib.contextmanager
def sockets_of(uid):
    """Sockets that are created meanwhile belong to this user."""
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)


def answer_to(boxd, family, host, bytes_sent):
    with socket.socket(family) as sock:
        sock.settimeout(10)
        sock.connect((host, boxd.port))
        sock.sendall(bytes_sent)
        return sock.recv(4096).decode()


@needs_root
@pytest.mark.smoke
def test_another_user_is_refused_and_told_why(open_boxd):
    for family, host in (
        (socket.AF_INET, "127.0.0.1"),
        (socket.AF_INET6, "::1"),
        (socket.AF_INET6, "::ffff:127.0.0.1"),
    ):
        assert answer_to(open_boxd, family, host, head()).split()[1] == "101", host
        with sockets_of(NOBODY):
            refused = answer_to(open_boxd, family, host, head())
        assert refused.split()[1] == "401", host
        assert f"uid {NOBODY}" in refused
        assert "LANGBOT_BOX_CONTROL_TOKEN" in refused
        assert "operator's socket" in refused
    # Nor may it see more than `live`.
    with sockets_of(NOBODY):
        assert open_boxd.http("/readyz")[2] == b'{"ready":true}'
        assert open_boxd.http("/healthz")[2] == b'{"live":true}'
        assert open_boxd.http("/metrics")[0] == 401
    assert open_boxd.http("/metrics")[0] == 200


@pytest.mark.parametrize("how", ["shutdown", "closed", "reset"])
def test_the_owner_of_a_closed_socket_is_nobody(open_boxd, how):
    """The kernel reports a closed socket as root's. Requests on it are not obeyed."""
    os.kill(open_boxd.worker, signal.SIGSTOP)
    try:
        with socket.create_connection(("127.0.0.1", open_boxd.port)) as sock:
            sock.sendall(head(instance="closed"))
            if how == "shutdown":
                sock.shutdown(socket.SHUT_WR)
            elif how == "reset":
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if how != "shutdown":
                sock.close()
            os.kill(open_boxd.worker, signal.SIGCONT)
            if how == "shutdown":
                assert status_of(sock) == 401
    finally:
        os.kill(open_boxd.worker, signal.SIGCONT)
    if how == "closed":
        open_boxd.wait_event("connection.refused")
    time.sleep(0.1)
    metrics = open_boxd.http("/metrics")[2].decode()
    assert 'box_connections_opened_total{transport="websocket"} 0' in metrics


@needs_root
def test_the_user_that_runs_boxd_is_let_in(tmp_path):
    """And root; but no other user."""
    before = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--")
    with boxdlib.Boxd(before=before, cwd="/", config=boxdlib.FAKE) as boxd:
        assert run_box("--endpoint", boxd.url, "ls", uid=NOBODY)[0] == 0
        assert run_box("--endpoint", boxd.url, "ls", uid=0)[0] == 0
        assert "of uid 1." in run_box("--endpoint", boxd.url, "ls", uid=1)[2]


@needs_root
def test_unauthenticated_lets_in_everyone(tmp_path):
    with boxdlib.fake_boxd(tmp_path, "--unauthenticated") as boxd:
        assert run_box("--endpoint", boxd.url, "ls", uid=NOBODY)[0] == 0
        assert "ANYONE WHO REACHES" in boxd.wait_event("listening.unauthenticated")["why"]


def test_a_wider_listener_needs_a_token_or_the_word(tmp_path):
    file = tmp_path / "box.yaml"
    file.write_text("unauthenticated: true\n")
    wide = ("--host=0.0.0.0", "--check-config")
    for words, env, code in (
        (wide, {}, 78),
        (("--host=::", "--check-config"), {}, 78),
        (("--host=127.0.0.1", "--check-config"), {}, 0),
        (wide, {"LANGBOT_BOX_CONTROL_TOKEN": OLD}, 0),
        ((*wide, "--unauthenticated"), {}, 0),
        (wide, {"LANGBOT_BOX_UNAUTHENTICATED": "1"}, 0),
        ((*wide, "--config", str(file)), {}, 0),
        # Only the operator's own file may set it.
        (wide, {"LANGBOT_BOX_CONFIG": '{"unauthenticated": true}'}, 78),
    ):
        with boxdlib.Boxd(*words, env=env, cwd=tmp_path) as boxd:
            assert boxd.process.wait(10) == code, (words, env)
    with boxdlib.Boxd("--host=0.0.0.0", cwd=tmp_path) as boxd:
        assert boxd.wait() == 78
        assert "LANGBOT_BOX_CONTROL_TOKEN or --token-file" in boxd.tail()


# Token changes.


def test_tokens_are_changed_without_a_restart(tmp_path):
    file = tmp_path / "token"
    file.write_text(OLD + "\n")
    file.chmod(0o600)

    def comes_in(token):
        with socket.create_connection(("127.0.0.1", boxd.port)) as sock:
            fields = {"X-LangBot-Box-Control-Token": token} if token else {}
            sock.sendall(head("inst", **fields))
            return status_of(sock) == 101

    def reload(event, count):
        boxd.signal(signal.SIGHUP)
        return boxd.wait_event(event, count)

    with boxdlib.fake_boxd(tmp_path, "--token-file", str(file)) as boxd:
        boxd.wait_served()
        assert [comes_in(token) for token in (OLD, NEW, None)] == [True, False, False]
        with boxd.web(token=OLD) as client:
            file.write_text(f"{OLD}\n{NEW}\n")
            assert reload("token.reloaded", 1)["tokens"] == 2
            assert [comes_in(token) for token in (OLD, NEW, None)] == [True, True, False]
            file.write_text(f"\n{NEW}\n")
            assert reload("token.reloaded", 2)["tokens"] == 1
            assert [comes_in(token) for token in (OLD, NEW, None)] == [False, True, False]
            assert client.ask("__ping") == {}  # existing connections stay
        # An invalid or empty file changes nothing.
        for count, text in enumerate(("short\n", "", f"{OLD}\n{NEW}\n{OLD}x\n"), 1):
            file.write_text(text)
            reload("token.reload_refused", count)
            assert [comes_in(token) for token in (OLD, NEW, None)] == [False, True, False]
        file.chmod(0o602)
        reload("token.reload_failed", 1)
        # A successor has the last valid one, not the first.
        boxd.kill_worker()
        boxd.wait_served(2)
        assert [comes_in(token) for token in (OLD, NEW, None)] == [False, True, False]
        told = "\n".join(boxd.lines)
        assert OLD not in told
        assert NEW not in told


def test_token_files_that_are_refused(tmp_path):
    file = tmp_path / "box-token"
    file.write_text(OLD)
    file.chmod(0o600)
    named = ("--check-config", "--token-file", str(file))
    systemd = {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    with boxdlib.Boxd("--check-config", "--host=0.0.0.0", env=systemd, cwd=tmp_path) as boxd:
        assert boxd.process.wait(10) == 0
    with boxdlib.Boxd(*named, token=OLD, cwd=tmp_path) as boxd:
        assert boxd.wait() == 2
        assert "not together with" in boxd.tail()
    for mode, text, code in ((0o604, OLD, 0), (0o602, OLD, 2), (0o600, "short", 78), (0o600, "", 78)):
        file.write_text(text)
        file.chmod(mode)
        with boxdlib.Boxd(*named, cwd=tmp_path) as boxd:
            assert boxd.wait() == code, (mode, text)
            assert bool(boxd.events("token.readable")) == (mode == 0o604)
    with boxdlib.Boxd("--check-config", "--token-file", "/nothing", cwd=tmp_path) as boxd:
        assert boxd.process.wait(10) == 2


# Instances.


def test_looking_claims_nothing_and_a_claim_shuts_out_others(open_boxd):
    with open_boxd.web(instance="stranger") as stranger, open_boxd.web(instance="owner") as owner:
        stranger.context = context(instance="stranger")
        owner.context = context(instance="owner")
        for action in ("__ping", "box_health", "box_get_backend_info", "box_status"):
            stranger.ask(action)
        assert stranger.ask("box_get_sessions")["sessions"] == []
        # A refused request creates nothing.
        for spec in ({"session_id": "s", "memory_mb": -1}, {"session_id": ""}, {}):
            stranger.fail("box_create_session", spec)
        stranger.fail("box_init", {"session_ttl_sec": "x"})
        assert not open_boxd.events("instance.claimed")
        assert stranger.fail("box_status", context=context(instance="owner")).startswith(
            "PermissionError: "
        )
        owner.ask("box_create_session", {"session_id": "s"})
        assert open_boxd.wait_event("instance.claimed")["instance"] == "owner"
        for action in ("__ping", "box_status", "box_init", "box_shutdown"):
            assert "claimed by another instance" in stranger.fail(action), action
        assert [one["session_id"] for one in owner.ask("box_get_sessions")["sessions"]] == ["s"]
    assert len(open_boxd.events("instance.claimed")) == 1
    open_boxd.kill_worker()
    open_boxd.wait_served(2)
    with socket.create_connection(("127.0.0.1", open_boxd.port)) as sock:
        sock.sendall(head("stranger"))
        assert status_of(sock) == 401


# The log.


def test_strangers_are_one_line_a_second(open_boxd):
    begun = time.monotonic()
    for _ in range(150):
        with socket.create_connection(("127.0.0.1", open_boxd.port)) as sock:
            sock.sendall(b"nonsense\r\n\r\n")
            assert status_of(sock) == 400
    boxdlib.wait_until(
        lambda: open_boxd.counted("connection.refused") == 150
    )
    seconds = time.monotonic() - begun
    assert len(open_boxd.events("connection.refused")) <= seconds + 2


def test_clients_at_fault_are_one_line_a_second(open_boxd):
    """Authenticated clients can cause warnings as fast as they can send."""
    begun = time.monotonic()
    with open_boxd.web() as client:
        for _ in range(150):
            client.send_text("{}")
        client.ask("__ping")
    for _ in range(50):
        with socket.create_connection(("127.0.0.1", open_boxd.port)) as sock:
            sock.sendall(head("inst") + frame(1, PING, masked=False))
            all_of(sock)
    for name, count in (("message.ignored", 150), ("websocket.closed", 50)):
        boxdlib.wait_until(lambda: open_boxd.counted(name) == count)
        assert len(open_boxd.events(name)) <= time.monotonic() - begun + 2


# What RFC 6455 requires for accepted and refused clients.


def frame(opcode, payload=b"", final=True, reserved=0, masked=True, length=None):
    size = len(payload) if length is None else length
    bit = 0x80 if masked else 0
    if size < 126:
        shown = bytes([bit | size])
    elif size < 65536:
        shown = bytes([bit | 126]) + struct.pack(">H", size)
    else:
        shown = bytes([bit | 127]) + struct.pack(">Q", size)
    return bytes([final << 7 | reserved << 4 | opcode]) + shown + (bytes(4) if masked else b"") + payload


PING = b'{"seq_id":1,"action":"__ping","data":{}}'
FAULTS = {
    "text that is not masked": (frame(1, PING, masked=False), 1002),
    "a ping that is not masked": (frame(9, b"x", masked=False), 1002),
    "a close that is not masked": (frame(8, b"\x03\xe8", masked=False), 1002),
    "behind a good one": (frame(1, PING) + frame(1, PING, masked=False), 1002),
    "reserved bits": (frame(1, PING, reserved=4), 1002),
    "unknown kind": (frame(3, PING), 1002),
    "ping in fragments": (frame(9, final=False), 1002),
    "long ping": (frame(9, b"x" * 126), 1002),
    "fragment of nothing": (frame(0, PING), 1002),
    "message in a message": (frame(1, b"{", final=False) + frame(1, PING), 1002),
    "a close code that is none": (frame(8, struct.pack(">H", 999)), 1002),
    "no UTF-8": (frame(1, b'{"a":"\xff"}'), 1007),
    "too large": (frame(2, b"x", length=17 << 20), 1009),
    "a close with half a code": (frame(8, b"\x03"), 1002),
    "a close code that no peer may send": (frame(8, struct.pack(">H", 1005)), 1002),
    "a close code of nobody": (frame(8, struct.pack(">H", 2999)), 1002),
    "a close code that is too high": (frame(8, struct.pack(">H", 5000)), 1002),
    "a reason that is no UTF-8": (frame(8, b"\x03\xe8\xc3\x28"), 1007),
    "a reason that is cut": (frame(8, b"\x03\xe8\xe2\x82"), 1007),
    "a good close": (frame(8, b"\x03\xe8"), 1000),
    "a good close with a reason": (frame(8, b"\x03\xe9\xe2\x82\xac"), 1001),
    "a good close of an application": (frame(8, struct.pack(">H", 4321)), 4321),
}


def all_of(sock):
    sock.settimeout(10)
    whole = b""
    while piece := sock.recv(4096):
        whole += piece
    return whole


def test_faults_of_framing_are_told_by_their_code(open_boxd):
    """Also when they come together with the request head."""
    for name, (sent, code) in FAULTS.items():
        for together in (False, True):
            with socket.create_connection(("127.0.0.1", open_boxd.port)) as sock:
                sock.sendall(head("inst") + (sent if together else b""))
                if not together:
                    sock.settimeout(10)
                    assert sock.recv(4096).startswith(b"HTTP/1.1 101 "), name
                    sock.sendall(sent)
                whole = all_of(sock)
                at = whole.rfind(b"\x88")
                assert at >= 0, (name, together, whole)
                assert struct.unpack(">H", whole[at + 2 : at + 4])[0] == code, (name, together)


@pytest.mark.parametrize("cut", [6, 7, 8, 9])
def test_a_close_in_pieces_is_judged_whole(open_boxd, cut):
    sent = frame(8, b"\x03\xe8\xc3\x28")
    with socket.create_connection(("127.0.0.1", open_boxd.port)) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.sendall(head("inst") + frame(1, PING))
        sock.settimeout(10)
        while b'"seq_id":1' not in sock.recv(4096):
            pass
        sock.sendall(sent[:cut])
        time.sleep(0.05)
        sock.sendall(sent[cut:])
        whole = all_of(sock)
        at = whole.rfind(b"\x88")
        assert struct.unpack(">H", whole[at + 2 : at + 4])[0] == 1007


def test_a_box_rpc_whose_reads_are_not_judged_serves_nobody(tmp_path):
    """As if the linker had not exported our recv: libwebsockets would call libc's."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("boxd", "box-init", "box-skills", "box-rpc"):
        content = (boxdlib.build() / name).read_bytes()
        if name == "box-rpc":
            assert b"\0recv\0" in content
            content = content.replace(b"\0recv\0", b"\0recx\0")
        (programs / name).write_bytes(content)
        (programs / name).chmod(0o755)
    with boxdlib.fake_boxd(tmp_path, programs=programs) as boxd:
        assert boxd.wait(20) != 0
        assert "recv is not the one that libwebsockets calls" in boxd.tail()
        assert not boxd.events("serving")


def test_refused_upgrades_have_their_status(open_boxd):
    for fields, status in (
        ({"Sec-WebSocket-Version": "8"}, 426),
        ({"Upgrade": "h2c"}, 400),
        ({"Connection": "close"}, 400),
        ({"Sec-WebSocket-Key": "short"}, 400),
    ):
        with socket.create_connection(("127.0.0.1", open_boxd.port)) as sock:
            sock.sendall(head("inst", **fields))
            whole = all_of(sock)
            assert int(whole.split()[1]) == status, fields
            assert (b"Sec-WebSocket-Version: 13" in whole) == (status == 426)
