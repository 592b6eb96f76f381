"""Who may connect by WebSocket: browsers, other host names, instances, tokens, relays."""

import json
import os
import signal

import pytest
from websockets.exceptions import InvalidStatus

import boxdlib
from clientlib import INSTANCE, TOKEN, context, physical
from httplib import assert_unauthorized, request, say, upgrade
from rawlib import UPGRADE

# Browsers and other host names.


@pytest.mark.parametrize("origin", ["http://example.com", "http://127.0.0.1", "null", ""])
def test_origin(shared, origin):
    """A page in a browser learns nothing, whatever it requests."""
    for path in ("/healthz", "/metrics", "/nothing", "/rpc/ws"):
        assert request(shared, path, {**UPGRADE, "Origin": origin})[0] == 403


def test_origin_that_is_allowed(tmp_path):
    """Only the operator's own file can allow an origin; a client's map cannot."""
    (tmp_path / "box.yaml").write_text("allowed_origins: [https://good.example]\n")
    with boxdlib.Boxd("--config", "box.yaml", cwd=tmp_path) as boxd:
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
    """A name that an attacker's DNS resolves to loopback is refused there."""
    assert upgrade(shared, Host=host)[0] == 403
    assert request(shared, "/healthz", {"Host": host})[0] == 403


@pytest.mark.parametrize(
    "host", ["localhost", "LocalHost:1", "127.0.0.1", "127.9.9.9:80", "[::1]", "[::1]:5"]
)
def test_host_of_loopback(shared, host):
    assert request(shared, "/healthz", {"Host": host})[0] == 200


def test_host_where_the_operator_chose_the_address(tmp_path):
    """With --host any name is accepted: containers connect by service names."""
    with boxdlib.Boxd("--host", "127.0.0.1", cwd=tmp_path) as boxd:
        assert upgrade(boxd, Host="langbot_box:5410")[0] == 101


# Access.


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
    locked.wait_event("connection.refused")
    assert TOKEN not in "\n".join(locked.lines)


def test_pages_tell_strangers_only_that_we_live(locked):
    """Probes need no token; usage and users are shown only to clients that have it."""
    assert locked.http("/healthz")[::2] == (200, b'{"live":true}')
    assert locked.http("/readyz")[::2] == (200, b'{"ready":true}')
    assert locked.http("/metrics")[::2] == (401, b"Unauthorized")
    for fields in (
        {"X-LangBot-Box-Control-Token": TOKEN},
        {"Authorization": f"Bearer {TOKEN}"},
        {"authorization": f"bearer {TOKEN}"},
    ):
        assert b"box_sessions" in locked.http("/metrics", headers=fields)[2]
        assert b"resources" in locked.http("/readyz", headers=fields)[2]
    for wrong in (f"Bearer {TOKEN}x", f"Basic {TOKEN}", "Bearer ", TOKEN):
        assert locked.http("/metrics", headers={"Authorization": wrong})[0] == 401


def test_metrics_can_be_opened(tmp_path):
    file = tmp_path / "box.yaml"
    file.write_text("metrics_open: true\n")
    with boxdlib.Boxd("--config", str(file), token=TOKEN, cwd=tmp_path) as boxd:
        assert boxd.http("/metrics")[0] == 200
        assert b"resources" not in boxd.http("/readyz")[2]


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
    """Neither an invalid upgrade nor a relay."""
    assert upgrade(web, without=["Sec-WebSocket-Key"], X_LangBot_Instance_Id="bad")[0] == 400
    assert upgrade(web, without=["Upgrade"], X_LangBot_Instance_Id="bad")[0] == 426
    path = "/v1/sessions/ws-0-g1-s/managed-process/ws"
    fields = {"X_LangBot_Workspace_Id": "ws1", "X_LangBot_Placement_Generation": "1"}
    assert_unauthorized(upgrade(web, path, X_LangBot_Instance_Id="bad", **fields))
    with web.web(instance="good") as client:
        client.context = context(instance="good")
        client.init()
    assert_unauthorized(upgrade(web, X_LangBot_Instance_Id="bad"))


def test_trusted_instance_variable(tmp_path):
    with boxdlib.Boxd(instance="chosen", cwd=tmp_path) as boxd:
        assert_unauthorized(upgrade(boxd, X_LangBot_Instance_Id="first"))
        assert upgrade(boxd, X_LangBot_Instance_Id="chosen")[0] == 101


def test_pin_survives_the_worker(web):
    """After kill -9 of box-rpc the same instance is let in again, and no other."""
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
        # The configuration and the generation are still there, too.
        now = context(generation=4)
        assert client.ask("box_status", context=now)["session_ttl_sec"] == 77
        assert client.fail("box_status", context=context(generation=3)) == (
            "PermissionError: Stale Box placement generation"
        )


# Paths of relays.


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
        # In another placement, or in none.
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
        # A newer generation makes the old one stale.
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
