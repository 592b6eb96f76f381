/* The client's half of RFC 6455, as bytes: frames out are masked, frames in are not.
 *
 * Pure: no socket, no clock; the caller brings the random bytes. Only binary messages carry
 * anything, because a reply has the codec of its request.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/limits.h"

#define BOX_WS_CONTROL_MAX 125
#define BOX_WS_KEY_BYTES 16
#define BOX_WS_KEY_SIZE 25 /* of its text, NUL included */
#define BOX_WS_MASK_BYTES 4

enum box_ws_client_opcode {
	BOX_WS_CONTINUATION = 0,
	BOX_WS_TEXT = 1,
	BOX_WS_BINARY = 2,
	BOX_WS_OP_CLOSE = 8,
	BOX_WS_OP_PING = 9,
	BOX_WS_OP_PONG = 10,
};

/* Appends one whole frame. 0 or -EMSGSIZE. */
int box_ws_client_frame(struct box_buf *out, enum box_ws_client_opcode opcode, const void *payload,
	size_t len, const unsigned char mask[BOX_WS_MASK_BYTES]);

/* The same in place, for who encodes into the buffer: between the two the payload is appended. The gap
 * belongs to the frame. */
int box_ws_client_frame_begin(struct box_buf *out, size_t *ret_mark);
void box_ws_client_frame_end(struct box_buf *out, size_t mark, enum box_ws_client_opcode opcode,
	const unsigned char mask[BOX_WS_MASK_BYTES]);
/* For a payload of which so many bytes are elsewhere: longer than 64 KiB, and without a mask. */
void box_ws_client_frame_end_around(
	struct box_buf *out, size_t mark, enum box_ws_client_opcode opcode, size_t apart);

struct box_ws_client_reader {
	unsigned char header[10];
	size_t header_len;
	bool in_payload;
	bool final;
	unsigned opcode;
	uint64_t left;   /* of this frame's payload */
	bool in_message; /* a fragment has come, its last one has not */
	struct box_buf message;
	unsigned char control[BOX_WS_CONTROL_MAX];
	size_t control_len;
};

enum box_ws_client_event {
	BOX_WS_MORE,
	BOX_WS_MESSAGE, /* reader->message is whole: take it with box_ws_client_reader_take */
	BOX_WS_PING,    /* reader->control holds what the pong must repeat */
	BOX_WS_PONG,
	BOX_WS_CLOSE, /* reader->control holds the code and the reason, if any */
	BOX_WS_BROKEN,
};

void box_ws_client_reader_start(struct box_ws_client_reader *reader);
void box_ws_client_reader_free(struct box_ws_client_reader *reader);

/* Walks on until something is whole. *ret_used says how many bytes that took; call again with the
 * rest. After BROKEN (*ret_why says why) the stream cannot go on. */
enum box_ws_client_event box_ws_client_reader_feed(struct box_ws_client_reader *reader,
	const char *bytes, size_t len, size_t *ret_used, const char **ret_why);

/* Where the payload that comes next may be read to without a copy; NULL: nowhere, feed it. Then
 * box_ws_client_reader_filled says how much came, and when box_ws_client_reader_is_due the next feed, of nothing,
 * tells of it. */
char *box_ws_client_reader_space(struct box_ws_client_reader *reader, size_t *ret_len);
void box_ws_client_reader_filled(struct box_ws_client_reader *reader, size_t len);
bool box_ws_client_reader_is_due(const struct box_ws_client_reader *reader);

/* The whole message, whose memory becomes the caller's: box_buf_free. */
struct box_buf box_ws_client_reader_take(struct box_ws_client_reader *reader);

/* --- the handshake --- */

struct box_ws_client_hello {
	const char *authority;
	const char *path;
	const char *instance;
	const char *token; /* NULL: none is sent */
	/* Of a relay; NULL: it is none. */
	const char *workspace;
	int64_t generation;
	const char *protocol; /* the one that is offered and must be chosen; NULL: none */
	char key[BOX_WS_KEY_SIZE];
};

void box_ws_client_key(const unsigned char random[BOX_WS_KEY_BYTES], char out[BOX_WS_KEY_SIZE]);

/* Appends the request head. 0, -EINVAL for a token or instance that no header can carry, or
 * -EMSGSIZE. */
int box_ws_client_hello(struct box_buf *out, const struct box_ws_client_hello *hello);

enum box_ws_client_answer {
	BOX_WS_ANSWER_MORE,
	BOX_WS_ANSWER_OPEN,
	BOX_WS_ANSWER_REFUSED, /* *ret_status is what HTTP says */
	BOX_WS_ANSWER_BROKEN,
};

/* Reads the answer's head, which is `*ret_used` bytes long once it is whole. `bytes` is all that
 * has come so far; a head over BOX_HTTP_HEAD_BYTES_MAX is broken. */
enum box_ws_client_answer box_ws_client_answer(const char *bytes, size_t len,
	const struct box_ws_client_hello *hello, size_t *ret_used, int *ret_status,
	const char **ret_why);
