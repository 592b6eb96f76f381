/* The packets between boxd and box-rpc: what boxd sends, what it accepts, and what outlives a box-rpc:
 * its STATE and the boxes.
 *
 * Everything from box-rpc is treated as hostile: a malformed packet is a reason to kill it, and nothing
 * that it does or fails to do blocks boxd. Called by supervise.c.
 */
#pragma once

#include <stdbool.h>

#include "boxd/event_source.h"
#include "boxd/host_state.h"
#include "boxd/listeners.h"
#include "boxd/rpc/start_data.h"

struct box_serve;
struct box_warm_pool;

struct box_serve_setup {
	struct box_start_data *start_data;
	const struct box_listeners *listeners; /* may have no sockets */
	struct box_host_state *host_state;
	const struct box_identity *ids; /* of box-rpc */
	const char *skills_path;        /* path of box-skills; "": not installed */
};

struct box_serve *box_serve_new(const struct box_serve_setup *setup);
/* Ends all boxes. */
void box_serve_free(struct box_serve *serve);

/* A new box-rpc at this socket, which stays the caller's: sends START. */
int box_serve_begin(struct box_serve *serve, int socket, uint32_t restarts);
/* box-rpc is gone, or nothing more is sent to it. */
void box_serve_end(struct box_serve *serve);

/* Whether any box-rpc has sent READY. */
bool box_serve_was_ready(const struct box_serve *serve);
/* Whether the policy would let boxes mount something of Box's own: then boxd must end. */
bool box_serve_config_refused(const struct box_serve *serve);
/* Why box-rpc must be killed, found when something was sent to it; or NULL. */
const char *box_serve_fault(const struct box_serve *serve);

/* Sends the present text of --config and the present token file; if no box-rpc is ready, as soon as the
 * next one is. */
void box_serve_reload(struct box_serve *serve);
int box_serve_stop(struct box_serve *serve);

/* Takes one packet: 0, -EAGAIN, -EPIPE at the end, or -EPROTO with *ret_why: kill box-rpc. Of a `dead`
 * box-rpc only what its successor needs counts. */
int box_serve_receive(struct box_serve *serve, bool dead, const char **ret_why);
/* Whether the socket should be polled for POLLOUT, and what to do then: 0, or -EPROTO. */
bool box_serve_wants_write(const struct box_serve *serve);
int box_serve_flush(struct box_serve *serve);

/* All subsystems that boxd works with for box-rpc. */
void box_serve_add_event_sources(struct box_serve *serve, struct box_event_sources *sources);
/* The pool of warm boxes, for when the loop is idle. */
struct box_warm_pool *box_serve_warm_pool(struct box_serve *serve);
