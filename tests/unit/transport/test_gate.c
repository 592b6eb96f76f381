/* The gate, which decides on each HTTP request: tables of requests and decisions. */
#include "tests/unit/lib/gate_requests.h"
#include "transport/gate.h"

TEST(routes_and_methods)
{
	static const struct row rows[] = {
		{"GET /healthz HTTP/1.1\r\n" HOST, BOX_GATE_HEALTHZ},
		{"GET /readyz HTTP/1.1\r\n" HOST, BOX_GATE_READYZ},
		{"GET /metrics HTTP/1.1\r\n" HOST, 401},
		{"GET /metrics HTTP/1.1\r\n" HOST TOKEN, BOX_GATE_METRICS},
		{"GET /healthz?verbose=1 HTTP/1.1\r\n" HOST, BOX_GATE_HEALTHZ},
		{"HEAD /healthz HTTP/1.1\r\n" HOST, BOX_GATE_HEALTHZ},
		{"HEAD /readyz HTTP/1.1\r\n" HOST, BOX_GATE_READYZ},
		{"HEAD /metrics HTTP/1.1\r\n" HOST TOKEN, BOX_GATE_METRICS},
		{RPC HOST CALLER WEBSOCKET, BOX_GATE_RPC},
		{RELAY HOST TENANT WEBSOCKET, BOX_GATE_RELAY},

		{"GET / HTTP/1.1\r\n" HOST, 404},
		{"GET /healthz/ HTTP/1.1\r\n" HOST, 404},
		{"GET //healthz HTTP/1.1\r\n" HOST, 404},
		{"GET /HEALTHZ HTTP/1.1\r\n" HOST, 404},
		{"GET /health%7A HTTP/1.1\r\n" HOST, 404},
		{"GET /x/../healthz HTTP/1.1\r\n" HOST, 404},
		{"GET /rpc HTTP/1.1\r\n" HOST CALLER WEBSOCKET, 404},
		{"GET /rpc/ws/ HTTP/1.1\r\n" HOST CALLER WEBSOCKET, 404},
		{"GET /rpc%2Fws HTTP/1.1\r\n" HOST CALLER WEBSOCKET, 404},
		{"POST /nothing HTTP/1.1\r\n" HOST, 404},

		{"POST /healthz HTTP/1.1\r\n" HOST, 405},
		{"get /healthz HTTP/1.1\r\n" HOST, 405},
		{"head /healthz HTTP/1.1\r\n" HOST, 405},
		{"OPTIONS /readyz HTTP/1.1\r\n" HOST, 405},
		{"GETS /metrics HTTP/1.1\r\n" HOST, 405},
		{"HEAD /rpc/ws HTTP/1.1\r\n" HOST CALLER WEBSOCKET, 405},
		{"POST /rpc/ws HTTP/1.1\r\n" HOST CALLER WEBSOCKET, 405},
		{"HEAD /v1/sessions/s/managed-process/ws HTTP/1.1\r\n" HOST TENANT WEBSOCKET, 405},

		{"GET /healthz HTTP/1.1\r\n" HOST "Content-Length: 0\r\n", BOX_GATE_HEALTHZ},
		{"GET /healthz HTTP/1.1\r\n" HOST "Content-Length: 1\r\n", 400},
		{RPC HOST CALLER WEBSOCKET "Content-Length: 0\r\n", BOX_GATE_RPC},
		{RPC HOST CALLER WEBSOCKET "Content-Length: 1\r\n", 400},
		{RELAY HOST TENANT WEBSOCKET "Content-Length: 5\r\n", 400},
	};
	assert_rows(&strict, rows, COUNT(rows));
}

TEST(answers_to_head_have_no_body)
{
	decide(&strict, "HEAD /healthz HTTP/1.1\r\n" HOST);
	ASSERT(verdict.head_only);
	decide(&strict, "HEAD /nothing HTTP/1.1\r\n" HOST);
	ASSERT(verdict.head_only);
	ASSERT_INT(verdict.status, 404);
	decide(&strict, "HEAD /rpc/ws HTTP/1.1\r\nHost: evil.example\r\n");
	ASSERT(verdict.head_only);
	ASSERT_INT(verdict.status, 403);
	decide(&strict, "GET /healthz HTTP/1.1\r\n" HOST);
	ASSERT(!verdict.head_only);
}

TEST(hosts)
{
	static const struct {
		const char *host;
		bool loopback;
	} rows[] = {
		{"localhost", true},
		{"localhost:5410", true},
		{"LocalHost:1", true},
		{"127.0.0.1", true},
		{"127.0.0.1:65535", true},
		{"127.1.2.3:80", true},
		{"127.255.255.255", true},
		{"[::1]", true},
		{"[::1]:5410", true},
		{"localhost:", false},
		{"localhost:123456", false},
		{"localhost:a", false},
		{"localhost:80:80", false},
		{"localhost.", false},
		{"localhost.evil.example", false},
		{"evil-localhost", false},
		{"xlocalhost", false},
		{"evil.example:5410", false},
		{"127.0.0.1.evil.example", false},
		{"127.0.0.1.5", false},
		{"127.0.0", false},
		{"127.1", false},
		{"127", false},
		{"2130706433", false},
		{"0177.0.0.1", false},
		{"127.0.0.01", false},
		{"127.0.0.256", false},
		{"128.0.0.1", false},
		{"0.0.0.0", false},
		{"10.0.0.1:5410", false},
		{"::1", false},
		{"[::1", false},
		{"[::1]x", false},
		{"[::1]5410", false},
		{"[::2]:5410", false},
		{"[::ffff:127.0.0.1]:5410", false},
		{":5410", false},
		{"%6cocalhost", false},
		{"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false},
	};
	static const char *const lines[] = {
		"GET /healthz HTTP/1.1", "GET /rpc/ws HTTP/1.1", "GET /nothing HTTP/1.1"};
	static const int otherwise[] = {0, 401, 404};
	struct box_gate_policy wide = strict;
	wide.loopback_names_only = false;
	for (size_t i = 0; i < COUNT(rows) * COUNT(lines); i++) {
		const char *host = rows[i / COUNT(lines)].host;
		bool loopback = rows[i / COUNT(lines)].loopback;
		size_t line = i % COUNT(lines);
		char text[256];
		(void)snprintf(text, sizeof(text), "%s\r\nHost: %s\r\n", lines[line], host);
		enum box_gate_kind let_in = line == 0 ? BOX_GATE_HEALTHZ : BOX_GATE_REFUSED;
		decide(&strict, text);
		assert_verdict(text, loopback ? let_in : BOX_GATE_REFUSED,
			loopback ? otherwise[line] : 403);
		if (!loopback) {
			ASSERT_STR(verdict.body, "Forbidden host");
		}
		decide(&wide, text);
		assert_verdict(text, let_in, otherwise[line]);
	}
}

TEST(origins)
{
	static const char *const allowed[] = {"https://ok.example", "null", NULL};
	static const char *const none[] = {NULL};
	struct box_gate_policy some = strict;
	some.origins = allowed;
	struct box_gate_policy empty = strict;
	empty.origins = none;
#define PAGE "GET /healthz HTTP/1.1\r\n" HOST
	static const struct {
		const char *text;
		int with_none;
		int with_some;
	} rows[] = {
		{PAGE, 0, 0},
		{PAGE "Origin: https://ok.example\r\n", 403, 0},
		{PAGE "origin: null\r\n", 403, 0},
		{PAGE "Origin:\r\n", 403, 403},
		{PAGE "Origin: HTTPS://ok.example\r\n", 403, 403},
		{PAGE "Origin: https://ok.example/\r\n", 403, 403},
		{PAGE "Origin: https://ok.example.evil.example\r\n", 403, 403},
		{PAGE "Origin: https://ok.exampl\r\n", 403, 403},
		{PAGE "Origin: https://ok.example https://ok.example\r\n", 403, 403},
		{PAGE "Origin: null\r\nOrigin: null\r\n", 403, 403},
		{RPC HOST CALLER WEBSOCKET "Origin: http://localhost\r\n", 403, 403},
		{RPC HOST CALLER WEBSOCKET "Origin: https://ok.example\r\n", 403, 0},
		{RPC HOST WEBSOCKET "Origin: https://ok.example\r\n", 403, 401},
		{RELAY HOST TENANT WEBSOCKET "Origin: https://ok.example\r\n", 403, 0},
		{"GET /nothing HTTP/1.1\r\n" HOST "Origin: a\r\n", 403, 403},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		decide(&strict, rows[i].text);
		ASSERT_INT(verdict.status, rows[i].with_none);
		decide(&empty, rows[i].text);
		ASSERT_INT(verdict.status, rows[i].with_none);
		decide(&some, rows[i].text);
		ASSERT_INT(verdict.status, rows[i].with_some);
		if (verdict.status == 403) {
			ASSERT_STR(verdict.body, "Forbidden origin");
		}
	}
}

TEST(token_and_instance)
{
	static const struct row rows[] = {
		{RPC HOST CALLER WEBSOCKET, BOX_GATE_RPC},
		{RPC HOST WEBSOCKET INSTANCE "x-langbot-box-CONTROL-token:\t" SECRET " \r\n",
			BOX_GATE_RPC},
		{RPC HOST INSTANCE WEBSOCKET, 401},
		{RPC HOST TOKEN WEBSOCKET, 401},
		{RPC HOST WEBSOCKET, 401},
		{RPC HOST CALLER TOKEN WEBSOCKET, 401},
		{RPC HOST CALLER INSTANCE WEBSOCKET, 401},
		{RPC HOST CALLER WEBSOCKET "X-LangBot-Box-Control-Token:\r\n", 401},
		{RPC HOST INSTANCE WEBSOCKET "X-LangBot-Box-Control-Token:\r\n", 401},
		{RPC HOST INSTANCE WEBSOCKET "X-LangBot-Box-Control-Token: " SECRET "0\r\n", 401},
		{RPC HOST INSTANCE WEBSOCKET "X-LangBot-Box-Control-Token: correct-horse\r\n", 401},
		{RPC HOST INSTANCE WEBSOCKET "X-LangBot-Box-Control-Token: " SECRET "," SECRET
					     "\r\n",
			401},
		{RPC HOST INSTANCE WEBSOCKET "Authorization: Bearer " SECRET "\r\n", 401},
		{RPC HOST INSTANCE WEBSOCKET "Cookie: X-LangBot-Box-Control-Token=" SECRET "\r\n",
			401},
		{RPC HOST TOKEN WEBSOCKET "X-LangBot-Instance-Id: inst-2\r\n", 401},
		{RPC HOST TOKEN WEBSOCKET "X-LangBot-Instance-Id: INST-1\r\n", 401},
		{RPC HOST TOKEN WEBSOCKET "X-LangBot-Instance-Id: inst-\r\n", 401},
		{RPC HOST TOKEN WEBSOCKET "X-LangBot-Instance-Id: inst-11\r\n", 401},
		{RPC HOST TOKEN WEBSOCKET "X-LangBot-Instance-Id:\r\n", 401},
		/* The query is accepted and ignored. */
		{"GET /rpc/ws?x=1 HTTP/1.1\r\n" HOST CALLER WEBSOCKET, BOX_GATE_RPC},
		{"GET /rpc/ws?token=" SECRET " HTTP/1.1\r\n" HOST INSTANCE WEBSOCKET, 401},
		{"GET /rpc/ws?X-LangBot-Box-Control-Token=" SECRET
		 " HTTP/1.1\r\n" HOST INSTANCE WEBSOCKET,
			401},
		/* A client without access learns nothing about the upgrade. */
		{RPC HOST INSTANCE, 401},
		{RPC HOST INSTANCE CONNECTION UPGRADE KEY, 401},
		{RPC HOST, 401},
		{RELAY HOST, 401},
	};
	assert_rows(&strict, rows, COUNT(rows));
}

TEST(without_token_and_before_pinning)
{
	struct box_gate_policy open = strict;
	open.token = NULL;
	static const struct row no_token[] = {
		{RPC HOST INSTANCE WEBSOCKET, BOX_GATE_RPC},
		{RPC HOST CALLER WEBSOCKET, BOX_GATE_RPC},
		{RPC HOST WEBSOCKET, 401},
		{RELAY HOST INSTANCE WORKSPACE GENERATION WEBSOCKET, BOX_GATE_RELAY},
	};
	assert_rows(&open, no_token, COUNT(no_token));

	/* Clients from before instance ids, where they are let in. */
	open.unnamed = true;
	static const struct row old[] = {
		{RPC HOST INSTANCE WEBSOCKET, BOX_GATE_RPC},
		{RPC HOST WEBSOCKET "X-LangBot-Instance-Id:\r\n", 401},
		{RPC HOST WEBSOCKET "X-LangBot-Instance-Id: _unnamed\r\n", 401},
		{RPC HOST WEBSOCKET, 401}, /* another instance has claimed it */
		{RELAY HOST WEBSOCKET, 401},
		{RELAY HOST INSTANCE WEBSOCKET, 401},
	};
	assert_rows(&open, old, COUNT(old));
	open.instance = NULL;
	decide(&open, RPC HOST WEBSOCKET);
	ASSERT_INT(verdict.kind, BOX_GATE_RPC);
	ASSERT_STR(verdict.instance, "_unnamed");
	decide(&open, RELAY HOST WEBSOCKET);
	ASSERT_INT(verdict.status, 401);
	open.instance = "_unnamed";
	decide(&open, RELAY HOST WEBSOCKET);
	ASSERT_INT(verdict.kind, BOX_GATE_RELAY);
	ASSERT_STR(verdict.instance, "_unnamed");
	ASSERT_STR(verdict.workspace, "");
	ASSERT_INT(verdict.generation, 1);
	decide(&open, RPC HOST INSTANCE WEBSOCKET);
	ASSERT_INT(verdict.status, 401);
	open.unnamed = false;
	decide(&open, RPC HOST WEBSOCKET);
	ASSERT_INT(verdict.status, 401);
	open.instance = strict.instance;

	/* An empty token is still required: a missing field does not match it. */
	open.token = "";
	decide(&open, RPC HOST INSTANCE WEBSOCKET);
	ASSERT_INT(verdict.status, 401);

	struct box_gate_policy unpinned = strict;
	unpinned.instance = NULL;
	static const struct row no_instance[] = {
		{RPC HOST CALLER WEBSOCKET, BOX_GATE_RPC},
		{RPC HOST TOKEN WEBSOCKET "X-LangBot-Instance-Id: any.other:1\r\n", BOX_GATE_RPC},
		{RPC HOST TOKEN WEBSOCKET "X-LangBot-Instance-Id: -1\r\n", 401},
		{RPC HOST TOKEN WEBSOCKET "X-LangBot-Instance-Id:\r\n", 401},
		{RPC HOST TOKEN WEBSOCKET, 401},
		{RPC HOST INSTANCE WEBSOCKET, 401},
		{RELAY HOST TENANT WEBSOCKET, 401},
	};
	assert_rows(&unpinned, no_instance, COUNT(no_instance));
}

TEST(upgrade_shapes)
{
	static const struct row rows[] = {
		{RPC HOST CALLER "Connection: keep-alive, upgrade\r\n" UPGRADE VERSION KEY,
			BOX_GATE_RPC},
		{RPC HOST CALLER "Connection: keep-alive\r\n" CONNECTION UPGRADE VERSION KEY,
			BOX_GATE_RPC},
		{RPC HOST CALLER CONNECTION "Upgrade: WebSocket\r\n" VERSION KEY, BOX_GATE_RPC},

		{RPC HOST CALLER, 426},
		{RPC HOST CALLER CONNECTION VERSION KEY, 426},
		{RPC HOST CALLER CONNECTION "Upgrade:\r\n" VERSION KEY, 400},
		{RPC HOST CALLER CONNECTION "Upgrade: h2c\r\n" VERSION KEY, 400},
		{RPC HOST CALLER CONNECTION "Upgrade: h2c, websocket\r\n" VERSION KEY, 400},
		{RPC HOST CALLER CONNECTION "Upgrade: websocket,\r\n" VERSION KEY, 400},
		{RPC HOST CALLER CONNECTION "Upgrade: websockets\r\n" VERSION KEY, 400},
		{RPC HOST CALLER CONNECTION UPGRADE UPGRADE VERSION KEY, 400},
		{RPC HOST CALLER CONNECTION UPGRADE "Upgrade: h2c\r\n" VERSION KEY, 400},

		{RPC HOST CALLER UPGRADE VERSION KEY, 400},
		{RPC HOST CALLER "Connection: keep-alive\r\n" UPGRADE VERSION KEY, 400},
		{RPC HOST CALLER "Connection: upgraded\r\n" UPGRADE VERSION KEY, 400},
		{RPC HOST CALLER "Connection: keep-alive upgrade\r\n" UPGRADE VERSION KEY, 400},

		{RPC HOST CALLER CONNECTION UPGRADE KEY, 426},
		{RPC HOST CALLER CONNECTION UPGRADE KEY VERSION VERSION, 426},
		{RPC HOST CALLER CONNECTION UPGRADE KEY "Sec-WebSocket-Version: 8\r\n", 426},
		{RPC HOST CALLER CONNECTION UPGRADE KEY "Sec-WebSocket-Version: 13, 8\r\n", 426},
		{RPC HOST CALLER CONNECTION UPGRADE KEY "Sec-WebSocket-Version: 013\r\n", 426},
		{RPC HOST CALLER CONNECTION UPGRADE KEY "Sec-WebSocket-Version:\r\n", 426},

		{RPC HOST CALLER CONNECTION UPGRADE VERSION, 400},
		{RPC HOST CALLER WEBSOCKET KEY, 400},
		{RELAY HOST TENANT CONNECTION UPGRADE VERSION, 400},
		{RELAY HOST TENANT, 426},
	};
	assert_rows(&strict, rows, COUNT(rows));
}

TEST(websocket_keys)
{
	static const struct {
		const char *key;
		bool valid;
	} rows[] = {
		{KEY_TEXT, true},
		{"AAAAAAAAAAAAAAAAAAAAAA==", true},
		{"/+/+/+/+/+/+/+/+/+/+/w==", true},
		{"", false},
		{"dGhlIHNhbXBsZSBub25jZQ=", false},
		{"dGhlIHNhbXBsZSBub25jZQ", false},
		{"dGhlIHNhbXBsZSBub25jZQ===", false},
		{"dGhlIHNhbXBsZSBub25jZQ==AAAA", false},
		{"dGhlIHNhbXBsZSBub25jZQA=", false}, /* 17 bytes */
		{"dGhlIHNhbXBsZSBub25jZQAA", false}, /* 18 bytes */
		{"dGhlIHNhbXBsZSBub2 jZQ==", false},
		{"dGhlIHNhbXBsZSBub2-jZQ==", false},
		{"dGhlIHNhbXBsZSBub2_jZQ==", false},
		{"dGhlIHNhbXBsZSBub2=jZQ==", false},
		{"dGhlIHNhbXBsZSBub25jZR==", false}, /* nonzero bits after the last byte */
		{"========================", false},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		char text[1024];
		(void)snprintf(text, sizeof(text), "%sSec-WebSocket-Key: %s\r\n",
			RPC HOST CALLER CONNECTION UPGRADE VERSION, rows[i].key);
		decide(&strict, text);
		assert_verdict(text, rows[i].valid ? BOX_GATE_RPC : BOX_GATE_REFUSED,
			rows[i].valid ? 0 : 400);
		ASSERT_STR(verdict.websocket_key, rows[i].valid ? rows[i].key : "");
	}
}

TEST(subprotocols)
{
#define OFFER(list) RELAY HOST TENANT WEBSOCKET "Sec-WebSocket-Protocol: " list "\r\n"
	static const struct {
		const char *text;
		bool mcp;
		bool box_v1;
	} rows[] = {
		{RELAY HOST TENANT WEBSOCKET, false, false},
		{OFFER("mcp"), true, false},
		{OFFER("box.v1"), false, true},
		{OFFER("chat,  mcp ,box.v1"), true, true},
		{OFFER("mcp") "sec-websocket-protocol: box.v1\r\n", true, true},
		{OFFER(""), false, false},
		{OFFER("MCP"), false, false},
		{OFFER("mcp2, box.v10, box"), false, false},
		{OFFER("mcp box.v1"), false, false},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		decide(&strict, rows[i].text);
		assert_verdict(rows[i].text, BOX_GATE_RELAY, 0);
		ASSERT_INT(verdict.offers_mcp, rows[i].mcp);
		ASSERT_INT(verdict.offers_box_v1, rows[i].box_v1);
	}
}

TEST(what_a_verdict_carries)
{
	decide(&strict, RELAY HOST TENANT WEBSOCKET);
	ASSERT_INT(verdict.kind, BOX_GATE_RELAY);
	ASSERT_STR(verdict.instance, "inst-1");
	ASSERT_STR(verdict.session_id, "ws-a-g7-s");
	ASSERT_STR(verdict.process_id, "p1");
	ASSERT_STR(verdict.workspace, "ws 1");
	ASSERT_INT(verdict.generation, 7);
	ASSERT_STR(verdict.websocket_key, KEY_TEXT);
	ASSERT(!verdict.head_only);

	decide(&strict, RPC HOST TENANT WEBSOCKET);
	ASSERT_INT(verdict.kind, BOX_GATE_RPC);
	ASSERT_STR(verdict.instance, "inst-1");
	ASSERT_STR(verdict.websocket_key, KEY_TEXT);
	ASSERT_STR(verdict.session_id, "");
	ASSERT_STR(verdict.workspace, "");
	ASSERT_INT(verdict.generation, 0);

	decide(&strict, "GET /healthz HTTP/1.1\r\n" HOST TENANT WEBSOCKET);
	ASSERT_INT(verdict.kind, BOX_GATE_HEALTHZ);
	assert_nothing_known();
}

TEST(the_operator_needs_neither_token_nor_instance)
{
	struct box_gate_policy operator= strict;
	operator.is_operator = true;
	static const struct row rows[] = {
		{RPC HOST WEBSOCKET, BOX_GATE_RPC},
		{RPC "Host: anything\r\n" WEBSOCKET, BOX_GATE_RPC},
		{RPC HOST WEBSOCKET "X-LangBot-Instance-Id: another\r\n", BOX_GATE_RPC},
		{RPC HOST WEBSOCKET "X-LangBot-Instance-Id: _operator\r\n", BOX_GATE_RPC},
		{RPC HOST WEBSOCKET "X-LangBot-Instance-Id: _other\r\n", 401},
		{RPC HOST WEBSOCKET "X-LangBot-Instance-Id: a\r\nX-LangBot-Instance-Id: b\r\n",
			401},
		{RPC HOST, 426},
		/* Of a box that was created without a context. */
		{RELAY HOST WEBSOCKET "X-LangBot-Instance-Id: _unnamed\r\n", BOX_GATE_RELAY},
		{RELAY HOST WEBSOCKET "X-LangBot-Workspace-Id:\r\n", 401},
		{RELAY HOST TENANT WEBSOCKET, BOX_GATE_RELAY},
	};
	assert_rows(&operator, rows, COUNT(rows));
	decide(&operator, RPC HOST WEBSOCKET);
	ASSERT(verdict.is_operator);
	ASSERT_STR(verdict.instance, "_operator");
	decide(&operator, RPC HOST WEBSOCKET "X-LangBot-Instance-Id: another\r\n");
	ASSERT_STR(verdict.instance, "another");

	/* Its instance belongs to nobody else, even if everything else is right. */
	struct box_gate_policy unpinned = strict;
	unpinned.instance = NULL;
	decide(&unpinned, RPC HOST TOKEN WEBSOCKET "X-LangBot-Instance-Id: _operator\r\n");
	ASSERT_INT(verdict.status, 401);
	ASSERT(!verdict.is_operator);
}

#define OTHER "another-token-that-is-valid-as-well-012345"

TEST(two_tokens)
{
	struct box_gate_policy both = strict;
	both.other_token = OTHER;
	static const struct row rows[] = {
		{RPC HOST CALLER WEBSOCKET, BOX_GATE_RPC},
		{RPC HOST INSTANCE WEBSOCKET "X-LangBot-Box-Control-Token: " OTHER "\r\n",
			BOX_GATE_RPC},
		{RPC HOST INSTANCE WEBSOCKET "X-LangBot-Box-Control-Token: " OTHER "x\r\n", 401},
		{RPC HOST INSTANCE WEBSOCKET, 401},
		{RPC HOST INSTANCE WEBSOCKET TOKEN "X-LangBot-Box-Control-Token: " OTHER "\r\n",
			401},
	};
	assert_rows(&both, rows, COUNT(rows));
}

TEST(strangers_without_a_token)
{
	struct box_gate_policy open = strict;
	open.token = NULL;
	open.stranger = "Unauthorized";
	static const struct row rows[] = {
		{RPC HOST INSTANCE WEBSOCKET, 401},
		{RPC HOST CALLER WEBSOCKET, 401},
		{RELAY HOST TENANT WEBSOCKET, 401},
		{"GET /metrics HTTP/1.1\r\n" HOST, 401},
		{"GET /healthz HTTP/1.1\r\n" HOST, BOX_GATE_HEALTHZ},
		{"GET /readyz HTTP/1.1\r\n" HOST, BOX_GATE_READYZ},
	};
	assert_rows(&open, rows, COUNT(rows));
	open.stranger = "you are uid 7";
	decide(&open, RPC HOST INSTANCE WEBSOCKET);
	ASSERT_STR(verdict.body, "you are uid 7");
	decide(&open, "GET /readyz HTTP/1.1\r\n" HOST);
	ASSERT(!verdict.details);
	open.metrics_open = true;
	decide(&open, "GET /metrics HTTP/1.1\r\n" HOST);
	ASSERT_INT(verdict.kind, BOX_GATE_METRICS);
	open.stranger = NULL;
	decide(&open, "GET /readyz HTTP/1.1\r\n" HOST);
	ASSERT(verdict.details);
}
