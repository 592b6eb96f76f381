/* One connection as messages: value trees out, value trees in, by msgpack on either carrier. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/value.h"
#include "client/connection/ws_client.h"
#include "codec/message.h"

struct box_stdio_framer;

struct box_wire {
	int fd;
	bool websocket;
	bool loopback;                   /* to this machine itself */
	struct box_stdio_framer *framer; /* stdio */
	struct box_ws_client_reader ws;
	char *in; /* WebSocket: bytes that were read and not fed yet */
	size_t in_used;
	size_t in_len;
	struct box_buf out;
	size_t out_sent;
	unsigned close_code; /* of a WebSocket that the other end closed, when it told one */
};

#define BOX_WIRE_READ_BYTES (64 * BOX_KIB) /* of `in` */

/* Over the stdin and stdout of a child. The fd becomes the wire's. */
void box_wire_start_stdio(struct box_wire *wire, int fd);

/* Closes; a WebSocket says so first. Fine for a zeroed wire whose fd is -1. */
void box_wire_close(struct box_wire *wire);

/* Queues one message. -EMSGSIZE: it is too large, or too much is queued. -EILSEQ: a text in it is no
 * UTF-8; the other end would not read it, and never answer. */
int box_wire_send(struct box_wire *wire, const struct box_value *message, struct box_err *err);

/* Writes what the socket takes; reads what is there, once. 0 or a negative errno. */
int box_wire_flush(struct box_wire *wire, struct box_err *err);
int box_wire_read(struct box_wire *wire, struct box_err *err);

/* 1: *ret_message is the caller's, box_arena_free its arena. 0: nothing whole is here. Negative:
 * the connection cannot go on. */
int box_wire_next(struct box_wire *wire, struct box_message *ret_message, struct box_err *err);

/* The same for messages that are bytes, over WebSocket: `head` and `rest` become one. What is taken is
 * the caller's: box_buf_free. */
int box_wire_send_bytes(
	struct box_wire *wire, struct box_str head, struct box_str rest, struct box_err *err);
int box_wire_next_bytes(struct box_wire *wire, struct box_buf *ret_bytes, struct box_err *err);

static inline bool box_wire_pending(const struct box_wire *wire)
{
	return wire->out.len > wire->out_sent;
}
