/* A connected socket as messages: value trees in both directions, in msgpack, over stdio or WebSocket. */
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
	bool loopback;                   /* the other end is on this machine */
	struct box_stdio_framer *framer; /* stdio */
	struct box_ws_client_reader ws;
	char *in; /* WebSocket: bytes that were read and not parsed yet */
	size_t in_used;
	size_t in_len;
	struct box_buf out;
	size_t out_sent;
	unsigned close_code; /* from the other end's close frame; 0: none */
};

#define BOX_WIRE_READ_BYTES (64 * BOX_KIB) /* of `in` */

/* Over the stdin and stdout of a child. Takes the fd. */
void box_wire_start_stdio(struct box_wire *wire, int fd);

/* Closes; a WebSocket sends a close frame first. Fine for a zeroed wire whose fd is -1. */
void box_wire_close(struct box_wire *wire);

/* Queues one message. -EMSGSIZE: it is too large, or too much is queued. -EILSEQ: a text in it is not valid
 * UTF-8; the other end could not read it and would never answer. */
int box_wire_send(struct box_wire *wire, const struct box_value *message, struct box_err *err);

/* Writes as much as the socket accepts; reads once what is available. 0 or a negative errno. */
int box_wire_flush(struct box_wire *wire, struct box_err *err);
int box_wire_read(struct box_wire *wire, struct box_err *err);

/* 1: a message, whose arena the caller frees. 0: none is complete yet. Negative: the connection is lost. */
int box_wire_next(struct box_wire *wire, struct box_message *ret_message, struct box_err *err);

/* The same for messages that are plain bytes, over WebSocket: `head` and `rest` are joined. The caller frees
 * *ret_bytes. */
int box_wire_send_bytes(
	struct box_wire *wire, struct box_str head, struct box_str rest, struct box_err *err);
int box_wire_next_bytes(struct box_wire *wire, struct box_buf *ret_bytes, struct box_err *err);

static inline bool box_wire_pending(const struct box_wire *wire)
{
	return wire->out.len > wire->out_sent;
}
