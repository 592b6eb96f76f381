/* Prepares an image that is a caller's folder: copies the folder's /etc. Called by making.c.
 *
 * The folder is opened and checked here; its files are read by a child process, which is killed after
 * BOX_CALLERS_ROOT_MS and dies with boxd. Further requests wait in a bounded fair queue. Requests for
 * other images continue at once.
 */
#pragma once

#include "boxd/event_source.h"
#include "boxd/host_state.h"
#include "boxd/making.h"

struct box_caller_roots;

struct box_caller_roots *box_caller_roots_new(
	const struct box_host_state *host, box_making_done *done, void *arg);
void box_caller_roots_free(struct box_caller_roots *roots);

/* The stage ROOT of a request for a box: `done` gets the request back, with its root if it needs one. */
void box_caller_roots_request(struct box_caller_roots *roots, struct box_making *making);
/* box-rpc is gone: its requests get no answers. */
void box_caller_roots_drop_requests(struct box_caller_roots *roots);

struct box_event_source box_caller_roots_event_source(struct box_caller_roots *roots);
