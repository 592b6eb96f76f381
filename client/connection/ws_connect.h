/* The way to a runtime that listens: dialled, and spoken to until its WebSocket is open. */
#pragma once

#include "client/connection/connector.h"
#include "client/connection/wire.h"

/* Who dials, and what for. */
struct box_ws_connect_identity {
	const char *instance;
	const char *token; /* NULL: none */
	/* Of a relay; all NULL for RPC. */
	const char *path;
	const char *workspace;
	int64_t generation;
	const char *protocol;
};

struct box_ws_connect;

/* Without waiting: poll the fd for the events, no longer than the timeout, then step. 1: the
 * wire is open and the caller's; 0: not yet; negative: it will not be. What `who` points to must
 * stay. */
struct box_ws_connect *box_ws_connect_start(
	const struct box_endpoint *endpoint, const struct box_ws_connect_identity *who);
/* The same on a socket that is connected already, and becomes its own. */
struct box_ws_connect *box_ws_connect_adopt(
	const struct box_endpoint *endpoint, const struct box_ws_connect_identity *who, int fd);
int box_ws_connect_fd(const struct box_ws_connect *reach);
short box_ws_connect_events(const struct box_ws_connect *reach);
int box_ws_connect_timeout_ms(const struct box_ws_connect *reach);
int box_ws_connect_step(struct box_ws_connect *reach, struct box_wire *wire, struct box_err *err);
void box_ws_connect_free(struct box_ws_connect *reach); /* NULL is fine */

/* The same, waiting: up to 5 s until it is connected, and 5 s for the answer. */
int box_ws_connect_open(struct box_wire *wire, const struct box_endpoint *endpoint,
	const struct box_ws_connect_identity *who, struct box_err *err);
