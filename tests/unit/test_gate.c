/* The decision at the front door: tables of requests and what becomes of them. */
#include "transport/gate.h"

#include "tests/unit/test.h"

#define ROWS(table) (sizeof(table) / sizeof((table)[0]))

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

static void decide(const struct box_gate_policy *policy, const char *text)
{
	struct box_head head;
	char whole[BOX_HEAD_BYTES_MAX + 1];
	int len = snprintf(whole, sizeof(whole), "%s\r\n", text);
	ASSERT(len > 0 && (size_t)len < sizeof(whole));
	if (box_head_parse(whole, (size_t)len, &head) != BOX_HEAD_COMPLETE) {
		TEST_FAIL("no complete head: %s", whole);
	}
	/* What was there before must not shine through. */
	memset(&verdict, 0x5a, sizeof(verdict));
	box_gate_decide(policy, &head, &verdict);
}

static void assert_nothing_known(void)
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

/* status 0 stands for "let in". */
static void assert_verdict(const char *text, enum box_gate_kind kind, int status)
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

/* `outcome` is the kind of what is let in, or the status of a refusal. */
struct row {
	const char *text;
	int outcome;
};

static void assert_rows(const struct box_gate_policy *policy, const struct row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		bool refused = rows[i].outcome >= 100;
		decide(policy, rows[i].text);
		assert_verdict(rows[i].text,
			refused ? BOX_GATE_REFUSED : (enum box_gate_kind)rows[i].outcome,
			refused ? rows[i].outcome : 0);
	}
}

TEST(routes_and_methods)
{
	static const struct row rows[] = {
		{"GET /healthz HTTP/1.1\r\n" HOST, BOX_GATE_HEALTHZ},
		{"GET /readyz HTTP/1.1\r\n" HOST, BOX_GATE_READYZ},
		{"GET /metrics HTTP/1.1\r\n" HOST, BOX_GATE_METRICS},
		{"GET /healthz?verbose=1 HTTP/1.1\r\n" HOST, BOX_GATE_HEALTHZ},
		{"HEAD /healthz HTTP/1.1\r\n" HOST, BOX_GATE_HEALTHZ},
		{"HEAD /readyz HTTP/1.1\r\n" HOST, BOX_GATE_READYZ},
		{"HEAD /metrics HTTP/1.1\r\n" HOST, BOX_GATE_METRICS},
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
	assert_rows(&strict, rows, ROWS(rows));
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
	for (size_t i = 0; i < ROWS(rows) * ROWS(lines); i++) {
		const char *host = rows[i / ROWS(lines)].host;
		bool loopback = rows[i / ROWS(lines)].loopback;
		size_t line = i % ROWS(lines);
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
	for (size_t i = 0; i < ROWS(rows); i++) {
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
		/* The query is taken and not looked at. */
		{"GET /rpc/ws?x=1 HTTP/1.1\r\n" HOST CALLER WEBSOCKET, BOX_GATE_RPC},
		{"GET /rpc/ws?token=" SECRET " HTTP/1.1\r\n" HOST INSTANCE WEBSOCKET, 401},
		{"GET /rpc/ws?X-LangBot-Box-Control-Token=" SECRET
		 " HTTP/1.1\r\n" HOST INSTANCE WEBSOCKET,
			401},
		/* Who may not come in hears nothing of the upgrade. */
		{RPC HOST INSTANCE, 401},
		{RPC HOST INSTANCE CONNECTION UPGRADE KEY, 401},
		{RPC HOST, 401},
		{RELAY HOST, 401},
	};
	assert_rows(&strict, rows, ROWS(rows));
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
	assert_rows(&open, no_token, ROWS(no_token));

	/* An empty token is one that is asked for: no field at all does not equal it. */
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
	assert_rows(&unpinned, no_instance, ROWS(no_instance));
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
	assert_rows(&strict, rows, ROWS(rows));
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
		{"dGhlIHNhbXBsZSBub25jZR==", false}, /* bits behind the last byte */
		{"========================", false},
	};
	for (size_t i = 0; i < ROWS(rows); i++) {
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
	for (size_t i = 0; i < ROWS(rows); i++) {
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

TEST(relay_headers)
{
#define WITH(workspace, generation)                                          \
	RELAY HOST CALLER WEBSOCKET "X-LangBot-Workspace-Id: " workspace "\r\n" \
				    "X-LangBot-Placement-Generation: " generation "\r\n"
	static const struct {
		const char *text;
		int64_t generation; /* 0: refused */
	} rows[] = {
		{WITH("w", "1"), 1},
		{WITH("w", "  42 "), 42},
		{WITH("w", "9223372036854775807"), INT64_MAX},
		{WITH("w", "9223372036854775808"), 0},
		{WITH("w", "92233720368547758070"), 0},
		{WITH("w", "18446744073709551617"), 0},
		{WITH("w", "0"), 0},
		{WITH("w", "00"), 0},
		{WITH("w", "01"), 0},
		{WITH("w", "-1"), 0},
		{WITH("w", "+1"), 0},
		{WITH("w", "1.0"), 0},
		{WITH("w", "1_000"), 0},
		{WITH("w", "1 2"), 0},
		{WITH("w", "0x1"), 0},
		{WITH("w", ""), 0},
		{WITH("", "1"), 0},
		{WITH("w", "1") WORKSPACE, 0},
		{WITH("w", "1") GENERATION, 0},
		{RELAY HOST CALLER WEBSOCKET WORKSPACE, 0},
		{RELAY HOST CALLER WEBSOCKET GENERATION, 0},
		{RELAY HOST CALLER WEBSOCKET, 0},
		{RELAY HOST INSTANCE WORKSPACE GENERATION WEBSOCKET, 0},
		{RELAY HOST TOKEN WORKSPACE GENERATION WEBSOCKET, 0},
	};
	for (size_t i = 0; i < ROWS(rows); i++) {
		bool let_in = rows[i].generation > 0;
		decide(&strict, rows[i].text);
		assert_verdict(rows[i].text, let_in ? BOX_GATE_RELAY : BOX_GATE_REFUSED,
			let_in ? 0 : 401);
		ASSERT_INT(verdict.generation, rows[i].generation);
	}
}

/* A relay with a name of n times 'a' in the place of %s. */
static void decide_long(const char *format, size_t n)
{
	char name[BOX_GATE_SESSION_SIZE + 16];
	char text[2048];
	ASSERT(n < sizeof(name));
	memset(name, 'a', n);
	name[n] = '\0';
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	int len = snprintf(text, sizeof(text), format, name);
#pragma GCC diagnostic pop
	ASSERT(len > 0 && (size_t)len < sizeof(text));
	decide(&strict, text);
}

TEST(lengths_at_their_limits)
{
	static const char workspace[] =
		RELAY HOST CALLER GENERATION WEBSOCKET "X-LangBot-Workspace-Id: %s\r\n";
	decide_long(workspace, BOX_WORKSPACE_ID_MAX);
	ASSERT_INT(verdict.kind, BOX_GATE_RELAY);
	ASSERT_INT(strlen(verdict.workspace), BOX_WORKSPACE_ID_MAX);
	decide_long(workspace, BOX_WORKSPACE_ID_MAX + 1);
	ASSERT_INT(verdict.status, 401);

	static const char session[] =
		"GET /v1/sessions/%s/managed-process/ws HTTP/1.1\r\n" HOST TENANT WEBSOCKET;
	decide_long(session, BOX_GATE_SESSION_SIZE - 1);
	ASSERT_INT(verdict.kind, BOX_GATE_RELAY);
	ASSERT_INT(strlen(verdict.session_id), BOX_GATE_SESSION_SIZE - 1);
	decide_long(session, BOX_GATE_SESSION_SIZE);
	ASSERT_INT(verdict.status, 404);

	static const char process[] =
		"GET /v1/sessions/s/managed-process/%s/ws HTTP/1.1\r\n" HOST TENANT WEBSOCKET;
	decide_long(process, BOX_SESSION_ID_MAX);
	ASSERT_INT(verdict.kind, BOX_GATE_RELAY);
	ASSERT_INT(strlen(verdict.process_id), BOX_SESSION_ID_MAX);
	decide_long(process, BOX_SESSION_ID_MAX + 1);
	ASSERT_INT(verdict.status, 404);
}

TEST(relay_paths)
{
	static const struct {
		const char *path;
		const char *session; /* NULL: 404 */
		const char *process;
	} rows[] = {
		{"/v1/sessions/s/managed-process/ws", "s", "default"},
		{"/v1/sessions/s/managed-process/p/ws", "s", "p"},
		{"/v1/sessions/s/managed-process/p/ws?x=/y", "s", "p"},
		{"/v1/sessions/s/managed-process/ws/ws", "s", "ws"},
		{"/v1/sessions/managed-process/managed-process/default/ws", "managed-process",
			"default"},
		{"/v1/sessions/ws-0a-g1-mcp-shared/managed-process/"
		 "0b9c2d1e-77aa-4c1f-9d55-0123456789ab/ws",
			"ws-0a-g1-mcp-shared", "0b9c2d1e-77aa-4c1f-9d55-0123456789ab"},
		{"/v1/sessions/A_.:@~+-9/managed-process/A_.:@~+-9/ws", "A_.:@~+-9", "A_.:@~+-9"},
		{"/v1/sessions/%41%2e%2E%3a%3A/managed-process/%7e%7E%2b/ws", "A..::", "~~+"},
		{"/v1/sessions/s/managed-process/.../ws", "s", "..."},
		{"/v1/sessions/s/managed-process/.a/ws", "s", ".a"},

		{"/v1/sessions/s/managed-process/a%2Fb/ws", NULL, NULL},
		{"/v1/sessions/s/managed-process/a%2fb/ws", NULL, NULL},
		{"/v1/sessions/a%2Fb/managed-process/p/ws", NULL, NULL},
		{"/v1/sessions/s/managed-process/p%00/ws", NULL, NULL},
		{"/v1/sessions/s%00x/managed-process/p/ws", NULL, NULL},
		{"/v1/sessions/%00/managed-process/p/ws", NULL, NULL},
		{"/v1/sessions/../managed-process/p/ws", NULL, NULL},
		{"/v1/sessions/%2e%2E/managed-process/p/ws", NULL, NULL},
		{"/v1/sessions/s/managed-process/../ws", NULL, NULL},
		{"/v1/sessions/s/managed-process/.%2e/ws", NULL, NULL},
		{"/v1/sessions/s/managed-process/./ws", NULL, NULL},
		{"/v1/sessions/s/managed-process/%2E/ws", NULL, NULL},
		{"/v1/sessions/s/managed-process//ws", NULL, NULL},
		{"/v1/sessions//managed-process/ws", NULL, NULL},
		{"/v1/sessions/s/managed-process/p%/ws", NULL, NULL},
		{"/v1/sessions/s/managed-process/p%4/ws", NULL, NULL},
		{"/v1/sessions/s/managed-process/p%4g/ws", NULL, NULL},
		{"/v1/sessions/s/managed-process/p%g4/ws", NULL, NULL},
		{"/v1/sessions/s/managed-process/p%+4/ws", NULL, NULL},
		{"/v1/sessions/s/managed-process/%2541/ws", NULL, NULL}, /* not decoded twice */
		{"/v1/sessions/s/managed-process/%252e%252e/ws", NULL, NULL},
		{"/v1/sessions/s/managed-process/a%20b/ws", NULL, NULL},
		{"/v1/sessions/s/managed-process/a%0d%0ab/ws", NULL, NULL},
		{"/v1/sessions/s/managed-process/a%5cb/ws", NULL, NULL},
		{"/v1/sessions/s/managed-process/a\\b/ws", NULL, NULL},
		{"/v1/sessions/s/managed-process/%c3%a9/ws", NULL, NULL},
		{"/v1/sessions/s/managed-process/%FF/ws", NULL, NULL},
		{"/v1/sessions/s/managed-process/a*b/ws", NULL, NULL},
		{"/v1/sessions/s/managed-process/p/ws/", NULL, NULL},
		{"/v1/sessions/s/managed-process/p/q/ws", NULL, NULL},
		{"/v1/sessions/s/managed-process/p", NULL, NULL},
		{"/v1/sessions/s/managed-process", NULL, NULL},
		{"/v1/sessions/s/ws", NULL, NULL},
		{"/v1/sessions/s/managed-proces/p/ws", NULL, NULL},
		{"/v1/sessions/s/managed%2Dprocess/p/ws", NULL, NULL},
		{"/v1/session/s/managed-process/p/ws", NULL, NULL},
		{"/v2/sessions/s/managed-process/p/ws", NULL, NULL},
		{"/V1/sessions/s/managed-process/p/ws", NULL, NULL},
		{"//v1/sessions/s/managed-process/ws", NULL, NULL},
		{"/v1/sessions/s/managed-process/p/wss", NULL, NULL},
		{"/v1/sessions/s/managed-process?/p/ws", NULL, NULL},
	};
	for (size_t i = 0; i < ROWS(rows); i++) {
		char text[1024];
		(void)snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\n%s", rows[i].path,
			HOST TENANT WEBSOCKET);
		decide(&strict, text);
		bool found = rows[i].session != NULL;
		assert_verdict(text, found ? BOX_GATE_RELAY : BOX_GATE_REFUSED, found ? 0 : 404);
		ASSERT_STR(verdict.session_id, found ? rows[i].session : "");
		ASSERT_STR(verdict.process_id, found ? rows[i].process : "");
	}
}

TEST(every_byte_in_an_id)
{
	static const char allowed[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "abcdefghijklmnopqrstuvwxyz_.:@~+-";
	for (int byte = 0; byte < 256; byte++) {
		char text[1024];
		(void)snprintf(text, sizeof(text),
			"GET /v1/sessions/s/managed-process/x%%%02x/ws HTTP/1.1\r\n%s", byte,
			HOST TENANT WEBSOCKET);
		decide(&strict, text);
		bool good = byte != 0 && strchr(allowed, byte) != NULL;
		ASSERT_INT(verdict.status, good ? 0 : 404);
		if (good) {
			ASSERT_INT(verdict.process_id[1], byte);
		}
	}
}

TEST(instance_ids)
{
	static const struct {
		struct box_str id;
		bool valid;
	} rows[] = {
		{{"a", 1}, true},
		{{"Z9._:-", 6}, true},
		{{"0b9c2d1e-77aa-4c1f-9d55-0123456789ab", 36}, true},
		{{NULL, 0}, false},
		{{"", 0}, false},
		{{".a", 2}, false},
		{{"-a", 2}, false},
		{{"_a", 2}, false},
		{{"a b", 3}, false},
		{{"a/b", 3}, false},
		{{"a\0b", 3}, false},
		{{"\0", 1}, false},
		{{"a\n", 2}, false},
		{{"a\xc3\xa9", 3}, false},
		{{"a@b", 3}, false},
	};
	for (size_t i = 0; i < ROWS(rows); i++) {
		ASSERT_INT(box_instance_id_valid(rows[i].id), rows[i].valid);
	}
	char longest[BOX_INSTANCE_ID_MAX + 1];
	memset(longest, 'a', sizeof(longest));
	ASSERT(box_instance_id_valid((struct box_str){longest, BOX_INSTANCE_ID_MAX}));
	ASSERT(!box_instance_id_valid((struct box_str){longest, BOX_INSTANCE_ID_MAX + 1}));
}

TEST(secrets)
{
	static const struct {
		const char *secret;
		struct box_str given;
		bool equal;
	} rows[] = {
		{SECRET, {SECRET, sizeof(SECRET) - 1}, true},
		{SECRET, {SECRET, sizeof(SECRET) - 2}, false},
		{SECRET, {SECRET, sizeof(SECRET)}, false}, /* with a NUL behind it */
		{SECRET, {SECRET "x", sizeof(SECRET)}, false},
		{SECRET, {NULL, 0}, false},
		{"a", {"A", 1}, false},
		{"a", {"b", 1}, false},
		{"ab", {"a\0", 2}, false},
		{"", {NULL, 0}, true},
		{"", {"\0", 1}, false},
	};
	for (size_t i = 0; i < ROWS(rows); i++) {
		ASSERT_INT(box_secret_equal(rows[i].secret, rows[i].given), rows[i].equal);
	}
}

TEST(secrets_at_the_longest)
{
	static char text[BOX_TOKEN_MAX + 2];
	memset(text, 'a', sizeof(text) - 1);
	struct box_str longest = {text, BOX_TOKEN_MAX};
	struct box_str longer = {text, BOX_TOKEN_MAX + 1};
	/* A secret past the limit equals nothing, not even its start. */
	ASSERT(!box_secret_equal(text, longest));
	ASSERT(!box_secret_equal(text, longer));
	text[BOX_TOKEN_MAX] = '\0';
	ASSERT(box_secret_equal(text, longest));
	ASSERT(!box_secret_equal(text, longer));
	char last[BOX_TOKEN_MAX];
	memcpy(last, text, sizeof(last));
	last[BOX_TOKEN_MAX - 1] = 'b';
	ASSERT(!box_secret_equal(text, (struct box_str){last, sizeof(last)}));
}

TEST(phrases)
{
	ASSERT_STR(box_http_phrase(401), "Unauthorized");
	ASSERT_STR(box_http_phrase(200), "OK");
	ASSERT_STR(box_http_phrase(431), "Request Header Fields Too Large");
	ASSERT_STR(box_http_phrase(503), "Service Unavailable");
	ASSERT_STR(box_http_phrase(299), "Unknown");
}
