/* A connection to a runtime: which runtime it is, who we are to it, the way to an open wire, and the boxd
 * that was started for it. client.c sends requests on it, relay.c the bytes of a managed process; here
 * nothing is known of either. */
#pragma once

#include <stdint.h>

#include "client/connection/boxd_child.h"
#include "client/connection/endpoint.h"
#include "client/connection/wire.h"

struct box_client_options;

struct box_connection {
	struct box_wire wire;
	struct box_connection_opening *opening; /* until the wire is open; else NULL */
	struct box_boxd_child child;
	bool private; /* the runtime is our child */
	char *instance;
	char *token;    /* NULL: none */
	char *endpoint; /* that is dialled; NULL: a child */
	char *workspace;
	int64_t generation;
	void (*log_line)(void *arg, const char *line);
	void *log_arg;
};

/* Which transport and address the options mean. */
struct box_endpoint_choice box_connection_choose(
	const struct box_client_options *options, enum box_endpoint_shares shares);

/* Starts a child, or begins to dial; does not block. The connection needs box_connection_close after an
 * error too. */
int box_connection_start(const struct box_client_options *options,
	struct box_connection *connection, struct box_err *err);
/* Ends the wire and a dial under way; the child is left. */
void box_connection_hang_up(struct box_connection *connection);
/* Ends everything, and waits for the child. */
void box_connection_close(struct box_connection *connection);

/* While it is opening: poll the fd for the events, no longer than the timeout, then step. 1: the wire is
 * open; 0: not yet; negative: it will not be. The fd and the events are also those of the open wire. */
bool box_connection_is_open(const struct box_connection *connection);
int box_connection_fd(const struct box_connection *connection);
short box_connection_events(const struct box_connection *connection);
int box_connection_timeout_ms(const struct box_connection *connection); /* -1: no limit */
int box_connection_step(struct box_connection *connection, struct box_err *err);

/* --- relays --- */

/* Who we are and where the runtime is, without dialling. -ENOTSUP where a child would be started. */
int box_connection_address(const struct box_client_options *options,
	struct box_connection *connection, struct box_endpoint *ret_endpoint, struct box_err *err);

/* Opens the WebSocket of a relay, blocking: up to 5 s until it is connected, and 5 s for the answer.
 * `protocol` is the WebSocket protocol that the runtime must choose. */
int box_connection_open_relay(struct box_connection *connection,
	const struct box_endpoint *endpoint, const char *path, const char *protocol,
	struct box_err *err);
