/* Writes HTTP answers. Each closes its connection: probes and scrapers reconnect anyway, and no second
 * request can be smuggled behind the first. */
#include "transport/http_answer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "codec/json.h"
#include "runtime/runtime.h"
#include "runtime/session/process.h"

#define PAGE_BYTES_MAX (4 * BOX_MIB)
#define TEXT_PLAIN "text/plain; charset=utf-8"
#define PROMETHEUS "text/plain; version=0.0.4; charset=utf-8"
#define JSON "application/json; charset=utf-8"

/* `extra` is more header lines, each with its line end. */
static void answer_with(int status, const char *type, struct box_str body, bool head_only,
	const char *extra, struct box_buf *out)
{
	(void)box_buf_printf(out,
		"HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
		"Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n%s"
		"Connection: close\r\n\r\n",
		status, box_gate_status_phrase(status), type, body.len, extra);
	if (!head_only) {
		(void)box_buf_append(out, body.bytes, body.len);
	}
}

static void answer(
	int status, const char *type, struct box_str body, bool head_only, struct box_buf *out)
{
	answer_with(status, type, body, head_only, "", out);
}

static void answer_json(
	int status, const struct box_value *value, bool head_only, struct box_buf *out)
{
	struct box_buf body = box_buf(PAGE_BYTES_MAX);
	(void)box_json_encode(&body, value);
	answer(status, JSON, (struct box_str){body.bytes, body.len}, head_only, out);
	box_buf_free(&body);
}

void box_http_answer_refuse(int status, const char *body, bool head_only, struct box_buf *out)
{
	answer(status, TEXT_PLAIN, box_str(body), head_only, out);
}

static void metrics_page(struct box_runtime *runtime, bool head_only, struct box_buf *out)
{
	struct box_buf body = box_buf(PAGE_BYTES_MAX);
	struct box_process_counts processes = box_process_count(runtime->sessions, NULL);
	struct box_metrics_gauges gauges = {
		.sessions = box_sessions_count_shown(runtime->sessions),
		.managed_processes = processes.running,
		.completed_processes = processes.completed,
		.resident_bytes = runtime->host->resident_bytes(runtime->host_arg),
		.requests_under_way = runtime->requests_under_way,
		.promised_bytes =
			(uint64_t)box_sessions_usage(runtime->sessions, "", false).memory_mb *
			BOX_MIB,
		.artifact_bytes = runtime->artifact_bytes,
	};
	(void)box_metrics_render(&runtime->metrics, &gauges, &body);
	answer(200, PROMETHEUS, (struct box_str){body.bytes, body.len}, head_only, out);
	box_buf_free(&body);
}

/* The short page for probes, which everyone may read. */
static void bare_page(int status, const char *name, bool value, bool head_only, struct box_buf *out)
{
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	struct box_value page = box_map_value();
	box_map_add(arena, &page, name, box_bool(value));
	answer_json(status, &page, head_only, out);
}

static void health_page(
	struct box_runtime *runtime, bool details, bool head_only, struct box_buf *out)
{
	if (!details) {
		bare_page(200, "live", true, head_only, out);
		return;
	}
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	struct box_value health = box_map_value();
	box_map_add(arena, &health, "live", box_bool(true));
	box_map_add(arena, &health, "resources", box_runtime_resources(runtime, arena));
	answer_json(200, &health, head_only, out);
}

static void ready_page(
	struct box_runtime *runtime, bool details, bool head_only, struct box_buf *out)
{
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	bool ready;
	struct box_value readiness = box_runtime_readiness(runtime, arena, &ready);
	if (!details) {
		bare_page(ready ? 200 : 503, "ready", ready, head_only, out);
		return;
	}
	box_map_add(arena, &readiness, "resources", box_runtime_resources(runtime, arena));
	answer_json(ready ? 200 : 503, &readiness, head_only, out);
}

/* Some statuses require a header that names what is allowed. */
static void refuse_verdict(const struct box_gate_verdict *verdict, struct box_buf *out)
{
	char extra[128] = "";
	if (verdict->status == 405) {
		(void)snprintf(extra, sizeof(extra), "Allow: %s\r\n", verdict->allow);
	} else if (verdict->status == 426) {
		(void)snprintf(extra, sizeof(extra),
			"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n");
	}
	answer_with(verdict->status, TEXT_PLAIN, box_str(verdict->body), verdict->head_only, extra,
		out);
}

void box_http_answer_write(
	struct box_runtime *runtime, const struct box_gate_verdict *verdict, struct box_buf *out)
{
	switch (verdict->kind) {
	case BOX_GATE_HEALTHZ:
		health_page(runtime, verdict->details, verdict->head_only, out);
		break;
	case BOX_GATE_READYZ:
		ready_page(runtime, verdict->details, verdict->head_only, out);
		break;
	case BOX_GATE_METRICS:
		metrics_page(runtime, verdict->head_only, out);
		break;
	default:
		refuse_verdict(verdict, out);
		break;
	}
}

void box_http_answer_refuse_relay(const struct box_err *err, struct box_buf *out)
{
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	struct box_value error = box_map_value();
	struct box_value body = box_map_value();
	box_map_add(arena, &error, "code", box_cstr(box_code_name(err->code)));
	box_map_add(arena, &error, "message", box_cstr(err->text));
	box_map_add(arena, &body, "error", error);
	answer_json(400, &body, false, out);
}
