/* Turns the bytes of a socket into messages, and back. Over stdio msgpack maps follow each other; over
 * WebSocket each is a binary message, and pings are answered here. */
#include "client/connection/wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/fds.h"
#include "base/macros.h"
#include "base/utf8.h"
#include "codec/msgpack.h"
#include "codec/stdio_framer.h"

#define KEPT_BYTES (1 * BOX_MIB) /* memory of an empty queue that is kept; more is freed */
#define BEHIND_BYTES 64          /* read after a payload: the next header, or short messages */
#define CLOSE_NORMAL "\x03\xe8"  /* 1000 */

static int lost(struct box_err *err, int errnum, const char *why)
{
	return box_err_set(err, BOX_ERR_RUNTIME_UNAVAILABLE, errnum, "%s", why);
}

void box_wire_start_stdio(struct box_wire *wire, int fd)
{
	*wire = (struct box_wire){.fd = fd, .out = box_buf(BOX_OUT_BYTES_MAX)};
	wire->framer = box_stdio_framer_new();
}

/* --- out --- */

/* WebSocket clients mask their frames so that a script in a browser cannot choose the bytes that a proxy sees.
 * On loopback there is no proxy, and masking costs both ends a pass over every byte: there the mask is zero,
 * which changes nothing. */
static void choose_mask(const struct box_wire *wire, unsigned char mask[BOX_WS_MASK_BYTES])
{
	if (wire->loopback) {
		memset(mask, 0, BOX_WS_MASK_BYTES);
	} else {
		/* Up to 256 bytes getrandom returns all, and is not interrupted. */
		if (getrandom(mask, BOX_WS_MASK_BYTES, 0) != BOX_WS_MASK_BYTES) {
			abort();
		}
	}
}

static int send_frame(
	struct box_wire *wire, enum box_ws_client_opcode opcode, const void *bytes, size_t len)
{
	unsigned char mask[BOX_WS_MASK_BYTES];
	choose_mask(wire, mask);
	return box_ws_client_frame(&wire->out, opcode, bytes, len, mask);
}

/* The bytes that a request carries, if they are long; else none. */
static struct box_str find_large(const struct box_value *message)
{
	const struct box_value *data = box_map_get(message, "data");
	for (uint32_t i = 0; data && data->type == BOX_MAP && i < data->count; i++) {
		const struct box_value *value = &data->pairs[i].value;
		if (value->type == BOX_BIN && value->str.len > UINT16_MAX) {
			return value->str;
		}
	}
	return box_str("");
}

/* Queues what is left after `sent` bytes of the queue with `large` inserted at `at`. */
static void queue_rest(struct box_wire *wire, struct box_str large, size_t at, size_t sent)
{
	struct box_buf *out = &wire->out;
	size_t before = BOX_MIN(sent, at);
	size_t of_large = sent - before < large.len ? sent - before : large.len;
	size_t left = large.len - of_large;
	char *end = box_buf_reserve(out, left);
	memmove(out->bytes + at + left, out->bytes + at, (size_t)(end - out->bytes) - at);
	memcpy(out->bytes + at, large.bytes + of_large, left);
	out->len += left;
	wire->out_sent = sent - of_large;
	if (!box_wire_pending(wire)) {
		wire->out_sent = out->len = 0;
	}
}

/* The queue is empty. Long bytes go to the socket from where they are: copying them into the queue first was a
 * tenth of the work of `box cp`. */
static int send_large(struct box_wire *wire, const struct box_value *message, struct box_str large)
{
	struct box_buf *out = &wire->out;
	size_t mark = 0;
	size_t at = 0;
	int r = box_ws_client_frame_begin(out, &mark);
	size_t begin = out->len;
	if (r == 0) {
		r = box_msgpack_encode_around(out, message, large, &at);
	}
	if (r < 0 || out->len - begin + large.len > BOX_MESSAGE_BYTES_MAX) {
		out->len = 0;
		return -EMSGSIZE;
	}
	box_ws_client_frame_end_around(out, mark, BOX_WS_BINARY, large.len);
	const struct iovec parts[] = {
		{out->bytes, at},
		{(void *)(uintptr_t)large.bytes, large.len},
		{out->bytes + at, out->len - at},
	};
	ssize_t sent = box_fds_send(wire->fd, parts, BOX_COUNT_OF(parts), NULL, 0, 0);
	/* An error occurs again when the queue is flushed. */
	queue_rest(wire, large, at, sent > 0 ? (size_t)sent : 0);
	return 0;
}

static bool is_text(struct box_str str)
{
	return str.len == 0 || box_utf8_valid(str.bytes, str.len);
}

/* Whether all texts in it are valid UTF-8. */
static bool is_readable(const struct box_value *value)
{
	bool good = value->type != BOX_STR || is_text(value->str);
	for (uint32_t i = 0; good && value->type == BOX_LIST && i < value->count; i++) {
		good = is_readable(&value->items[i]);
	}
	for (uint32_t i = 0; good && value->type == BOX_MAP && i < value->count; i++) {
		good = is_text(value->pairs[i].key) && is_readable(&value->pairs[i].value);
	}
	return good;
}

static int queue_whole(struct box_wire *wire, const struct box_value *message)
{
	struct box_buf *out = &wire->out;
	size_t before = out->len;
	size_t mark = 0;
	int r = wire->websocket ? box_ws_client_frame_begin(out, &mark) : 0;
	size_t begin = out->len;
	if (r == 0) {
		r = box_msgpack_encode(out, message);
	}
	if (r < 0 || out->len - begin > BOX_MESSAGE_BYTES_MAX) {
		out->len = before;
		return -EMSGSIZE;
	}
	if (wire->websocket) {
		unsigned char mask[BOX_WS_MASK_BYTES];
		choose_mask(wire, mask);
		box_ws_client_frame_end(out, mark, BOX_WS_BINARY, mask);
	}
	return 0;
}

int box_wire_send(struct box_wire *wire, const struct box_value *message, struct box_err *err)
{
	if (!is_readable(message)) {
		return box_err_set(
			err, BOX_ERR_VALUE, EILSEQ, "a text in the request is not valid UTF-8");
	}
	bool direct = wire->loopback && wire->out.len == 0;
	struct box_str large = direct ? find_large(message) : box_str("");
	int r = large.len > 0 ? send_large(wire, message, large) : queue_whole(wire, message);
	return r < 0 ? box_err_set(err, BOX_ERR_VALUE, EMSGSIZE,
			       "the request is larger than 16 MiB, or too much is queued")
		     : 0;
}

int box_wire_send_bytes(
	struct box_wire *wire, struct box_str head, struct box_str rest, struct box_err *err)
{
	struct box_buf message = box_buf(BOX_MESSAGE_BYTES_MAX);
	bool queued = box_buf_append(&message, head.bytes, head.len) == 0 &&
		box_buf_append(&message, rest.bytes, rest.len) == 0 &&
		send_frame(wire, BOX_WS_BINARY, message.bytes, message.len) == 0;
	box_buf_free(&message);
	return queued ? 0 : box_err_set(err, BOX_ERR_VALUE, EMSGSIZE, "too much is queued");
}

/* Without this the queue would grow for ever when the caller always has more to send. */
static void drop_sent(struct box_wire *wire)
{
	if (wire->out_sent > wire->out.len / 2) {
		wire->out.len -= wire->out_sent;
		memmove(wire->out.bytes, wire->out.bytes + wire->out_sent, wire->out.len);
		wire->out_sent = 0;
	}
}

int box_wire_flush(struct box_wire *wire, struct box_err *err)
{
	while (box_wire_pending(wire)) {
		ssize_t sent = send(wire->fd, wire->out.bytes + wire->out_sent,
			wire->out.len - wire->out_sent, MSG_NOSIGNAL);
		if (sent < 0 && errno == EINTR) {
			continue;
		}
		if (sent < 0 && errno == EAGAIN) {
			drop_sent(wire);
			return 0;
		}
		if (sent < 0) {
			return lost(err, errno, "the connection to the runtime was lost");
		}
		wire->out_sent += (size_t)sent;
	}
	wire->out_sent = 0;
	if (wire->out.room > KEPT_BYTES) {
		box_buf_free(&wire->out);
	}
	wire->out.len = 0;
	return 0;
}

/* --- in --- */

/* A long payload is read directly into its message. The few bytes behind it go through the buffer: the next
 * header, so that the payload after it is read directly too. */
static ssize_t read_websocket(struct box_wire *wire)
{
	size_t room = 0;
	/* box_wire_next has used all bytes. */
	wire->in_used = wire->in_len = 0;
	char *direct = box_ws_client_reader_space(&wire->ws, &room);
	struct iovec parts[] = {
		{direct, room},
		{wire->in, direct ? BEHIND_BYTES : BOX_WIRE_READ_BYTES},
	};
	ssize_t got = readv(wire->fd, direct ? parts : parts + 1, direct ? 2 : 1);
	if (got > 0) {
		size_t filled = (size_t)got < room ? (size_t)got : room;
		box_ws_client_reader_filled(&wire->ws, filled);
		wire->in_len = (size_t)got - filled;
	}
	return got;
}

static ssize_t read_stdio(struct box_wire *wire)
{
	size_t room;
	char *space = box_stdio_framer_space(wire->framer, &room);
	ssize_t got = recv(wire->fd, space, room, 0);
	if (got > 0) {
		box_stdio_framer_filled(wire->framer, (size_t)got);
	}
	return got;
}

int box_wire_read(struct box_wire *wire, struct box_err *err)
{
	if (!wire->framer && wire->in_used < wire->in_len) {
		return 0; /* bytes that came with the answer of the handshake come first */
	}
	ssize_t got = wire->framer ? read_stdio(wire) : read_websocket(wire);
	if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
		return 0;
	}
	if (got <= 0) {
		return lost(err, got < 0 ? errno : ECONNRESET, "the runtime closed the connection");
	}
	return 0;
}

static int next_stdio(struct box_wire *wire, struct box_message *ret_message, struct box_err *err)
{
	for (;;) {
		const char *why;
		switch (box_stdio_framer_next(wire->framer, ret_message, &why)) {
		case BOX_STDIO_FRAMER_MORE:
			return 0;
		case BOX_STDIO_FRAMER_MESSAGE:
			return 1;
		case BOX_STDIO_FRAMER_IGNORED:
			break;
		case BOX_STDIO_FRAMER_BROKEN:
			return lost(err, EPROTO, why);
		}
	}
}

/* The bytes become part of an arena and are decoded there. */
static int decode(struct box_buf *bytes, struct box_message *ret_message, struct box_err *err)
{
	const char *why;
	struct box_message message = {.arena = box_arena_new(), .codec = BOX_CODEC_MSGPACK};
	message.wire_bytes = bytes->len;
	if (bytes->bytes) {
		box_arena_adopt(message.arena, bytes->bytes - BOX_BUF_HEADROOM);
	}
	int r = box_msgpack_decode(message.arena, bytes->bytes, bytes->len, &message.value, &why);
	if (r < 0) {
		box_arena_free(message.arena);
		return lost(err, EPROTO, why);
	}
	*ret_message = message;
	return 1;
}

/* The reason is not trusted; its length is limited by the frame. */
static int closed_by_peer(struct box_wire *wire, struct box_err *err)
{
	const struct box_ws_client_reader *reader = &wire->ws;
	if (reader->control_len < 2) {
		return lost(err, ECONNRESET, "the runtime closed the connection");
	}
	unsigned code = (unsigned)reader->control[0] << 8 | reader->control[1];
	wire->close_code = code;
	const char *reason = (const char *)reader->control + 2;
	size_t len = reader->control_len - 2;
	bool readable = box_utf8_valid(reason, len) && !memchr(reason, '\0', len);
	return box_err_set(err, BOX_ERR_RUNTIME_UNAVAILABLE, ECONNRESET,
		"the runtime closed the connection: %u%s%.*s", code, readable && len ? " " : "",
		readable ? (int)len : 0, reason);
}

int box_wire_next_bytes(struct box_wire *wire, struct box_buf *ret_bytes, struct box_err *err)
{
	while (wire->in_used < wire->in_len || box_ws_client_reader_is_due(&wire->ws)) {
		size_t used;
		const char *why;
		enum box_ws_client_event event = box_ws_client_reader_feed(&wire->ws,
			wire->in + wire->in_used, wire->in_len - wire->in_used, &used, &why);
		wire->in_used += used;
		switch (event) {
		case BOX_WS_MORE:
		case BOX_WS_PONG:
			break;
		case BOX_WS_PING:
			/* If the queue is full, the next request fails. */
			(void)send_frame(
				wire, BOX_WS_OP_PONG, wire->ws.control, wire->ws.control_len);
			break;
		case BOX_WS_MESSAGE:
			*ret_bytes = box_ws_client_reader_take(&wire->ws);
			return 1;
		case BOX_WS_CLOSE:
			return closed_by_peer(wire, err);
		case BOX_WS_BROKEN:
			return lost(err, EPROTO, why);
		}
	}
	return 0;
}

static int next_websocket(
	struct box_wire *wire, struct box_message *ret_message, struct box_err *err)
{
	struct box_buf bytes = {0};
	int r = box_wire_next_bytes(wire, &bytes, err);
	return r == 1 ? decode(&bytes, ret_message, err) : r;
}

int box_wire_next(struct box_wire *wire, struct box_message *ret_message, struct box_err *err)
{
	return wire->framer ? next_stdio(wire, ret_message, err)
			    : next_websocket(wire, ret_message, err);
}

void box_wire_close(struct box_wire *wire)
{
	if (wire->fd < 0) {
		return;
	}
	if (wire->websocket && send_frame(wire, BOX_WS_OP_CLOSE, CLOSE_NORMAL, 2) == 0) {
		(void)box_wire_flush(wire, NULL);
	}
	(void)close(wire->fd);
	box_stdio_framer_free(wire->framer);
	box_ws_client_reader_free(&wire->ws);
	free(wire->in);
	box_buf_free(&wire->out);
	*wire = (struct box_wire){.fd = -1};
}
