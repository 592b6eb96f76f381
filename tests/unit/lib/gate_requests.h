/* HTTP requests for the gate, built from pieces, and the expected decisions. */
#pragma once

#include "tests/unit/lib/test.h"
#include "transport/gate.h"

#define SECRET "correct-horse-battery-staple-0123456789"
#define HOST "Host: 127.0.0.1:5410\r\n"
#define TOKEN "X-LangBot-Box-Control-Token: " SECRET "\r\n"
#define INSTANCE "X-LangBot-Instance-Id: inst-1\r\n"
#define WORKSPACE "X-LangBot-Workspace-Id: ws 1\r\n"
#define GENERATION "X-LangBot-Placement-Generation: 7\r\n"
#define KEY_TEXT "dGhlIHNhbXBsZSBub25jZQ=="
#define CONNECTION "Connection: Upgrade\r\n"
#define UPGRADE "Upgrade: websocket\r\n"
#define VERSION "Sec-WebSocket-Version: 13\r\n"
#define KEY "Sec-WebSocket-Key: " KEY_TEXT "\r\n"
#define WEBSOCKET CONNECTION UPGRADE VERSION KEY
#define CALLER TOKEN INSTANCE
#define TENANT CALLER WORKSPACE GENERATION
#define RPC "GET /rpc/ws HTTP/1.1\r\n"
#define RELAY "GET /v1/sessions/ws-a-g7-s/managed-process/p1/ws HTTP/1.1\r\n"

static const struct box_gate_policy strict = {
	.token = SECRET,
	.instance = "inst-1",
	.loopback_names_only = true,
};
static struct box_gate_verdict verdict;

static inline void decide(const struct box_gate_policy *policy, const char *text)
{
	struct box_http_head head;
	char whole[BOX_HTTP_HEAD_BYTES_MAX + 1];
	int len = snprintf(whole, sizeof(whole), "%s\r\n", text);
	ASSERT(len > 0 && (size_t)len < sizeof(whole));
	if (box_http_head_parse(whole, (size_t)len, &head) != BOX_HTTP_HEAD_COMPLETE) {
		TEST_FAIL("no complete head: %s", whole);
	}
	/* Old contents must not show through. */
	memset(&verdict, 0x5a, sizeof(verdict));
	box_gate_decide(policy, &head, &verdict);
}

static inline void assert_nothing_known(void)
{
	static const struct box_gate_verdict empty;
	ASSERT_STR(verdict.instance, "");
	ASSERT_STR(verdict.websocket_key, "");
	ASSERT_STR(verdict.session_id, "");
	ASSERT_STR(verdict.process_id, "");
	ASSERT_STR(verdict.workspace, "");
	ASSERT_INT(verdict.generation, empty.generation);
	ASSERT(!verdict.offers_mcp && !verdict.offers_box_v1);
}

/* status 0 stands for "accepted". */
static inline void assert_verdict(const char *text, enum box_gate_kind kind, int status)
{
	if (verdict.kind != kind || verdict.status != status) {
		TEST_FAIL("kind %d status %d (%s), not %d %d: %s", (int)verdict.kind,
			verdict.status, verdict.why ? verdict.why : "", (int)kind, status, text);
	}
	if (kind == BOX_GATE_REFUSED) {
		ASSERT(verdict.body != NULL && verdict.why != NULL);
		assert_nothing_known();
	} else {
		ASSERT(verdict.body == NULL && verdict.why == NULL);
	}
	if (status == 401) {
		ASSERT_STR(verdict.body, "Unauthorized");
	}
}

/* `outcome` is the kind of an accepted request, or the status of a refusal. */
struct row {
	const char *text;
	int outcome;
};

static inline void assert_rows(
	const struct box_gate_policy *policy, const struct row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		bool refused = rows[i].outcome >= 100;
		decide(policy, rows[i].text);
		assert_verdict(rows[i].text,
			refused ? BOX_GATE_REFUSED : (enum box_gate_kind)rows[i].outcome,
			refused ? rows[i].outcome : 0);
	}
}
