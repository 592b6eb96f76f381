/* The way to a runtime that listens: dialled, and spoken to until its WebSocket is open. */
#pragma once

#include "client/wire.h"
#include "transport/connector.h"

/* Who dials, and what for. */
struct box_reach_who {
	const char *instance;
	const char *token; /* NULL: none */
	/* Of a relay; all NULL for RPC. */
	const char *path;
	const char *workspace;
	int64_t generation;
	const char *protocol;
};

struct box_reach;

/* Without waiting: poll the fd for the events, no longer than the timeout, then step. 1: the
 * wire is open and the caller's; 0: not yet; negative: it will not be. What `who` points to must
 * stay. */
struct box_reach *box_reach_start(
	const struct box_endpoint *endpoint, const struct box_reach_who *who);
/* The same on a socket that is connected already, and becomes its own. */
struct box_reach *box_reach_adopt(
	const struct box_endpoint *endpoint, const struct box_reach_who *who, int fd);
int box_reach_fd(const struct box_reach *reach);
short box_reach_events(const struct box_reach *reach);
int box_reach_timeout_ms(const struct box_reach *reach);
int box_reach_step(struct box_reach *reach, struct box_wire *wire, struct box_err *err);
void box_reach_free(struct box_reach *reach); /* NULL is fine */

/* The same, waiting: up to 5 s until it is connected, and 5 s for the answer. */
int box_reach_open(struct box_wire *wire, const struct box_endpoint *endpoint,
	const struct box_reach_who *who, struct box_err *err);
