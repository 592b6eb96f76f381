"""The counters of /metrics."""

import json

from prometheus_client.parser import text_string_to_metric_families

import boxdlib
from boxdlib import wait_until
from clientlib import Stdio
from httplib import say, upgrade


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
    """The changes, by name and labels: name{a=b}."""
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
        "box_promised_memory_bytes{}": 512 << 20,
    }
    # Whether ignored messages count as received is the runtime's choice; requests do.
    assert 7 <= rest["box_messages_received_total{codec=json,transport=websocket}"] <= 9
    assert types["box_requests"] == "counter" and types["box_sessions"] == "gauge"
    assert types["box_request_duration_seconds"] == "histogram"


def test_metrics_of_connections(web):
    before, _ = scrape(web)
    with web.web() as client:
        client.init()  # claims the runtime
        during, _ = scrape(web)
        assert during[("box_connections", frozenset({("transport", "websocket")}))] == 1
    assert upgrade(web, X_LangBot_Instance_Id="another")[0] == 401
    say(web, "GET\r\n\r\n")

    def closed():
        after, _ = scrape(web)
        open_now = after[("box_connections", frozenset({("transport", "websocket")}))]
        return after if open_now == 0 else None

    changes = moved(before, wait_until(closed))
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
    with boxdlib.Boxd(stdio=True, cwd=tmp_path) as boxd, Stdio(boxd) as client:
        for _ in range(5):
            client.ask("__ping")
        samples, _ = scrape(boxd)
        labels = frozenset({("transport", "stdio"), ("codec", "json")})
        assert samples[("box_messages_received_total", labels)] == 5
        assert samples[("box_messages_sent_total", labels)] == 5
        assert samples[("box_connections", frozenset({("transport", "stdio")}))] == 1


def test_metrics_count_restarts(web):
    web.wait_served()
    web.kill_worker()
    web.wait_served(2)
    assert scrape(web)[0][("box_worker_restarts_total", frozenset())] == 1
