"""Attempts by the host's users who may not connect to boxd, and by clients that try to exceed their
privileges. Each has a boxd of its own.

The stranger is a user of this host who is neither root nor the one that runs boxd. What may be
returned is as in inside/frame.py.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import time

import boxdlib
import clientlib
from frame import blocked, escaped, first_escape

from outside import attempt

STRANGER = 34567
TOKEN = "token-of-the-attempts-0123456789abcdef"
CONNECTIONS = 200  # of one who would fill the log
UPGRADE = (
    "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{more}\r\n"
)

# The stranger's program: connects to each address, sends its bytes, and prints the first line of
# each answer, or the error. A connection that is to be closed at once is not read.
SPEAK = """
import json, socket, sys
told = []
for family, place, text, closed in json.load(sys.stdin):
    try:
        with socket.socket(getattr(socket, family)) as sock:
            sock.settimeout(10)
            sock.connect(tuple(place) if isinstance(place, list) else place)
            sock.sendall(text.encode("latin-1"))
            told.append("closed" if closed else sock.recv(4096).decode().split("\\r\\n")[0])
    except OSError as error:
        told.append(str(error))
print(json.dumps(told))
"""


def user_of(world):
    """The user that boxd runs as."""
    return world.owner if world.rootless else 0


def make_folder(world, name):
    folder = world.host.folder / f"{name}-{time.monotonic_ns()}"
    folder.mkdir(mode=0o755)
    os.chown(folder, user_of(world), user_of(world))
    return folder


@contextlib.contextmanager
def runtime(world, *flags, **options):
    """A second boxd with the same programs and user, claimed by no instance."""
    before = ()
    if world.rootless:
        uid = user_of(world)
        before = ("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--")
    with boxdlib.Boxd(
        f"--config={world.host.folder / 'boxd.yaml'}",
        *flags,
        programs=world.programs,
        before=before,
        cwd=make_folder(world, "cwd"),
        **options,
    ) as boxd:
        yield boxd


def upgrade(path="/rpc/ws", **fields):
    more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items())
    return UPGRADE.format(path=path, more=more)


def as_stranger(*asked):
    """The results for each (family, place, text, closed)."""
    ids = ("setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups", "--")
    done = subprocess.run(
        [*ids, "/usr/bin/python3", "-s", "-E", "-c", SPEAK],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        timeout=60,
        cwd="/",
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def places(boxd):
    return (
        ("AF_INET", ("127.0.0.1", boxd.port)),
        ("AF_INET6", ("::1", boxd.port)),
        ("AF_INET6", ("::ffff:127.0.0.1", boxd.port)),
    )


def judge(told):
    """Answers to upgrades, or to requests for pages with secrets."""
    for line in told:
        if line.startswith(("HTTP/1.1 101 ", "HTTP/1.1 200 ")):
            return escaped(line)
    return blocked("; ".join(sorted(set(told))))


@attempt("host", "speak-as-another-user")
def _(world):
    head = upgrade(X_LangBot_Instance_Id="stranger")
    with runtime(world) as boxd:
        asked = [(*place, head, False) for place in places(boxd)]
        asked.append(("AF_INET", ("127.0.0.1", boxd.port), upgrade("/metrics"), False))
        return judge(as_stranger(*asked))


@attempt("host", "speak-by-a-socket-that-was-closed")
def _(world):
    """The kernel reports a closed socket as root's, while its data has not been read yet."""
    head = upgrade(X_LangBot_Instance_Id="stranger")
    message = b'{"seq_id":1,"action":"box_create_session","data":{"session_id":"closed"}}'
    bits = bytes([0x81, 0x80 | len(message)]) + bytes(4) + message
    assert len(message) < 126
    with runtime(world) as boxd:
        asked = [(*place, head + bits.decode("latin-1"), True) for place in places(boxd)]
        os.kill(boxd.worker, signal.SIGSTOP)
        try:
            assert "closed" in as_stranger(*asked)
        finally:
            os.kill(boxd.worker, signal.SIGCONT)
        # A client that is let in may be gone before it counts as a connection.
        end = time.monotonic() + 3
        while boxd.counted("connection.refused") < len(asked) and time.monotonic() < end:
            time.sleep(0.05)
        refused = boxd.counted("connection.refused")
        said = f"{refused} of {len(asked)} refused"
        return escaped(said) if refused < len(asked) else blocked(said)


@attempt("host", "claim-by-looking")
def _(world):
    """A client that only looks claims the runtime, and locks out its users."""
    with runtime(world) as boxd:
        with boxd.web(instance="stranger") as client:
            client.context = clientlib.context(instance="stranger")
            for action in ("__ping", "box_health", "box_status", "box_get_sessions"):
                client.call(action)
        head = upgrade(X_LangBot_Instance_Id="owner")
        with socket.create_connection(("127.0.0.1", boxd.port), 10) as sock:
            sock.sendall(head.encode())
            answer = sock.recv(4096).decode().split("\r\n")[0]
    return blocked("the owner came in") if " 101 " in answer else escaped(f"the owner: {answer}")


@attempt("host", "listen-wide-without-a-token")
def _(world):
    results = []
    for host in ("0.0.0.0", "::"):
        with runtime(world, f"--host={host}") as boxd:
            boxdlib.wait_until(
                lambda: boxd.process.poll() is not None or boxd.events("serving"), 20
            )
            code = boxd.process.poll()
            results.append(escaped(f"serves {host}") if code is None else blocked(f"exit {code}"))
    return first_escape(results)


@attempt("host", "strangers-fill-the-log")
def _(world):
    with runtime(world) as boxd:
        begun = time.monotonic()
        place = ("AF_INET", ("127.0.0.1", boxd.port))
        head = upgrade(X_LangBot_Instance_Id="stranger")
        before = len(boxd.lines)
        sent = [head if n % 2 else "nonsense\r\n\r\n" for n in range(CONNECTIONS)]
        as_stranger(*[(*place, text, False) for text in sent])
        time.sleep(0.2)
        lines = len(boxd.lines) - before
        most = time.monotonic() - begun + 4
    said = f"{lines} lines of {CONNECTIONS} connections"
    return escaped(said) if lines > most else blocked(said)


def at_the_operators_socket(world, mode):
    path = make_folder(world, "operator") / "box.sock"
    with runtime(world, "--socket", str(path)) as boxd:
        boxd.wait_served()
        if mode:
            path.chmod(mode)
        asked = [("AF_UNIX", str(path), upgrade(page), False) for page in ("/rpc/ws", "/metrics")]
        return judge(as_stranger(*asked))


@attempt("host", "operators-socket-as-another-user")
def _(world):
    return at_the_operators_socket(world, None)


@attempt("host", "operators-socket-with-a-loosened-mode")
def _(world):
    return at_the_operators_socket(world, 0o666)


# Clients with the token, which are not the operator.


@attempt("host", "reserved-instances-by-tcp")
def _(world):
    told = []
    with runtime(world, token=TOKEN) as boxd:
        for name in ("_operator", "_unnamed", "_"):
            head = upgrade(X_LangBot_Instance_Id=name, X_LangBot_Box_Control_Token=TOKEN)
            with socket.create_connection(("127.0.0.1", boxd.port), 10) as sock:
                sock.sendall(head.encode())
                told.append(sock.recv(4096).decode().split("\r\n")[0])
    return judge(told)


def dial_operator(path, uid):
    os.seteuid(uid)
    try:
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(str(path))
        return sock
    finally:
        os.seteuid(0)


@contextlib.contextmanager
def operator_and_client(world):
    """Of one boxd: its operator, who has the session `mine`, and a client with the token."""
    path = make_folder(world, "operator") / "box.sock"
    with runtime(world, "--socket", str(path), token=TOKEN) as boxd:
        boxd.wait_served()
        sock = dial_operator(path, user_of(world))
        with clientlib.Web(boxd, instance=None, sock=sock) as operator:
            operator.context = clientlib.context(instance="_operator")
            operator.ask("box_create_session", {"session_id": "mine"})
            with boxd.web(instance="tenant") as client:
                client.context = clientlib.context(instance="tenant")
                yield operator, client


def names_of(answer):
    return [one["session_id"] for one in answer["data"].get("sessions", [])]


@attempt("host", "operators-sessions-by-a-token")
def _(world):
    with operator_and_client(world) as (operator, client):
        assert names_of(operator.call("box_get_sessions")) == ["mine"]
        answers = [
            client.call("box_get_sessions", context=one)
            for one in (operator.context, client.context, None)
        ]
    seen = [name for answer in answers for name in names_of(answer)]
    return escaped(f"seen: {seen}") if seen else blocked(answers[0]["message"])


@attempt("host", "sessions-of-all-workspaces-by-a-token")
def _(world):
    with operator_and_client(world) as (operator, client):
        assert names_of(operator.call("box_get_sessions", {"all": True})) == ["mine"]
        answer = client.call("box_get_sessions", {"all": True})
    seen = names_of(answer)
    return escaped(f"seen: {seen}") if seen else blocked(answer["message"])


@attempt("host", "operators-sessions-end-with-a-clients")
def _(world):
    """A client ends its own boxes, all of them, and nothing else."""
    with operator_and_client(world) as (operator, client):
        client.ask("box_create_session", {"session_id": "tenants"})
        client.call("box_shutdown")
        left = names_of(operator.call("box_get_sessions"))
        return blocked("it is there still") if left == ["mine"] else escaped(f"left: {left}")


@attempt("host", "init-lets-in-everyone")
def _(world):
    """Settings of the operator's own file, sent by a client."""
    with runtime(world) as boxd:
        with boxd.web(instance="tenant") as client:
            client.call("box_init", {"unauthenticated": True, "metrics_open": True}, context=None)
            head = upgrade(X_LangBot_Instance_Id="tenant")
            place = ("AF_INET", ("127.0.0.1", boxd.port))
            return judge(as_stranger((*place, head, False), (*place, upgrade("/metrics"), False)))
