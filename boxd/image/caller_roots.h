/* What stands before a box whose image is a folder of a caller's: a copy of the folder's /etc.
 *
 * The folder is opened and judged here; its files are read by a process that boxd starts for that, which
 * is ended after BOX_CALLERS_ROOT_MS and dies with boxd. What must wait waits in a bounded queue, in
 * which tenants take turns. Requests for any other image go on at once.
 */
#pragma once

#include "boxd/event_source.h"
#include "boxd/host_state.h"
#include "boxd/making.h"

struct box_caller_roots;

struct box_caller_roots *box_caller_roots_new(
	const struct box_host_state *ground, box_making_done *done, void *arg);
void box_caller_roots_free(struct box_caller_roots *roots);

/* The stage ROOT of a request for a box: `done` gets it back with its root, if it needs one. */
void box_caller_roots_request(struct box_caller_roots *roots, struct box_making *making);
/* Whoever asked is gone: nothing of it is answered. */
void box_caller_roots_drop_requests(struct box_caller_roots *roots);

struct box_event_source box_caller_roots_event_source(struct box_caller_roots *roots);
