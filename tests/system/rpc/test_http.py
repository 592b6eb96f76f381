"""HTTP: probes and pages, malformed requests, and the upgrade."""

import base64
import hashlib
import json
import signal
import socket
import time

import pytest

import boxdlib
from clientlib import success
from httplib import HOST, assert_unauthorized, opened, read_answer, request, say, upgrade
from rawlib import KEY, PING, UPGRADE, frame, head_of

# Probes and pages.


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
    with web.web() as client:
        client.ask("box_init", {"backend": "docker"})
    status, _, body = web.http("/readyz")
    ready = json.loads(body)
    assert status == 503
    assert (ready["ready"], ready["mode"]) == (False, "standard")
    assert ready["backend"]["asked"] == "docker" and ready["backend"]["available"] is False
    assert ready["error"] == ready["backend"]["error"] and "no backend docker" in ready["error"]
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
    """The headers of GET, without a body."""
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


# Malformed requests.


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
    """8 KiB for the whole head, 64 fields: one more is 431, one less is accepted."""

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
    """One request per connection: what follows is not read as another request."""
    text = f"GET /healthz HTTP/1.1\r\n{HOST}\r\n"
    with opened(shared) as raw:
        raw.sendall((text + text).encode())
        status, headers, body = read_answer(raw)
    assert status == 200 and len(body) == int(headers["content-length"])


def test_slow_handshake(shared):
    """The head must be complete within 5 s, however steadily bytes arrive."""
    with opened(shared) as quiet, opened(shared) as dripping:
        started = time.monotonic()
        dripping.sendall(b"GET /healthz HTTP/1.1\r\nX: ")
        dripping.settimeout(0.25)
        ended = {}
        quiet.setblocking(False)
        while len(ended) < 2 and time.monotonic() - started < 15:
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
    assert all(4.5 <= seconds <= 7.0 + boxdlib.STALL_SECONDS for seconds in ended.values()), ended


def test_handshake_in_pieces(shared):
    """Byte by byte is accepted, as long as it is fast."""
    text = f"GET /healthz HTTP/1.1\r\n{HOST}\r\n"
    with opened(shared) as raw:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in text.encode():
            raw.sendall(bytes([byte]))
        assert read_answer(raw)[0] == 200


# Upgrades.


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
    """Offering a subprotocol is accepted; none is supported on this path."""
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
    """A client may send before it has seen the answer."""
    with opened(shared) as raw:
        raw.sendall(head_of() + frame(PING))
        data = b""
        while b'"chunk_status"' not in data:
            piece = raw.recv(4096)
            assert piece, data
            data += piece
    assert b"101 Switching Protocols" in data and b'"success"' in data


def test_fragments(shared):
    """One message, however it is fragmented."""
    with shared.web() as client:
        text = '{"seq_id": 1, "action": "__ping", "data": {"x": "é漢😀"}}'
        client.socket.send(list(text))
        assert success(client.wait(1)) == {}


def test_ping_is_answered(shared):
    with shared.web() as client:
        assert client.socket.ping().wait(5)


def test_shutdown_closes_with_1001(tmp_path):
    with boxdlib.Boxd(cwd=tmp_path) as boxd, boxd.web() as client:
        client.ask("__ping")
        boxd.process.send_signal(signal.SIGTERM)
        end = client.closed()
        assert (end.code, end.reason) == (1001, "Box runtime shutting down")
        assert boxd.wait() == 0
