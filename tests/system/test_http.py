"""The HTTP side: probes, metrics, who may come in by WebSocket, and malformed requests."""

import base64
import contextlib
import hashlib
import json
import os
import re
import signal
import socket
import time

import pytest
from prometheus_client.parser import text_string_to_metric_families
from websockets.exceptions import InvalidStatus

import boxlib
from boxlib import INSTANCE, TOKEN, context

KEY = "dGhlIHNhbXBsZSBub25jZQ=="
UPGRADE = {
    "Host": "127.0.0.1",
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": KEY,
    "X-LangBot-Instance-Id": INSTANCE,
}


@contextlib.contextmanager
def opened(boxd):
    with socket.create_connection(("127.0.0.1", boxd.port), timeout=10) as raw:
        yield raw


def read_answer(raw):
    """(status, headers with lower-case names, body) of what comes until the peer closes."""
    data = b""
    while piece := raw.recv(65536):
        data += piece
        if data.startswith(b"HTTP/1.1 101") and b"\r\n\r\n" in data:
            break
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    found = re.fullmatch(r"HTTP/1\.1 (\d{3}) [A-Za-z ]+", lines[0])
    assert found, data
    headers = {}
    for line in lines[1:]:
        name, _, value = line.partition(": ")
        assert name.lower() not in headers, f"{name} twice"
        headers[name.lower()] = value
    return int(found[1]), headers, body


def say(boxd, text):
    """Sends bytes as they are, and gives the answer."""
    with opened(boxd) as raw:
        raw.sendall(text.encode() if isinstance(text, str) else text)
        return read_answer(raw)


def request(boxd, path, headers, method="GET"):
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return say(boxd, "\r\n".join(lines) + "\r\n\r\n")


def upgrade(boxd, path="/rpc/ws", without=(), **fields):
    """An upgrade with some headers left out or changed (`_` stands for `-`)."""
    headers = {name: value for name, value in UPGRADE.items() if name not in without}
    for name, value in fields.items():
        headers[name.replace("_", "-")] = value
    return request(boxd, path, headers)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A boxd for tests that leave nothing behind."""
    with boxlib.Boxd(instance=INSTANCE, cwd=tmp_path_factory.mktemp("shared")) as boxd:
        yield boxd


@pytest.fixture(scope="module")
def locked(tmp_path_factory):
    """A boxd with a token and a trusted instance."""
    with boxlib.Boxd(
        instance=INSTANCE, token=TOKEN, cwd=tmp_path_factory.mktemp("locked")
    ) as boxd:
        yield boxd


# 1. Probes and pages.


def test_healthz(web):
    status, headers, body = web.http("/healthz")
    assert status == 200 and headers["Content-Type"].startswith("application/json")
    health = json.loads(body)
    assert health["live"] is True
    assert health["resources"]["sessions"] == 0
    with web.web() as client:
        client.init()
        client.exec("echo x")
        resources = json.loads(web.http("/healthz")[2])["resources"]
    assert resources["sessions"] == 1
    assert (resources["managed_processes"], resources["completed_processes"]) == (0, 0)


def test_readyz(web):
    """503 without a backend, 200 with one."""
    status, _, body = web.http("/readyz")
    ready = json.loads(body)
    assert status == 503
    assert (ready["ready"], ready["mode"]) == (False, "standard")
    assert ready["backend"] == {"name": None, "available": False}
    assert ready["checks"] == {"backend_available": False}
    with web.web() as client:
        client.init()
    status, _, body = web.http("/readyz")
    ready = json.loads(body)
    assert status == 200
    assert ready["resources"]["sessions"] == 0
    assert (ready["ready"], ready["mode"]) == (True, "standard")
    assert ready["backend"] == {"name": "fake", "available": True}
    assert ready["checks"] == {"backend_available": True}


def test_readyz_under_admission(web):
    with web.web() as client:
        client.init(admission={"required": True, "workspace_quota_mb": 64})
        info = client.ask("box_get_backend_info")
    status, _, body = web.http("/readyz")
    ready = json.loads(body)
    assert status == 503 and ready["mode"] == "grant_enforced"
    checks = ready["checks"]
    assert {
        "configuration",
        "required_backend",
        "workspace_mount",
        "backend_available",
        "cgroup_v2",
        "namespace_isolation",
        "mount_isolation",
        "network_isolation",
        "hard_workspace_quota",
        "hard_skill_storage_quota",
        "hard_read_only_mount_quota",
        "bounded_ephemeral_storage",
        "inode_quota",
        "session_cap",
        "managed_process_cap",
    } == set(checks)
    assert checks["hard_skill_storage_quota"] == checks["hard_read_only_mount_quota"]
    assert ready["unsafe_soft_storage_limits"] is False
    assert info["available"] is False and info["readiness"]["checks"] == checks


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
def test_head(shared, path):
    """The headers of GET, and no body."""
    status, headers, body = request(shared, path, {"Host": "localhost"}, "HEAD")
    got, got_headers, got_body = request(shared, path, {"Host": "localhost"})
    assert body == b"" and got_body
    assert status == got
    if path != "/metrics":
        assert headers == got_headers
    assert int(got_headers["content-length"]) == len(got_body)
    assert headers["connection"] == "close"
    assert (headers["cache-control"], headers["x-content-type-options"]) == ("no-store", "nosniff")


def test_query_is_no_part_of_the_path(shared):
    assert request(shared, "/healthz?x=1", {"Host": "localhost"})[0] == 200


@pytest.mark.parametrize(
    "path",
    ["/", "/nothing", "/healthz/", "/Healthz", "//healthz", "/rpc", "/rpc/ws/", "/%68ealthz"],
)
def test_not_found(shared, path):
    assert request(shared, path, {"Host": "localhost"})[0] == 404
    assert upgrade(shared, path)[0] == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "get"])
def test_method_not_allowed(shared, method):
    status, headers, _ = request(shared, "/healthz", {"Host": "localhost"}, method)
    assert status == 405
    assert set(headers["allow"].split(", ")) == {"GET", "HEAD"}


def test_method_not_allowed_on_sockets(shared):
    for method in ("POST", "HEAD"):
        status, headers, _ = request(shared, "/rpc/ws", UPGRADE, method)
        assert status == 405
        assert headers["allow"] == "GET"


# 2. Metrics.


def scrape(boxd):
    """{(name, labels as a frozenset): value} of all samples, and {family: type}."""
    status, headers, body = boxd.http("/metrics")
    assert status == 200 and headers["Content-Type"].startswith("text/plain; version=0.0.4")
    samples, types = {}, {}
    for family in text_string_to_metric_families(body.decode()):
        assert family.documentation, f"{family.name} has no HELP"
        types[family.name] = family.type
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in samples, f"{key} twice"
            samples[key] = sample.value
    return samples, types


def moved(before, after):
    """What changed, with labels as a plain map in the key's place: name{a=b}."""
    changes = {}
    for (name, labels), value in after.items():
        difference = value - before.get((name, labels), 0)
        if difference:
            inner = ",".join(f"{key}={text}" for key, text in sorted(labels))
            changes[f"{name}{{{inner}}}"] = difference
    return changes


def test_metrics_count_exactly(web):
    with web.web() as client:
        client.init()
        client.ask("__ping")
        before, types = scrape(web)
        seq = client._seq
        texts = [
            '{"seq_id": %d, "action": "__ping", "data": {}}' % (seq + 1000 + n) for n in range(3)
        ]
        texts += [
            '{"seq_id": 5000, "action": "nothing", "data": {}}',
            '{"seq_id": 5001, "action": "box_exec", "data": {"cmd": "echo x", "session_id": "s"}}',
            '{"seq_id": 5002, "action": "box_exec", "data": {"cmd": "", "session_id": "s"}}',
        ]
        for text in texts:
            client.send_text(text)
        answers = [client.receive() for _ in texts]
        client.send_text("no JSON")
        client.send_text("[]")
        client.call("__ping")
        after, _ = scrape(web)
    changes = moved(before, after)
    times = {k: v for k, v in changes.items() if k.startswith("box_request_duration_seconds")}
    counts = {k.removeprefix("box_request_duration_seconds_"): v for k, v in times.items()}
    assert counts["count{action=__ping}"] == 4 and counts["count{action=box_exec}"] == 2
    assert counts["bucket{action=__ping,le=+Inf}"] == 4
    rest = {k: v for k, v in changes.items() if k not in times and "resident" not in k}
    received = rest.pop("box_received_bytes_total{codec=json,transport=websocket}")
    sent = rest.pop("box_sent_bytes_total{codec=json,transport=websocket}")
    assert received >= sum(map(len, texts)) + len("[]")
    assert sent >= sum(len(json.dumps(answer, separators=(",", ":"))) for answer in answers)
    assert rest == {
        "box_requests_total{action=__ping,result=ok}": 4,
        "box_requests_total{action=box_exec,result=ok}": 1,
        "box_requests_total{action=box_exec,result=error}": 1,
        "box_unknown_actions_total{}": 1,
        "box_ignored_messages_total{}": 2,
        "box_messages_received_total{codec=json,transport=websocket}": rest[
            "box_messages_received_total{codec=json,transport=websocket}"
        ],
        "box_messages_sent_total{codec=json,transport=websocket}": 7,
        "box_sessions{}": 1,
    }
    # Whether what was ignored counts as received is the runtime's business; requests do.
    assert 7 <= rest["box_messages_received_total{codec=json,transport=websocket}"] <= 9
    assert types["box_requests"] == "counter" and types["box_sessions"] == "gauge"
    assert types["box_request_duration_seconds"] == "histogram"


def test_metrics_of_connections(web):
    before, _ = scrape(web)
    with web.web() as client:
        client.ask("__ping")
        during, _ = scrape(web)
        assert during[("box_connections", frozenset({("transport", "websocket")}))] == 1
    assert upgrade(web, X_LangBot_Instance_Id="another")[0] == 401
    say(web, "GET\r\n\r\n")

    def closed():
        after, _ = scrape(web)
        open_now = after[("box_connections", frozenset({("transport", "websocket")}))]
        return after if open_now == 0 else None

    changes = moved(before, boxlib.wait_until(closed))
    assert changes["box_connections_opened_total{transport=websocket}"] == 1
    assert changes["box_handshakes_refused_total{}"] == 2
    assert "box_connections{transport=websocket}" not in changes


def test_metrics_count_running_and_cancelled(web):
    with web.web() as client:
        client.init()
        seq = client.start("box_exec", {"cmd": "sleep 60000", "session_id": "s"})
        client.ask("__ping")
        assert scrape(web)[0][("box_requests_under_way", frozenset())] == 1
        client.ask("__cancel_action", {"seq_id": seq})
        samples, _ = scrape(web)
        assert samples[("box_requests_under_way", frozenset())] == 0
        labels = frozenset({("action", "box_exec"), ("result", "cancelled")})
        assert samples[("box_requests_total", labels)] == 1


def test_metrics_count_stdio_and_codecs(tmp_path):
    with boxlib.Boxd(stdio=True, cwd=tmp_path) as boxd, boxlib.Stdio(boxd) as client:
        for _ in range(5):
            client.ask("__ping")
        samples, _ = scrape(boxd)
        labels = frozenset({("transport", "stdio"), ("codec", "json")})
        assert samples[("box_messages_received_total", labels)] == 5
        assert samples[("box_messages_sent_total", labels)] == 5
        assert samples[("box_connections", frozenset({("transport", "stdio")}))] == 1


def test_metrics_count_restarts(web):
    web.port
    os.kill(web.worker, signal.SIGKILL)
    web.wait_event("serving", 2)
    assert scrape(web)[0][("box_worker_restarts_total", frozenset())] == 1


# 3. Malformed requests.


HOST = "Host: localhost\r\n"


@pytest.mark.parametrize(
    "text",
    [
        f"GET /healthz HTTP/1.1\r\n{HOST}Content-Length: 0\r\nContent-Length: 0\r\n\r\n",
        f"GET /healthz HTTP/1.1\r\n{HOST}Content-Length: 0\r\ncontent-length: 5\r\n\r\nhello",
        f"GET /healthz HTTP/1.1\r\n{HOST}Content-Length: -1\r\n\r\n",
        f"GET /healthz HTTP/1.1\r\n{HOST}Content-Length: 0x1\r\n\r\n",
        f"GET /healthz HTTP/1.1\r\n{HOST}Content-Length: 5, 5\r\n\r\nhello",
        f"GET /healthz HTTP/1.1\r\n{HOST}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        f"GET /healthz HTTP/1.1\r\n{HOST}Content-Length: 5\r\n\r\nhello",
        f"GET /healthz HTTP/1.1\r\n{HOST}X: a\r\n b\r\n\r\n",
        f"GET /healthz HTTP/1.1\r\n{HOST}X : a\r\n\r\n",
        f"GET /healthz HTTP/1.1\r\n X: a\r\n{HOST}\r\n",
        f"GET /healthz HTTP/1.1\r\n{HOST}no colon\r\n\r\n",
        f"GET /healthz HTTP/1.1\r\n{HOST}X: a\x00b\r\n\r\n",
        f"GET /healthz HTTP/1.1\r\n{HOST}X: a\rb\r\n\r\n",
        "GET /healthz HTTP/1.1\nHost: localhost\n\n",
        "GET /healthz HTTP/1.1\r\nHost: localhost\n\r\n",
        "GET /healthz HTTP/1.1\r\n\r\n",
        f"GET /healthz HTTP/1.1\r\n{HOST}{HOST}\r\n",
        f"GET /healthz HTTP/1.0\r\n{HOST}\r\n",
        f"GET /healthz HTTP/2.0\r\n{HOST}\r\n",
        f"GET /healthz\r\n{HOST}\r\n",
        f"GET  /healthz HTTP/1.1\r\n{HOST}\r\n",
        f"GET http://localhost/healthz HTTP/1.1\r\n{HOST}\r\n",
        f"GET healthz HTTP/1.1\r\n{HOST}\r\n",
        f"GET * HTTP/1.1\r\n{HOST}\r\n",
        f"\r\nGET /healthz HTTP/1.1\r\n{HOST}\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
)
def test_bad_request(shared, text):
    status, headers, body = say(shared, text)
    assert status == 400
    assert headers["connection"] == "close" and int(headers["content-length"]) == len(body)
    assert shared.http("/healthz")[0] == 200


def test_bytes_that_are_no_text(shared):
    assert say(shared, b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n")[0] == 400
    assert say(shared, b"GET / HTTP/1.1\r\nHost: localhost\r\nX: \xe9\r\n\r\n")[0] == 400


def test_head_too_large(shared):
    """8 KiB for all of it, 64 fields: one more is 431, one less is served."""

    def sized(size):
        text = f"GET /healthz HTTP/1.1\r\n{HOST}X: "
        return text + "x" * (size - len(text) - 4) + "\r\n\r\n"

    assert len(sized(8192)) == 8192
    assert say(shared, sized(8192))[0] == 200
    assert say(shared, sized(8193))[0] == 431
    assert say(shared, sized(60000))[0] == 431

    def fields(count):
        more = "".join(f"X-{n}: 1\r\n" for n in range(count - 1))
        return f"GET /healthz HTTP/1.1\r\n{HOST}{more}\r\n"

    assert say(shared, fields(64))[0] == 200
    assert say(shared, fields(65))[0] == 431


def test_nothing_is_served_behind_a_request(shared):
    """One request a connection: what follows it is not read as another."""
    text = f"GET /healthz HTTP/1.1\r\n{HOST}\r\n"
    with opened(shared) as raw:
        raw.sendall((text + text).encode())
        status, headers, body = read_answer(raw)
    assert status == 200 and len(body) == int(headers["content-length"])


def test_slow_handshake(shared):
    """A head must be whole within 5 s, however busily its bytes drip in."""
    with opened(shared) as quiet, opened(shared) as dripping:
        started = time.monotonic()
        dripping.sendall(b"GET /healthz HTTP/1.1\r\nX: ")
        dripping.settimeout(0.25)
        ended = {}
        quiet.setblocking(False)
        while len(ended) < 2 and time.monotonic() - started < 9:
            for name, raw in (("dripping", dripping), ("quiet", quiet)):
                if name in ended:
                    continue
                try:
                    if name == "dripping":
                        raw.sendall(b"x")
                    if raw.recv(4096) == b"":
                        ended[name] = time.monotonic() - started
                except (TimeoutError, BlockingIOError):
                    pass
                except (ConnectionResetError, BrokenPipeError):
                    ended[name] = time.monotonic() - started
    assert set(ended) == {"quiet", "dripping"}
    assert all(4.5 <= seconds <= 7.0 for seconds in ended.values()), ended


def test_handshake_in_pieces(shared):
    """Byte by byte is fine, as long as it is quick."""
    text = f"GET /healthz HTTP/1.1\r\n{HOST}\r\n"
    with opened(shared) as raw:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in text.encode():
            raw.sendall(bytes([byte]))
        assert read_answer(raw)[0] == 200


# 4. Browsers and other names.


@pytest.mark.parametrize("origin", ["http://example.com", "http://127.0.0.1", "null", ""])
def test_origin(shared, origin):
    """A browser's page learns nothing, whatever it asks for."""
    for path in ("/healthz", "/metrics", "/nothing", "/rpc/ws"):
        assert request(shared, path, {**UPGRADE, "Origin": origin})[0] == 403


def test_origin_that_is_allowed(tmp_path):
    """Only the operator's own file allows one; a client's map does not."""
    (tmp_path / "box.yaml").write_text("allowed_origins: [https://good.example]\n")
    with boxlib.Boxd("--config", "box.yaml", cwd=tmp_path) as boxd:
        assert upgrade(boxd, Origin="https://good.example")[0] == 101
        with boxd.web() as client:
            client.init(allowed_origins=["https://bad.example"])
        for origin in ("https://bad.example", "https://good.example.bad", "HTTPS://good.example"):
            assert upgrade(boxd, Origin=origin)[0] == 403


@pytest.mark.parametrize(
    "host",
    ["example.com", "127.0.0.1.example.com", "localhost.", "[::2]", "0.0.0.0", "localhost:x"],
)
def test_host_of_another_name(shared, host):
    """A name that an attacker's DNS points at loopback is refused there."""
    assert upgrade(shared, Host=host)[0] == 403
    assert request(shared, "/healthz", {"Host": host})[0] == 403


@pytest.mark.parametrize(
    "host", ["localhost", "LocalHost:1", "127.0.0.1", "127.9.9.9:80", "[::1]", "[::1]:5"]
)
def test_host_of_loopback(shared, host):
    assert request(shared, "/healthz", {"Host": host})[0] == 200


def test_host_where_the_operator_chose_the_address(tmp_path):
    """With --host any name will do: containers dial by service names."""
    with boxlib.Boxd("--host", "127.0.0.1", cwd=tmp_path) as boxd:
        assert upgrade(boxd, Host="langbot_box:5410")[0] == 101


# 5. Who may come in.


def assert_unauthorized(answer):
    status, headers, body = answer
    assert (status, body) == (401, b"Unauthorized")
    assert headers["content-type"].startswith("text/plain")


@pytest.mark.parametrize(
    "instance",
    [None, "", "another", INSTANCE.upper(), INSTANCE + "x", "-bad", "a b", "x" * 129, "a/b"],
)
def test_wrong_instance(shared, instance):
    if instance is None:
        answer = upgrade(shared, without=["X-LangBot-Instance-Id"])
    else:
        answer = upgrade(shared, X_LangBot_Instance_Id=instance)
    assert_unauthorized(answer)


def test_instance_twice(shared):
    lines = "".join(f"{name}: {value}\r\n" for name, value in UPGRADE.items())
    text = f"GET /rpc/ws HTTP/1.1\r\n{lines}X-LangBot-Instance-Id: {INSTANCE}\r\n\r\n"
    assert_unauthorized(say(shared, text))


@pytest.mark.parametrize(
    "token",
    [None, "", "wrong", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "x" * 5000, f"{TOKEN},{TOKEN}"],
)
def test_wrong_token(locked, token):
    fields = {} if token is None else {"X_LangBot_Box_Control_Token": token}
    assert_unauthorized(upgrade(locked, **fields))


def test_right_token(locked):
    assert upgrade(locked, X_LangBot_Box_Control_Token=TOKEN)[0] == 101
    assert_unauthorized(
        upgrade(locked, X_LangBot_Box_Control_Token=TOKEN, X_LangBot_Instance_Id="another")
    )
    with locked.web() as client:
        assert client.ask("__ping") == {}


def test_token_elsewhere(locked):
    """Only the header counts: queries end up in logs."""
    for query in (f"token={TOKEN}", f"X-LangBot-Box-Control-Token={TOKEN}"):
        assert_unauthorized(upgrade(locked, f"/rpc/ws?{query}"))
    assert_unauthorized(upgrade(locked, Authorization=f"Bearer {TOKEN}"))
    assert_unauthorized(upgrade(locked, Cookie=f"X-LangBot-Box-Control-Token={TOKEN}"))


def test_token_is_said_nowhere(locked):
    upgrade(locked, X_LangBot_Box_Control_Token="wrong-" + TOKEN)
    locked.wait_event("door.refused")
    assert TOKEN not in "\n".join(locked.lines)


def test_pages_need_no_token(locked):
    for path in ("/healthz", "/metrics"):
        assert locked.http(path)[0] == 200


def test_first_instance_is_pinned(web):
    with web.web(instance="first") as client:
        client.context = context(instance="first")
        client.init()
        with pytest.raises(InvalidStatus) as refused:
            web.web(instance="second")
        assert refused.value.response.status_code == 401
        assert refused.value.response.body == b"Unauthorized"
        assert client.fail("box_status", context=context(instance="second")).startswith(
            "PermissionError: "
        )
    # Also when nobody is connected any more.
    assert_unauthorized(upgrade(web, X_LangBot_Instance_Id="second"))
    with web.web(instance="first") as client:
        assert client.ask("__ping", context=None) == {}


def test_a_refused_caller_pins_nothing(web):
    """Neither one whose upgrade is wrong, nor a relay."""
    assert upgrade(web, without=["Sec-WebSocket-Key"], X_LangBot_Instance_Id="bad")[0] == 400
    assert upgrade(web, without=["Upgrade"], X_LangBot_Instance_Id="bad")[0] == 426
    path = "/v1/sessions/ws-0-g1-s/managed-process/ws"
    fields = {"X_LangBot_Workspace_Id": "ws1", "X_LangBot_Placement_Generation": "1"}
    assert_unauthorized(upgrade(web, path, X_LangBot_Instance_Id="bad", **fields))
    assert upgrade(web, X_LangBot_Instance_Id="good")[0] == 101
    assert_unauthorized(upgrade(web, X_LangBot_Instance_Id="bad"))


def test_trusted_instance_variable(tmp_path):
    with boxlib.Boxd(instance="chosen", cwd=tmp_path) as boxd:
        assert_unauthorized(upgrade(boxd, X_LangBot_Instance_Id="first"))
        assert upgrade(boxd, X_LangBot_Instance_Id="chosen")[0] == 101


def test_pin_survives_the_worker(web):
    """After kill -9 of box-rpc the same instance comes back in, and no other."""
    with web.web() as client:
        client.init(session_ttl_sec=77)
        client.ask("box_status", context=context(generation=4))
        old = web.worker
        os.kill(old, signal.SIGKILL)
        client.closed()
    web.wait_event("serving", 2)
    assert web.worker != old
    assert_unauthorized(upgrade(web, X_LangBot_Instance_Id="another"))
    with web.web() as client:
        # What was configured and the fence are still there too.
        now = context(generation=4)
        assert client.ask("box_status", context=now)["session_ttl_sec"] == 77
        assert client.fail("box_status", context=context(generation=3)) == (
            "PermissionError: Stale Box placement generation"
        )


# 6. The relay's path.


def physical(session, workspace="ws1", generation=1):
    digest = hashlib.sha256(f"{INSTANCE}\0{workspace}".encode()).hexdigest()[:24]
    return f"ws-{digest}-g{generation}-{session}"


def relay(boxd, session, process="/default", workspace="ws1", generation="1", **fields):
    path = f"/v1/sessions/{session}/managed-process{process}/ws"
    if workspace is not None:
        fields["X_LangBot_Workspace_Id"] = workspace
    if generation is not None:
        fields["X_LangBot_Placement_Generation"] = generation
    return upgrade(boxd, path, **fields)


def test_relay_statuses(web):
    with web.web() as client:
        client.init()
        client.exec("echo x")
        here = physical("s")
        for wrong in (
            {"workspace": None},
            {"workspace": ""},
            {"workspace": "x" * 257},
            {"generation": None},
            {"generation": "0"},
            {"generation": "01"},
            {"generation": "-1"},
            {"generation": "x"},
            {"generation": "1.0"},
            {"generation": "99999999999999999999"},
            {"generation": "2"},
            {"workspace": "ws2"},
            {"X_LangBot_Instance_Id": "another"},
        ):
            assert_unauthorized(relay(web, here, **wrong))
        # Within another placement, or in none.
        for session in (physical("s", "ws2"), physical("s", generation=2), "s", physical("")):
            assert_unauthorized(relay(web, session))

        def refusal(*args, **fields):
            status, headers, body = relay(web, *args, **fields)
            assert status == 400 and headers["content-type"].startswith("application/json")
            return json.loads(body)

        missing = physical("nope")
        assert refusal(missing) == {
            "error": {
                "code": "BoxSessionNotFoundError",
                "message": f"session {missing} not found",
            }
        }
        for process, name in (("/default", "default"), ("", "default"), ("/other", "other")):
            assert refusal(here, process) == {
                "error": {
                    "code": "BoxManagedProcessNotFoundError",
                    "message": f"session {here} has no managed process with process_id={name}",
                }
            }
        # The fence moves: what fitted before does not any more.
        client.ask("box_status", context=context(generation=2))
        assert_unauthorized(relay(web, here))


def test_relay_needs_the_token(locked):
    assert_unauthorized(relay(locked, physical("s")))
    assert_unauthorized(relay(locked, physical("s"), X_LangBot_Box_Control_Token="wrong"))


@pytest.mark.parametrize(
    "path",
    [
        "/v1/sessions//managed-process/ws",
        "/v1/sessions/a%2fb/managed-process/ws",
        "/v1/sessions/../managed-process/ws",
        "/v1/sessions/a%00b/managed-process/ws",
        "/v1/sessions/a/managed-process/b/c/ws",
        "/v1/sessions/a/managed-process/",
        "/v1/sessions/a%/managed-process/ws",
    ],
)
def test_relay_path_malformed(shared, path):
    assert upgrade(shared, path)[0] == 404


# 7. The upgrade.


def test_upgrade(shared):
    status, headers, _ = upgrade(shared)
    digest = hashlib.sha1((KEY + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()
    assert status == 101
    assert headers["sec-websocket-accept"] == base64.b64encode(digest).decode()
    assert headers["upgrade"].lower() == "websocket"
    assert headers["connection"].lower() == "upgrade"


@pytest.mark.parametrize(
    "status, without, fields",
    [
        (426, ["Upgrade"], {}),
        (426, ["Upgrade", "Connection"], {}),
        (426, ["Sec-WebSocket-Version"], {}),
        (426, [], {"Sec_WebSocket_Version": "8"}),
        (426, [], {"Sec_WebSocket_Version": "13, 8"}),
        (400, [], {"Upgrade": "h2c"}),
        (400, [], {"Upgrade": "websocket, h2c"}),
        (400, ["Connection"], {}),
        (400, [], {"Connection": "keep-alive"}),
        (400, ["Sec-WebSocket-Key"], {}),
        (400, [], {"Sec_WebSocket_Key": "short"}),
        (400, [], {"Sec_WebSocket_Key": "x" * 24}),
        (400, [], {"Sec_WebSocket_Key": KEY[:-2] + "=A"}),
        (101, [], {"Connection": "keep-alive, Upgrade"}),
        (101, [], {"Upgrade": "WebSocket"}),
    ],
)
def test_upgrade_shapes(shared, status, without, fields):
    got, headers, _ = upgrade(shared, without=without, **fields)
    assert got == status
    if status == 426:
        assert headers["upgrade"] == "websocket" and headers["sec-websocket-version"] == "13"


def test_caller_without_token_hears_401_whatever_is_wrong(locked):
    for without in (["Upgrade"], ["Sec-WebSocket-Key"], ["Connection"]):
        assert_unauthorized(upgrade(locked, without=without))


def test_subprotocol_is_not_selected(shared):
    """Offered, it does no harm; but none is ours on this path."""
    status, headers, _ = upgrade(shared, Sec_WebSocket_Protocol="mcp, box.v1")
    assert status == 101 and "sec-websocket-protocol" not in headers
    with shared.web(subprotocols=["mcp"]) as client:
        assert client.socket.subprotocol is None
        assert client.ask("__ping") == {}


def test_deflate_is_declined(shared):
    offer = "permessage-deflate; client_max_window_bits"
    status, headers, _ = upgrade(shared, Sec_WebSocket_Extensions=offer)
    assert status == 101 and "sec-websocket-extensions" not in headers
    with shared.web(compression="deflate") as client:
        assert client.socket.protocol.extensions == []
        assert client.ask("__ping") == {}


def test_frame_in_the_same_packet_as_the_head(shared):
    """A client may speak before it has seen the answer."""
    payload = b'{"seq_id": 1, "action": "__ping", "data": {}}'
    frame = bytes([0x81, 0x80 | len(payload), 0, 0, 0, 0]) + payload
    lines = "".join(f"{name}: {value}\r\n" for name, value in UPGRADE.items())
    with opened(shared) as raw:
        raw.sendall(f"GET /rpc/ws HTTP/1.1\r\n{lines}\r\n".encode() + frame)
        data = b""
        while b'"chunk_status"' not in data:
            piece = raw.recv(4096)
            assert piece, data
            data += piece
    assert b"101 Switching Protocols" in data and b'"success"' in data


def test_fragments(shared):
    """One message, however fragmented."""
    with shared.web() as client:
        text = '{"seq_id": 1, "action": "__ping", "data": {"x": "é漢😀"}}'
        client.socket.send(list(text))
        assert boxlib.success(client.wait(1)) == {}


def test_ping_is_answered(shared):
    with shared.web() as client:
        assert client.socket.ping().wait(5)


def test_shutdown_closes_with_1001(tmp_path):
    with boxlib.Boxd(cwd=tmp_path) as boxd, boxd.web() as client:
        client.ask("__ping")
        boxd.process.send_signal(signal.SIGTERM)
        end = client.closed()
        assert (end.code, end.reason) == (1001, "Box runtime shutting down")
        assert boxd.wait() == 0
