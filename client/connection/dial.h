/* The way to an endpoint: a connected socket. Nothing here blocks, except box_dial_wait. */
#pragma once

#include "client/connection/endpoint.h"

/* Looks for the operator's socket of a boxd of this user, then of root. True when one accepts us: its
 * endpoint, and a connection to it, or -1 where its queue is full. A socket in XDG_RUNTIME_DIR that
 * another user has made is skipped. */
bool box_dial_find_operator(struct box_endpoint *ret_endpoint, int *ret_fd);

/* Connects to the first address of the endpoint that answers: poll the fd for the events, then step.
 * A step gives 1 and a nonblocking socket, 0 while it is not connected yet, or a negative errno:
 * -ECONNREFUSED when nothing listens. The caller limits the time. */
struct box_dial;
struct box_dial *box_dial_start(const struct box_endpoint *endpoint);
/* The same for a socket that is connected already; the dial takes it over. */
struct box_dial *box_dial_adopt(const struct box_endpoint *endpoint, int fd);
int box_dial_fd(const struct box_dial *dial);
short box_dial_events(const struct box_dial *dial);
int box_dial_step(struct box_dial *dial, int *ret_fd, struct box_err *err);
void box_dial_free(struct box_dial *dial); /* NULL is fine */

/* The same, blocking: 0, or -ETIMEDOUT after timeout_ms in all, or another negative errno. */
int box_dial_wait(
	const struct box_endpoint *endpoint, int timeout_ms, int *ret_fd, struct box_err *err);
