/* All boxes of this runtime, from the request to the last trace. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "boxd/cgroup/process_cgroups.h"
#include "boxd/host_state.h"

struct box_boxes;
struct box_root;

/* Of one box; fds stay the table's. -1 where there is none. */
struct box_boxes_fds {
	int control;
	int memory;            /* its memory events */
	int rest;              /* those since it has groups below it, of what is in none of them */
	uint32_t host_address; /* on the host's loopback, or 0 */
};

/* What is told, from box_boxes_make or box_boxes_step. */
struct box_boxes_events {
	/* Once for each request: a box, or err. */
	void (*made)(void *arg, uint32_t request, uint64_t box, const struct box_boxes_fds *fds,
		const struct box_err *err);
	/* Once for each box that was made. */
	void (*gone)(void *arg, uint64_t box);
	/* Before it ends for what it has done; then it is gone as others are. */
	void (*ends)(void *arg, uint64_t box, enum box_boxd_end_reason why);
};

struct box_boxes *box_boxes_new(
	struct box_host_state *ground, const struct box_boxes_events *events, void *arg);
/* Ends all of them and waits for their end. */
void box_boxes_free(struct box_boxes *boxes);

/* Takes `root`, the prepared folder of a caller that is its image; NULL: it is none. */
void box_boxes_make(struct box_boxes *boxes, uint32_t request, const struct box_plan_request *ask,
	struct box_root *root);
/* Unknown numbers are ignored: the box may have ended by itself. */
void box_boxes_end(struct box_boxes *boxes, uint64_t box);
/* Whoever asked is gone: boxes that are being made end, the others stay. */
void box_boxes_drop_requests(struct box_boxes *boxes);
/* A detached mount for it, of an opened folder or file. */
int box_boxes_mount(struct box_boxes *boxes, uint64_t box, int source, bool read_only,
	int *ret_mount, struct box_err *err);
/* Whether one that is there or comes to be has this opened folder of the host. */
bool box_boxes_uses_folder(struct box_boxes *boxes, int source);
/* The groups of single processes in a living box, or NULL: err. */
struct box_process_cgroups *box_boxes_process_cgroups(
	struct box_boxes *boxes, uint64_t box, struct box_err *err);
/* Whether a living box is a microVM, which limits its processes itself. */
bool box_boxes_is_microvm(struct box_boxes *boxes, uint64_t box);
/* The root of a living box as an O_PATH fd, and where its workspace is; *ret_own: it is the box's
 * own and no folder of the host. The text is good until the next call. 0, -ESRCH, or -EOPNOTSUPP for a
 * microVM, of which nothing can be seen from here. */
int box_boxes_root(struct box_boxes *boxes, uint64_t box, int *ret_root, const char **ret_workspace,
	bool *ret_own);
/* Whose a living box is; NULL: there is no such box. Good until the next call. */
const char *box_boxes_tenant(struct box_boxes *boxes, uint64_t box);
/* Calls `made` with request 0 for every box there is. */
void box_boxes_list(struct box_boxes *boxes);

/* For the loop: an fd that wants POLLIN, how long it may wait, and what to do then. */
int box_boxes_fd(const struct box_boxes *boxes);
int box_boxes_timeout_ms(const struct box_boxes *boxes);
void box_boxes_step(struct box_boxes *boxes);
/* What is made of boxes when nothing else is to be done. */
struct box_warm_pool *box_boxes_warm_pool(struct box_boxes *boxes);
