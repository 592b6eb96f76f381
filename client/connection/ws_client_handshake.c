/* How a WebSocket begins: our request head, and the server's answer. The answer must carry the
 * hash of our key, so that no other protocol's server is taken for ours. */
#include <errno.h>
#include <sha1.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/base64.h"
#include "base/macros.h"
#include "client/connection/ws_client.h"

#define MAGIC "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
#define STATUS_OPEN 101
#define ACCEPT_SIZE 29 /* of the text of a SHA-1, NUL included */

static void encode_base64(const void *bytes, size_t len, char *out, size_t size)
{
	struct box_buf text = box_buf(size - 1);
	(void)box_base64_encode(&text, bytes, len);
	memcpy(out, text.bytes, text.len);
	out[text.len] = '\0';
	box_buf_free(&text);
}

void box_ws_client_key(const unsigned char random[BOX_WS_KEY_BYTES], char out[BOX_WS_KEY_SIZE])
{
	encode_base64(random, BOX_WS_KEY_BYTES, out, BOX_WS_KEY_SIZE);
}

static void accept_of(const char *key, char out[ACCEPT_SIZE])
{
	SHA1_CTX hash;
	unsigned char digest[SHA1_DIGEST_LENGTH];
	SHA1Init(&hash);
	SHA1Update(&hash, (const unsigned char *)key, strlen(key));
	SHA1Update(&hash, (const unsigned char *)MAGIC, strlen(MAGIC));
	SHA1Final(digest, &hash);
	encode_base64(digest, sizeof(digest), out, ACCEPT_SIZE);
}

/* Visible ASCII: nothing that ends a line, and nothing that a proxy would trim. */
static bool header_value(const char *text)
{
	for (; *text; text++) {
		if (*text <= ' ' || *text >= 0x7f) {
			return false;
		}
	}
	return true;
}

int box_ws_client_hello(struct box_buf *out, const struct box_ws_client_hello *hello)
{
	if (!header_value(hello->instance) || (hello->token && !header_value(hello->token)) ||
		(hello->workspace && !header_value(hello->workspace))) {
		return -EINVAL;
	}
	int r = box_buf_printf(out,
		"GET %s HTTP/1.1\r\n"
		"Host: %s\r\n"
		"Upgrade: websocket\r\n"
		"Connection: Upgrade\r\n"
		"Sec-WebSocket-Key: %s\r\n"
		"Sec-WebSocket-Version: 13\r\n"
		"X-LangBot-Instance-Id: %s\r\n",
		hello->path, hello->authority, hello->key, hello->instance);
	if (r == 0 && hello->token) {
		r = box_buf_printf(out, "X-LangBot-Box-Control-Token: %s\r\n", hello->token);
	}
	if (r == 0 && hello->workspace) {
		r = box_buf_printf(out,
			"X-LangBot-Workspace-Id: %s\r\n"
			"X-LangBot-Placement-Generation: %lld\r\n",
			hello->workspace, (long long)hello->generation);
	}
	if (r == 0 && hello->protocol) {
		r = box_buf_printf(out, "Sec-WebSocket-Protocol: %s\r\n", hello->protocol);
	}
	return r < 0 ? r : box_buf_append_str(out, "\r\n");
}

/* The value of a header that is there exactly once, without white space around it; else none. */
static struct box_str field(struct box_str head, const char *name)
{
	struct box_str found = {NULL, 0};
	const char *at = head.bytes;
	const char *end = head.bytes + head.len;
	size_t name_len = strlen(name);
	while (at < end) {
		const char *line_end = memmem(at, (size_t)(end - at), "\r\n", 2);
		size_t len = (size_t)((line_end ? line_end : end) - at);
		if (len > name_len && at[name_len] == ':' && strncasecmp(at, name, name_len) == 0) {
			if (found.bytes) {
				return (struct box_str){NULL, 0};
			}
			found = box_str_strip(
				(struct box_str){at + name_len + 1, len - name_len - 1});
		}
		at = line_end ? line_end + 2 : end;
	}
	return found;
}

/* `HTTP/1.1 NNN`, or -1. */
static int status_of(struct box_str head)
{
	static const char version[] = "HTTP/1.1 ";
	size_t at = sizeof(version) - 1;
	if (head.len < at + 3 || memcmp(head.bytes, version, at) != 0) {
		return -1;
	}
	int status = 0;
	for (size_t i = at; i < at + 3; i++) {
		if (head.bytes[i] < '0' || head.bytes[i] > '9') {
			return -1;
		}
		status = status * 10 + (head.bytes[i] - '0');
	}
	bool ends = head.len == at + 3 || head.bytes[at + 3] == ' ' || head.bytes[at + 3] == '\r';
	return ends ? status : -1;
}

static bool same_word(struct box_str text, const char *word)
{
	return text.len == strlen(word) && strncasecmp(text.bytes, word, text.len) == 0;
}

/* NULL, or why a 101 does not open the connection that we asked for. */
static const char *check_open(struct box_str head, const struct box_ws_client_hello *hello)
{
	char accept[ACCEPT_SIZE];
	accept_of(hello->key, accept);
	struct box_str given = field(head, "Sec-WebSocket-Accept");
	struct box_str protocol = field(head, "Sec-WebSocket-Protocol");
	if (!same_word(field(head, "Upgrade"), "websocket") ||
		!same_word(field(head, "Connection"), "upgrade")) {
		return "it does not upgrade to WebSocket";
	}
	if (!given.bytes || !box_str_eq(given, accept)) {
		return "it does not answer our key";
	}
	if (field(head, "Sec-WebSocket-Extensions").bytes || (!hello->protocol && protocol.bytes)) {
		return "it chose an extension or a protocol that was not offered";
	}
	if (hello->protocol && (!protocol.bytes || !box_str_eq(protocol, hello->protocol))) {
		return "it does not speak the protocol that was offered";
	}
	return NULL;
}

enum box_ws_client_answer box_ws_client_answer(const char *bytes, size_t len,
	const struct box_ws_client_hello *hello, size_t *ret_used, int *ret_status,
	const char **ret_why)
{
	size_t looked = BOX_MIN(len, BOX_HTTP_HEAD_BYTES_MAX);
	const char *end = looked > 0 ? memmem(bytes, looked, "\r\n\r\n", 4) : NULL;
	static const char begin[] = "HTTP/1.1 ";
	size_t compared = looked < sizeof(begin) - 1 ? looked : sizeof(begin) - 1;
	if (compared > 0 && memcmp(bytes, begin, compared) != 0) {
		*ret_why = "it does not speak HTTP/1.1";
		return BOX_WS_ANSWER_BROKEN;
	}
	if (!end) {
		*ret_why = "its answer's head is too long";
		return len < BOX_HTTP_HEAD_BYTES_MAX ? BOX_WS_ANSWER_MORE : BOX_WS_ANSWER_BROKEN;
	}
	struct box_str head = {bytes, (size_t)(end - bytes) + 2};
	int status = status_of(head);
	if (status < 0) {
		*ret_why = "its answer has no status";
		return BOX_WS_ANSWER_BROKEN;
	}
	*ret_used = head.len + 2;
	*ret_status = status;
	if (status != STATUS_OPEN) {
		return BOX_WS_ANSWER_REFUSED;
	}
	*ret_why = check_open(head, hello);
	return *ret_why ? BOX_WS_ANSWER_BROKEN : BOX_WS_ANSWER_OPEN;
}
