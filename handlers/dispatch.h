/* From messages to handlers and back: peers, their requests, and what ends them.
 *
 * A transport makes a peer per connection and gives it every decoded message; answers come back
 * through the ops it declared. The dispatcher knows no transport and no codec.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/value.h"

struct box_arena;
struct box_dispatch;
struct box_transfers;
struct box_peer;
struct box_runtime;

struct box_peer_ops {
	/* Queues an answer. 0; -EMSGSIZE when it does not fit a message (nothing is queued); or
	 * -EPIPE when the connection is going. Never ends the connection before it returns. */
	int (*send)(void *connection, int codec, const struct box_value *answer);
	/* Whether so much waits to be sent that streams should pause until box_peer_drained. */
	bool (*clogged)(const void *connection);
	/* Whether a codec has bytes; else they must be text or base64. */
	bool (*has_bytes)(int codec);
};

struct box_dispatch *box_dispatch_new(struct box_runtime *runtime);
void box_dispatch_free(struct box_dispatch *dispatch);

/* Who is at the other end, as its transport has found out. */
struct box_peer_identity {
	bool parent; /* the process that has started us */
	/* It came over the operator's own socket: it works in every instance, and claims none. */
	bool is_operator;
	/* The instance that it speaks for, copied; NULL: the trusted one. Contexts of others are
	 * refused, but for the operator, whose requests without a context are this instance's. */
	const char *instance;
};

/* For a connection that has proved, at its door or by being our parent, who it is. */
struct box_peer *box_peer_new(struct box_dispatch *dispatch, const struct box_peer_ops *ops,
	void *connection, const struct box_peer_identity *speaker);

/* The connection is closed: its requests under way are cancelled, its files go. */
void box_peer_free(struct box_peer *peer);

/* Takes one message; the arena becomes the dispatcher's. */
void box_peer_receive(
	struct box_peer *peer, struct box_arena *arena, const struct box_value *message, int codec);

/* The connection is not clogged any more. */
void box_peer_drained(struct box_peer *peer);

/* Requests of all peers that are not answered yet. */
size_t box_dispatch_request_count(const struct box_dispatch *dispatch);

/* Ends every request under way with BoxRuntimeUnavailableError. */
void box_dispatch_cancel_all(struct box_dispatch *dispatch);

/* Whether the other end has started us: then it is the operator. */
bool box_peer_is_parent(const struct box_peer *peer);

/* The peer's file transfers, for handlers. */
struct box_transfers *box_peer_transfers(struct box_peer *peer);

/* The turns of its reads of files in boxes, for handlers. */
struct box_read_queue;
struct box_read_queue *box_peer_read_queue(struct box_peer *peer);

struct box_request;
/* Cancels the request of this seq_id on the asker's connection, if it was made for the same
 * workspace and generation. The request gets no answer. */
bool box_peer_cancel(struct box_request *asker, int64_t seq_id);
