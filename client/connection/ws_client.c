/* The client's half of WebSocket (RFC 6455): the opening handshake, and frames in both directions.
 *
 * The server is not trusted: lengths, reserved bits, masks and the order of fragments are checked before
 * a byte is kept, and the size of a message is limited. The answer to the handshake must carry the hash
 * of our key, so that a server of another protocol is not mistaken for a runtime. */
#include "client/connection/ws_client.h"

#include <errno.h>
#include <sha1.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "base/base64.h"
#include "base/macros.h"

/* --- frames --- */

#define FINAL 0x80
#define RESERVED 0x70
#define MASKED 0x80
#define LENGTH_16 126
#define LENGTH_64 127
#define HEADER_MAX 14
#define AT_ONCE_BYTES (256 * BOX_KIB)
#define DIRECT_BYTES (4 * BOX_KIB) /* less is not worth a call of its own */

static size_t write_length(unsigned char *header, size_t len)
{
	if (len < LENGTH_16) {
		header[1] = (unsigned char)(MASKED | len);
		return 2;
	}
	size_t width = len <= UINT16_MAX ? 2 : 8;
	header[1] = MASKED | (width == 2 ? LENGTH_16 : LENGTH_64);
	for (size_t i = 0; i < width; i++) {
		header[2 + i] = (unsigned char)((uint64_t)len >> 8 * (width - 1 - i));
	}
	return 2 + width;
}

/* Eight bytes at a time, which compilers vectorize: one at a time was half of the work of a copy. */
static void mask_bytes(char *to, const char *from, size_t len, const unsigned char *mask)
{
	uint64_t wide;
	size_t at = 0;
	memcpy(&wide, mask, BOX_WS_MASK_BYTES);
	memcpy((char *)&wide + BOX_WS_MASK_BYTES, mask, BOX_WS_MASK_BYTES);
	if (wide == 0) {
		memmove(to, from, to == from ? 0 : len);
		return;
	}
	for (; at + sizeof(wide) <= len; at += sizeof(wide)) {
		uint64_t word;
		memcpy(&word, from + at, sizeof(word));
		word ^= wide;
		memcpy(to + at, &word, sizeof(word));
	}
	for (; at < len; at++) {
		to[at] = (char)(from[at] ^ mask[at % BOX_WS_MASK_BYTES]);
	}
}

static size_t write_header(unsigned char header[HEADER_MAX], enum box_ws_client_opcode opcode,
	size_t len, const unsigned char *mask)
{
	header[0] = (unsigned char)(FINAL | opcode);
	size_t header_len = write_length(header, len);
	memcpy(header + header_len, mask, BOX_WS_MASK_BYTES);
	return header_len + BOX_WS_MASK_BYTES;
}

int box_ws_client_frame(struct box_buf *out, enum box_ws_client_opcode opcode, const void *payload,
	size_t len, const unsigned char mask[BOX_WS_MASK_BYTES])
{
	unsigned char header[HEADER_MAX];
	size_t header_len = write_header(header, opcode, len, mask);
	if (len > SIZE_MAX - header_len) {
		return -EMSGSIZE;
	}
	char *place = box_buf_reserve(out, header_len + len);
	if (!place) {
		return -EMSGSIZE;
	}
	memcpy(place, header, header_len);
	mask_bytes(place + header_len, payload, len, mask);
	out->len += header_len + len;
	return 0;
}

int box_ws_client_frame_begin(struct box_buf *out, size_t *ret_mark)
{
	*ret_mark = out->len;
	if (!box_buf_reserve(out, HEADER_MAX)) {
		return -EMSGSIZE;
	}
	out->len += HEADER_MAX;
	return 0;
}

void box_ws_client_frame_end(struct box_buf *out, size_t mark, enum box_ws_client_opcode opcode,
	const unsigned char mask[BOX_WS_MASK_BYTES])
{
	unsigned char header[HEADER_MAX];
	char *place = out->bytes + mark;
	size_t len = out->len - mark - HEADER_MAX;
	size_t header_len = write_header(header, opcode, len, mask);
	/* A short payload has a shorter header, and is moved to it. */
	mask_bytes(place + header_len, place + HEADER_MAX, len, mask);
	memcpy(place, header, header_len);
	out->len = mark + header_len + len;
}

void box_ws_client_frame_end_around(
	struct box_buf *out, size_t mark, enum box_ws_client_opcode opcode, size_t apart)
{
	static const unsigned char none[BOX_WS_MASK_BYTES];
	/* For such a length the header has its full size. */
	(void)write_header((unsigned char *)out->bytes + mark, opcode,
		out->len - mark - HEADER_MAX + apart, none);
}

void box_ws_client_reader_start(struct box_ws_client_reader *reader)
{
	memset(reader, 0, sizeof(*reader));
	reader->message = box_buf(BOX_MESSAGE_BYTES_MAX);
}

void box_ws_client_reader_free(struct box_ws_client_reader *reader)
{
	box_buf_free(&reader->message);
}

struct box_buf box_ws_client_reader_take(struct box_ws_client_reader *reader)
{
	struct box_buf message = reader->message;
	reader->message = box_buf(BOX_MESSAGE_BYTES_MAX);
	return message;
}

static bool is_control(unsigned opcode)
{
	return opcode >= BOX_WS_OP_CLOSE;
}

/* The length of the header; only its first two bytes need to have come. */
static size_t header_size(const struct box_ws_client_reader *reader)
{
	if (reader->header_len < 2) {
		return 2;
	}
	unsigned len = reader->header[1] & 0x7f;
	return len == LENGTH_64 ? 10 : len == LENGTH_16 ? 4 : 2;
}

static const char *check_kind(const struct box_ws_client_reader *reader)
{
	switch (reader->opcode) {
	case BOX_WS_CONTINUATION:
		return reader->in_message ? NULL : "a continuation frame without a message";
	case BOX_WS_BINARY:
		return reader->in_message ? "a new message inside a fragmented one" : NULL;
	case BOX_WS_TEXT:
		return "a text message, but only binary messages are expected";
	case BOX_WS_OP_CLOSE:
	case BOX_WS_OP_PING:
	case BOX_WS_OP_PONG:
		return reader->final ? NULL : "a fragmented control frame";
	default:
		return "an unknown kind of frame";
	}
}

/* Starts the frame of a complete header. NULL, or what is wrong with it. */
static const char *read_header(struct box_ws_client_reader *reader)
{
	const unsigned char *header = reader->header;
	size_t size = header_size(reader);
	if (header[0] & RESERVED) {
		return "reserved bits are set";
	}
	if (header[1] & MASKED) {
		return "a masked frame from a server";
	}
	reader->final = header[0] & FINAL;
	reader->opcode = header[0] & 0x0f;
	reader->left = header[1] & 0x7f;
	if (size > 2) {
		reader->left = 0;
		for (size_t i = 2; i < size; i++) {
			reader->left = reader->left << 8 | header[i];
		}
		if (reader->left < (size == 4 ? (uint64_t)LENGTH_16 : UINT16_MAX + 1ULL)) {
			return "a length is not in its shortest form";
		}
	}
	const char *why = check_kind(reader);
	if (why) {
		return why;
	}
	if (is_control(reader->opcode)) {
		reader->control_len = 0;
		return reader->left > BOX_WS_CONTROL_MAX ? "a control frame is too long" : NULL;
	}
	size_t room = reader->message.limit - reader->message.len;
	if (reader->left > room) {
		return "a message is larger than 16 MiB";
	}
	if (!reader->final && reader->left <= AT_ONCE_BYTES && 3 * reader->left <= room) {
		/* More fragments will come: enough memory that the message need not be moved for them. */
		(void)box_buf_reserve(&reader->message, 3 * (size_t)reader->left);
	}
	reader->in_message = true;
	return NULL;
}

static size_t take_header(struct box_ws_client_reader *reader, const char *bytes, size_t len)
{
	size_t used = 0;
	while (used < len && reader->header_len < header_size(reader)) {
		reader->header[reader->header_len++] = (unsigned char)bytes[used++];
	}
	return used;
}

static size_t take_payload(struct box_ws_client_reader *reader, const char *bytes, size_t len)
{
	size_t piece = len < reader->left ? len : (size_t)reader->left;
	if (is_control(reader->opcode)) {
		memcpy(reader->control + reader->control_len, bytes, piece);
		reader->control_len += piece;
	} else {
		/* The header was checked against the limit. Memory is reserved only once some of the payload has
		 * come, and then all at once. */
		if (reader->left <= AT_ONCE_BYTES) {
			(void)box_buf_reserve(&reader->message, (size_t)reader->left);
		}
		(void)box_buf_append(&reader->message, bytes, piece);
	}
	reader->left -= piece;
	return piece;
}

/* The event of a complete frame. */
static enum box_ws_client_event frame_whole(struct box_ws_client_reader *reader)
{
	reader->in_payload = false;
	reader->header_len = 0;
	switch (reader->opcode) {
	case BOX_WS_OP_CLOSE:
		return BOX_WS_CLOSE;
	case BOX_WS_OP_PING:
		return BOX_WS_PING;
	case BOX_WS_OP_PONG:
		return BOX_WS_PONG;
	default:
		break;
	}
	reader->in_message = !reader->final;
	return reader->final ? BOX_WS_MESSAGE : BOX_WS_MORE;
}

char *box_ws_client_reader_space(struct box_ws_client_reader *reader, size_t *ret_len)
{
	if (!reader->in_payload || is_control(reader->opcode) || reader->left < DIRECT_BYTES) {
		return NULL;
	}
	*ret_len = reader->left < AT_ONCE_BYTES ? (size_t)reader->left : AT_ONCE_BYTES;
	return box_buf_reserve(&reader->message, *ret_len);
}

void box_ws_client_reader_filled(struct box_ws_client_reader *reader, size_t len)
{
	reader->message.len += len;
	reader->left -= len;
}

bool box_ws_client_reader_is_due(const struct box_ws_client_reader *reader)
{
	return reader->in_payload && reader->left == 0;
}

enum box_ws_client_event box_ws_client_reader_feed(struct box_ws_client_reader *reader,
	const char *bytes, size_t len, size_t *ret_used, const char **ret_why)
{
	size_t used = 0;
	for (;;) {
		if (!reader->in_payload) {
			used += take_header(reader, bytes + used, len - used);
			if (reader->header_len < header_size(reader)) {
				break;
			}
			*ret_why = read_header(reader);
			if (*ret_why) {
				*ret_used = used;
				return BOX_WS_BROKEN;
			}
			reader->in_payload = true;
		}
		if (len > used) {
			used += take_payload(reader, bytes + used, len - used);
		}
		if (reader->left > 0) {
			break;
		}
		enum box_ws_client_event event = frame_whole(reader);
		if (event != BOX_WS_MORE) {
			*ret_used = used;
			return event;
		}
	}
	*ret_used = used;
	return BOX_WS_MORE;
}

/* --- the handshake --- */

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

/* Visible ASCII only: nothing that ends a line or that a proxy would trim. */
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

/* The value of a header that occurs exactly once, stripped; else none. */
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

/* NULL, or why this status 101 does not open the connection that we requested. */
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
		return "its Sec-WebSocket-Accept is wrong";
	}
	if (field(head, "Sec-WebSocket-Extensions").bytes || (!hello->protocol && protocol.bytes)) {
		return "it chose an extension or a protocol that was not offered";
	}
	if (hello->protocol && (!protocol.bytes || !box_str_eq(protocol, hello->protocol))) {
		return "it did not choose the protocol that was offered";
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
		*ret_why = "the head of its answer is too long";
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
