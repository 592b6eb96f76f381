/* The part that all connections share: a peer, a queue of answers, and back pressure.
 *
 * stdio.c and ws_rpc.c embed it and move the bytes. An answer is encoded when it is queued. While more
 * than BOX_OUT_PAUSE_BYTES wait, the connection is not read: a client that does not read its answers
 * cannot ask for more. A client that still lets BOX_OUT_BYTES_MAX pile up is disconnected.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/list.h"
#include "codec/message.h"
#include "runtime/metrics.h"

struct box_conn;
struct box_dispatch;
struct box_runtime;
struct box_peer_identity;

struct box_conn_ops {
	/* The queue is not empty: write when the socket is ready. */
	void (*want_write)(struct box_conn *conn);
	/* Pause or resume reading. */
	void (*pause_reading)(struct box_conn *conn, bool paused);
	/* Close soon, but not before this returns. */
	void (*give_up)(struct box_conn *conn);
};

struct box_conn_answer {
	struct box_list links;
	struct box_buf bytes;
	size_t sent;
	enum box_codec codec;
};

struct box_conn {
	const struct box_conn_ops *ops;
	struct box_runtime *runtime;
	struct box_peer *peer;
	enum box_metrics_transport transport;
	bool json_lines; /* JSON goes out as stdio lines */
	bool paused;
	bool drained;   /* streams are to be notified */
	bool notifying; /* they are being notified now */
	bool closing;   /* answers are dropped from now on */
	struct box_list out;
	size_t out_bytes;
};

void box_conn_open(struct box_conn *conn, const struct box_conn_ops *ops,
	struct box_dispatch *dispatch, struct box_runtime *runtime,
	const struct box_peer_identity *speaker, enum box_metrics_transport transport);
/* Cancels the peer's requests and drops the queue. */
void box_conn_close(struct box_conn *conn);

/* Gives a decoded message to the dispatcher, which takes its arena. */
void box_conn_receive(struct box_conn *conn, const struct box_message *message);

/* Counts and logs a message that could not be decoded. */
void box_conn_log_ignored(struct box_conn *conn, const char *why);

/* The first answer of the queue, or NULL. */
struct box_conn_answer *box_conn_first_answer(struct box_conn *conn);
/* `len` more bytes of the first answer were written. Drops the answer when all of it is, and resumes
 * reading when the queue has become short. */
void box_conn_sent(struct box_conn *conn, size_t len);
