/* Frames of RFC 6455. The other end is a server that may be anyone: lengths, reserved bits,
 * masks and the order of fragments are checked before a byte is kept, and a message is bounded
 * as a whole. */
#include "client/connection/ws_client.h"

#include <errno.h>
#include <string.h>

#include "base/arena.h"

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

/* Eight bytes at a time, which compilers make more of: a byte at a time was half of a copy's work. */
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
	/* Only a short payload has a shorter header, and moves. */
	mask_bytes(place + header_len, place + HEADER_MAX, len, mask);
	memcpy(place, header, header_len);
	out->len = mark + header_len + len;
}

void box_ws_client_frame_end_around(
	struct box_buf *out, size_t mark, enum box_ws_client_opcode opcode, size_t apart)
{
	static const unsigned char none[BOX_WS_MASK_BYTES];
	/* With such a length the header fills its gap. */
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

/* How long the header is; only its first two bytes need to be there. */
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
		return reader->in_message ? NULL : "a fragment of no message";
	case BOX_WS_BINARY:
		return reader->in_message ? "a message inside a message" : NULL;
	case BOX_WS_TEXT:
		return "a text message, where only binary ones were asked for";
	case BOX_WS_OP_CLOSE:
	case BOX_WS_OP_PING:
	case BOX_WS_OP_PONG:
		return reader->final ? NULL : "a control frame in fragments";
	default:
		return "an unknown kind of frame";
	}
}

/* A whole header becomes the state of a frame. NULL, or what is wrong with it. */
static const char *read_header(struct box_ws_client_reader *reader)
{
	const unsigned char *header = reader->header;
	size_t size = header_size(reader);
	if (header[0] & RESERVED) {
		return "reserved bits are set";
	}
	if (header[1] & MASKED) {
		return "a server's frame is masked";
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
			return "a length is written longer than it needs";
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
		return "a message is over 16 MiB";
	}
	if (!reader->final && reader->left <= AT_ONCE_BYTES && 3 * reader->left <= room) {
		/* More of its kind follow: it does not move when they come. */
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
		/* The header was checked against the limit. What is declared takes no memory before some
		 * of it is there, and then not by doubling. */
		if (reader->left <= AT_ONCE_BYTES) {
			(void)box_buf_reserve(&reader->message, (size_t)reader->left);
		}
		(void)box_buf_append(&reader->message, bytes, piece);
	}
	reader->left -= piece;
	return piece;
}

/* What a frame whose last byte has come means. */
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
