/* The client's half of WebSocket (RFC 6455): frames that we send are masked, frames that we receive are not.
 *
 * Pure: no socket, no clock, and the caller passes the random bytes. Only binary messages are accepted,
 * because a reply has the codec of its request.
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

/* The same in place: the caller encodes the payload into the buffer between the two calls. */
int box_ws_client_frame_begin(struct box_buf *out, size_t *ret_mark);
void box_ws_client_frame_end(struct box_buf *out, size_t mark, enum box_ws_client_opcode opcode,
	const unsigned char mask[BOX_WS_MASK_BYTES]);
/* For a payload of which `apart` bytes are not in the buffer: longer than 64 KiB, with a mask of zero. */
void box_ws_client_frame_end_around(
	struct box_buf *out, size_t mark, enum box_ws_client_opcode opcode, size_t apart);

struct box_ws_client_reader {
	unsigned char header[10];
	size_t header_len;
	bool in_payload;
	bool final;
	unsigned opcode;
	uint64_t left;   /* of this frame's payload */
	bool in_message; /* a fragment has come, and the last one has not */
	struct box_buf message;
	unsigned char control[BOX_WS_CONTROL_MAX];
	size_t control_len;
};

enum box_ws_client_event {
	BOX_WS_MORE,
	BOX_WS_MESSAGE, /* reader->message is complete: box_ws_client_reader_take */
	BOX_WS_PING,    /* reader->control is what the pong must repeat */
	BOX_WS_PONG,
	BOX_WS_CLOSE, /* reader->control is the code and the reason, if any */
	BOX_WS_BROKEN,
};

void box_ws_client_reader_start(struct box_ws_client_reader *reader);
void box_ws_client_reader_free(struct box_ws_client_reader *reader);

/* Parses up to the next event. *ret_used is how many bytes that took; call again with the rest. After BROKEN,
 * with the reason in *ret_why, the stream cannot go on. */
enum box_ws_client_event box_ws_client_reader_feed(struct box_ws_client_reader *reader,
	const char *bytes, size_t len, size_t *ret_used, const char **ret_why);

/* Where the next payload may be read to without a copy; NULL: nowhere, feed it instead. Then
 * box_ws_client_reader_filled says how much was read, and once box_ws_client_reader_is_due is true, feeding
 * zero bytes gives the event. */
char *box_ws_client_reader_space(struct box_ws_client_reader *reader, size_t *ret_len);
void box_ws_client_reader_filled(struct box_ws_client_reader *reader, size_t len);
bool box_ws_client_reader_is_due(const struct box_ws_client_reader *reader);

/* The complete message; the caller frees it. */
struct box_buf box_ws_client_reader_take(struct box_ws_client_reader *reader);

/* --- the handshake --- */

struct box_ws_client_hello {
	const char *authority;
	const char *path;
	const char *instance;
	const char *token; /* NULL: none is sent */
	/* Of a relay; NULL: it is not one. */
	const char *workspace;
	int64_t generation;
	const char *protocol; /* offered, and the server must choose it; NULL: none */
	char key[BOX_WS_KEY_SIZE];
};

void box_ws_client_key(const unsigned char random[BOX_WS_KEY_BYTES], char out[BOX_WS_KEY_SIZE]);

/* Appends the head of the request. 0, -EINVAL for a token or instance that an HTTP header cannot carry, or
 * -EMSGSIZE. */
int box_ws_client_hello(struct box_buf *out, const struct box_ws_client_hello *hello);

enum box_ws_client_answer {
	BOX_WS_ANSWER_MORE,
	BOX_WS_ANSWER_OPEN,
	BOX_WS_ANSWER_REFUSED, /* *ret_status is the HTTP status */
	BOX_WS_ANSWER_BROKEN,
};

/* Parses the head of the answer, which is *ret_used bytes long once it is complete. `bytes` is all that has
 * come so far; a head longer than BOX_HTTP_HEAD_BYTES_MAX is broken. */
enum box_ws_client_answer box_ws_client_answer(const char *bytes, size_t len,
	const struct box_ws_client_hello *hello, size_t *ret_used, int *ret_status,
	const char **ret_why);
