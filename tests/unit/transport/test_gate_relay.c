/* The gate's decision on relays, and how ids and secrets are compared. */
#include "tests/unit/lib/gate_requests.h"
#include "transport/gate.h"

TEST(relay_headers)
{
#define WITH(workspace, generation)                                             \
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
	for (size_t i = 0; i < COUNT(rows); i++) {
		bool let_in = rows[i].generation > 0;
		decide(&strict, rows[i].text);
		assert_verdict(
			rows[i].text, let_in ? BOX_GATE_RELAY : BOX_GATE_REFUSED, let_in ? 0 : 401);
		ASSERT_INT(verdict.generation, rows[i].generation);
	}
}

/* A relay with a name of n times 'a' in place of %s. */
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
	static const char workspace[] = RELAY HOST CALLER GENERATION WEBSOCKET
		"X-LangBot-Workspace-Id: %s\r\n";
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
	for (size_t i = 0; i < COUNT(rows); i++) {
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
	for (size_t i = 0; i < COUNT(rows); i++) {
		ASSERT_INT(box_tenant_instance_id_valid(rows[i].id), rows[i].valid);
	}
	char longest[BOX_INSTANCE_ID_MAX + 1];
	memset(longest, 'a', sizeof(longest));
	ASSERT(box_tenant_instance_id_valid((struct box_str){longest, BOX_INSTANCE_ID_MAX}));
	ASSERT(!box_tenant_instance_id_valid((struct box_str){longest, BOX_INSTANCE_ID_MAX + 1}));
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
		{SECRET, {SECRET, sizeof(SECRET)}, false}, /* with a NUL after it */
		{SECRET, {SECRET "x", sizeof(SECRET)}, false},
		{SECRET, {NULL, 0}, false},
		{"a", {"A", 1}, false},
		{"a", {"b", 1}, false},
		{"ab", {"a\0", 2}, false},
		{"", {NULL, 0}, true},
		{"", {"\0", 1}, false},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		ASSERT_INT(box_gate_secret_equal(rows[i].secret, rows[i].given), rows[i].equal);
	}
}

TEST(secrets_at_the_longest)
{
	static char text[BOX_TOKEN_MAX + 2];
	memset(text, 'a', sizeof(text) - 1);
	struct box_str longest = {text, BOX_TOKEN_MAX};
	struct box_str longer = {text, BOX_TOKEN_MAX + 1};
	/* A secret beyond the limit matches nothing, not even its prefix. */
	ASSERT(!box_gate_secret_equal(text, longest));
	ASSERT(!box_gate_secret_equal(text, longer));
	text[BOX_TOKEN_MAX] = '\0';
	ASSERT(box_gate_secret_equal(text, longest));
	ASSERT(!box_gate_secret_equal(text, longer));
	char last[BOX_TOKEN_MAX];
	memcpy(last, text, sizeof(last));
	last[BOX_TOKEN_MAX - 1] = 'b';
	ASSERT(!box_gate_secret_equal(text, (struct box_str){last, sizeof(last)}));
}

TEST(phrases)
{
	ASSERT_STR(box_gate_status_phrase(401), "Unauthorized");
	ASSERT_STR(box_gate_status_phrase(200), "OK");
	ASSERT_STR(box_gate_status_phrase(431), "Request Header Fields Too Large");
	ASSERT_STR(box_gate_status_phrase(503), "Service Unavailable");
	ASSERT_STR(box_gate_status_phrase(299), "Unknown");
}
