/* A peer: the client at the other end of one connection, as the dispatcher sees it.
 *
 * A transport makes one for each connection and gives it every decoded message; answers go back through the
 * ops that the transport declared. dispatch.c implements it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/value.h"

struct box_arena;
struct box_dispatch;
struct box_peer;
struct box_read_queue;
struct box_request;
struct box_transfers;

struct box_peer_ops {
	/* Queues an answer. 0; -EMSGSIZE when it does not fit a message (nothing is queued); or
	 * -EPIPE when the connection is closing. Never ends the connection before it returns. */
	int (*send)(void *connection, int codec, const struct box_value *answer);
	/* Whether so much waits to be sent that streams should pause until box_peer_drained. */
	bool (*congested)(const void *connection);
	/* Whether the codec has a type for bytes; if not, they are sent as text or base64. */
	bool (*has_bytes)(int codec);
};

/* The client, as its transport has identified it. */
struct box_peer_identity {
	bool parent; /* the process that started this one */
	/* It came over the operator's own socket: it works in every instance, and claims none. */
	bool is_operator;
	/* The instance that it speaks for, copied; NULL: the trusted one. Contexts of other instances are
	 * refused, except from the operator, whose requests without a context are this instance's. */
	const char *instance;
};

/* For a connection that is authenticated, or that is the parent's. */
struct box_peer *box_peer_new(struct box_dispatch *dispatch, const struct box_peer_ops *ops,
	void *connection, const struct box_peer_identity *identity);

/* The connection is closed: requests under way are cancelled, uploads are dropped. */
void box_peer_free(struct box_peer *peer);

/* Takes one message; the arena becomes the dispatcher's. */
void box_peer_receive(
	struct box_peer *peer, struct box_arena *arena, const struct box_value *message, int codec);

/* The connection is not congested any more. */
void box_peer_drained(struct box_peer *peer);

/* --- for handlers --- */

/* Whether the client has started this process: then it is the operator. */
bool box_peer_is_parent(const struct box_peer *peer);

struct box_transfers *box_peer_transfers(struct box_peer *peer);

/* The queue in which its file reads wait for their turn. */
struct box_read_queue *box_peer_read_queue(struct box_peer *peer);

/* Cancels the request with this seq_id on the connection of `asker`, if it was made for the same workspace
 * and generation. That request gets no answer. */
bool box_peer_cancel(struct box_request *asker, int64_t seq_id);
