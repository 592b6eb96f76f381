/* What boxd and one box-rpc after the other say to each other: every packet in and out, and what
 * must outlive a box-rpc: its STATE, the boxes.
 *
 * Whatever comes from box-rpc is taken for hostile: a wrong packet is a reason to end it, and
 * nothing that it does or leaves undone blocks.
 */
#pragma once

#include <stdbool.h>

#include "boxd/host_state.h"
#include "boxd/listeners.h"
#include "boxd/rpc/start_data.h"

struct box_serve;

struct box_serve_setup {
	struct box_start_data *carried;
	const struct box_listeners *listeners; /* may hold none */
	struct box_host_state *ground;
	const struct box_identity *ids; /* of box-rpc */
	const char *skills_path;        /* the program box-skills; "": there is none */
};

struct box_serve *box_serve_new(const struct box_serve_setup *setup);
/* Ends all boxes. */
void box_serve_free(struct box_serve *serve);

/* A new box-rpc at this socket, which stays the caller's: sends START. */
int box_serve_begin(struct box_serve *serve, int socket, uint32_t restarts);
/* It is gone, or is not spoken to any more. */
void box_serve_end(struct box_serve *serve);

/* READY has come from any one. */
/* The policy would let boxes mount something of Box's own. */
bool box_serve_config_refused(const struct box_serve *serve);

bool box_serve_was_ready(const struct box_serve *serve);

/* Sends the --config text as it is now; when no box-rpc is ready it is done when the next one is. */
void box_serve_reload(struct box_serve *serve);
int box_serve_stop(struct box_serve *serve);

/* Takes one packet: 0, -EAGAIN, -EPIPE at the end, or -EPROTO with *ret_why: end it. Of a `dead`
 * box-rpc only what it leaves to its successor counts. */
int box_serve_receive(struct box_serve *serve, bool dead, const char **ret_why);
/* Why box-rpc is to be ended, found when it was told something; or NULL. */
const char *box_serve_fault(const struct box_serve *serve);
/* Whether the socket wants POLLOUT, and what to do then: 0, or -EPROTO. */
bool box_serve_wants_write(const struct box_serve *serve);
int box_serve_flush(struct box_serve *serve);

struct box_boxes *box_serve_boxes(struct box_serve *serve);
struct box_measures *box_serve_measures(struct box_serve *serve);
struct box_jobs *box_serve_jobs(struct box_serve *serve);
struct box_quota_queue *box_serve_quota_queue(struct box_serve *serve);
struct box_caller_roots *box_serve_caller_roots(struct box_serve *serve);
