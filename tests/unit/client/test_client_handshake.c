/* libbox's WebSocket handshake: the request it sends, and the responses it accepts. */
#include <errno.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "client/connection/ws_client.h"
#include "tests/unit/lib/test.h"

#define KEY "dGhlIHNhbXBsZSBub25jZQ=="
static const struct box_ws_client_hello asked = {.key = KEY};
#define ACCEPT "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
#define OPENING "HTTP/1.1 101 Switching Protocols\r\n"
#define UPGRADE "Upgrade: websocket\r\nConnection: Upgrade\r\n"

TEST(says_hello)
{
	struct box_buf out = box_buf(BOX_MIB);
	struct box_ws_client_hello hello = {
		.authority = "h:1", .path = "/rpc/ws", .instance = "me"};
	box_ws_client_key((const unsigned char *)"the sample nonce", hello.key);
	ASSERT_STR(hello.key, KEY);
#define HELLO                                                                                \
	"GET /rpc/ws HTTP/1.1\r\nHost: h:1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" \
	"Sec-WebSocket-Key: " KEY "\r\nSec-WebSocket-Version: 13\r\nX-LangBot-Instance-Id: me\r\n"
	ASSERT_INT(box_ws_client_hello(&out, &hello), 0);
	ASSERT_BYTES(out.bytes, out.len, HELLO "\r\n", sizeof(HELLO) + 1);
	out.len = 0;
	hello.token = "secret";
	ASSERT_INT(box_ws_client_hello(&out, &hello), 0);
	static const char with_token[] = HELLO "X-LangBot-Box-Control-Token: secret\r\n\r\n";
	ASSERT_BYTES(out.bytes, out.len, with_token, sizeof(with_token) - 1);
	out.len = 0;
	hello.token = NULL;
	hello.workspace = "w";
	hello.generation = 3;
	hello.protocol = "box.v1";
	ASSERT_INT(box_ws_client_hello(&out, &hello), 0);
	static const char relay[] = HELLO "X-LangBot-Workspace-Id: w\r\n"
					  "X-LangBot-Placement-Generation: 3\r\n"
					  "Sec-WebSocket-Protocol: box.v1\r\n\r\n";
	ASSERT_BYTES(out.bytes, out.len, relay, sizeof(relay) - 1);
	box_buf_free(&out);
}

/* Exactly the offered subprotocol must be chosen. */
TEST(reads_the_protocol)
{
	static const struct {
		const char *head;
		enum box_ws_client_answer answer;
	} rows[] = {
		{OPENING UPGRADE ACCEPT "Sec-WebSocket-Protocol: box.v1\r\n\r\n",
			BOX_WS_ANSWER_OPEN},
		{OPENING UPGRADE ACCEPT "Sec-WebSocket-Protocol: mcp\r\n\r\n",
			BOX_WS_ANSWER_BROKEN},
		{OPENING UPGRADE ACCEPT "\r\n", BOX_WS_ANSWER_BROKEN},
	};
	static const struct box_ws_client_hello offered = {.key = KEY, .protocol = "box.v1"};
	for (size_t i = 0; i < COUNT(rows); i++) {
		size_t used;
		int status;
		const char *why = NULL;
		ASSERT_INT(box_ws_client_answer(rows[i].head, strlen(rows[i].head), &offered, &used,
				   &status, &why),
			rows[i].answer);
	}
}

TEST(lets_no_header_slip_in)
{
	static const char *const bad[] = {"a\r\nX: y", "a b", "a\tb", "\x7f", "\xc3\xa9"};
	for (size_t i = 0; i < COUNT(bad); i++) {
		struct box_buf out = box_buf(BOX_MIB);
		struct box_ws_client_hello hello = {
			.authority = "h", .path = "/", .instance = bad[i]};
		ASSERT_INT(box_ws_client_hello(&out, &hello), -EINVAL);
		hello.instance = "me";
		hello.token = bad[i];
		ASSERT_INT(box_ws_client_hello(&out, &hello), -EINVAL);
		hello.token = NULL;
		hello.workspace = bad[i];
		ASSERT_INT(box_ws_client_hello(&out, &hello), -EINVAL);
		ASSERT_INT(out.len, 0);
		box_buf_free(&out);
	}
}

TEST(reads_the_answer)
{
	static const struct {
		const char *head;
		enum box_ws_client_answer answer;
		int status;
		const char *why;
	} rows[] = {
		{OPENING UPGRADE ACCEPT "\r\n", BOX_WS_ANSWER_OPEN, 101, NULL},
		{"HTTP/1.1 101\r\nupgrade:WebSocket\r\nCONNECTION:  upgrade \r\n" ACCEPT "\r\n",
			BOX_WS_ANSWER_OPEN, 101, NULL},
		{"HTTP/1.1 401 Unauthorized\r\nContent-Length: 12\r\n\r\n", BOX_WS_ANSWER_REFUSED,
			401, NULL},
		{"HTTP/1.1 503 Busy\r\n\r\n", BOX_WS_ANSWER_REFUSED, 503, NULL},
		{"HTTP/1.1 200 OK\r\n" UPGRADE ACCEPT "\r\n", BOX_WS_ANSWER_REFUSED, 200, NULL},
		{OPENING UPGRADE "\r\n", BOX_WS_ANSWER_BROKEN, 101,
			"its Sec-WebSocket-Accept is wrong"},
		{OPENING UPGRADE "Sec-WebSocket-Accept: S3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
			BOX_WS_ANSWER_BROKEN, 101, "its Sec-WebSocket-Accept is wrong"},
		{OPENING UPGRADE ACCEPT ACCEPT "\r\n", BOX_WS_ANSWER_BROKEN, 101,
			"its Sec-WebSocket-Accept is wrong"},
		{OPENING ACCEPT "\r\n", BOX_WS_ANSWER_BROKEN, 101,
			"it does not upgrade to WebSocket"},
		{OPENING "Upgrade: h2c\r\nConnection: Upgrade\r\n" ACCEPT "\r\n",
			BOX_WS_ANSWER_BROKEN, 101, "it does not upgrade to WebSocket"},
		{OPENING UPGRADE ACCEPT "Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n",
			BOX_WS_ANSWER_BROKEN, 101,
			"it chose an extension or a protocol that was not offered"},
		{OPENING UPGRADE ACCEPT "Sec-WebSocket-Protocol: mcp\r\n\r\n", BOX_WS_ANSWER_BROKEN,
			101, "it chose an extension or a protocol that was not offered"},
		{"HTTP/1.1 1x1 OK\r\n\r\n", BOX_WS_ANSWER_BROKEN, 0, "its answer has no status"},
		{"HTTP/1.1 1011\r\n\r\n", BOX_WS_ANSWER_BROKEN, 0, "its answer has no status"},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		size_t len = strlen(rows[i].head);
		size_t used = 0;
		int status = 0;
		const char *why = NULL;
		/* Every prefix of it needs more. */
		for (size_t part = 0; part < len; part++) {
			ASSERT_INT(box_ws_client_answer(
					   rows[i].head, part, &asked, &used, &status, &why),
				BOX_WS_ANSWER_MORE);
		}
		char *with_frame = box_alloc(len + 2);
		put_bytes(with_frame, rows[i].head, len);
		put_bytes(with_frame + len, "\x82", 2);
		why = NULL;
		ASSERT_INT(box_ws_client_answer(with_frame, len + 2, &asked, &used, &status, &why),
			rows[i].answer);
		ASSERT_INT(status, rows[i].status);
		if (rows[i].answer == BOX_WS_ANSWER_BROKEN) {
			ASSERT_STR(why, rows[i].why);
		} else {
			ASSERT_INT(used, len);
		}
		free(with_frame);
	}
}

TEST(knows_other_servers_early)
{
	static const char *const others[] = {"SSH-2.0-x\r\n", "HTTP/1.0 200 OK\r\n\r\n", "H2"};
	size_t used;
	int status;
	for (size_t i = 0; i < COUNT(others); i++) {
		const char *why = NULL;
		ASSERT_INT(box_ws_client_answer(
				   others[i], strlen(others[i]), &asked, &used, &status, &why),
			BOX_WS_ANSWER_BROKEN);
		ASSERT_STR(why, "it does not speak HTTP/1.1");
	}
}

TEST(reads_no_endless_head)
{
	char *head = box_alloc(BOX_HTTP_HEAD_BYTES_MAX + 4);
	size_t used;
	int status;
	const char *why = NULL;
	memset(head, 'x', BOX_HTTP_HEAD_BYTES_MAX);
	put_bytes(head, OPENING, sizeof(OPENING) - 1);
	ASSERT_INT(box_ws_client_answer(
			   head, BOX_HTTP_HEAD_BYTES_MAX - 1, &asked, &used, &status, &why),
		BOX_WS_ANSWER_MORE);
	put_bytes(head + BOX_HTTP_HEAD_BYTES_MAX, "\r\n\r\n", 4);
	ASSERT_INT(box_ws_client_answer(
			   head, BOX_HTTP_HEAD_BYTES_MAX + 4, &asked, &used, &status, &why),
		BOX_WS_ANSWER_BROKEN);
	ASSERT_STR(why, "the head of its answer is too long");
	free(head);
}
