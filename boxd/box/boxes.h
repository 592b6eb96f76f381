/* The table of all boxes of this runtime. Owns a box from the moment its request is complete until
 * nothing of it is left on the host. Called by rpc/serve.c and making.c; does not know packets.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "boxd/cgroup/process_cgroups.h"
#include "boxd/event_source.h"
#include "boxd/host_state.h"

struct box_boxes;
struct box_root;
struct box_warm_pool;

/* The fds of one box, of which box-rpc gets copies; the table owns them. -1 if absent. */
struct box_boxes_fds {
	int control;       /* the socket of its box-init */
	int memory_events; /* of its cgroup */
	int leaf_events;   /* of processes in no process cgroup, once the box has such cgroups */
	uint32_t host_address; /* its address on the host's loopback, or 0 */
};

/* Called from inside box_boxes_make, box_boxes_list or the loop. */
struct box_boxes_events {
	/* Once for each request: a box, or err. Also for each box of box_boxes_list. */
	void (*made)(void *arg, uint32_t request, uint64_t box, const struct box_boxes_fds *fds,
		const struct box_err *err);
	/* Once for each box that was made, when nothing of it is left. */
	void (*gone)(void *arg, uint64_t box);
	/* Before boxd ends a box that has broken a limit; `gone` follows as for other boxes. */
	void (*ending)(void *arg, uint64_t box, enum box_boxd_end_reason why);
};

struct box_boxes *box_boxes_new(
	struct box_host_state *host_state, const struct box_boxes_events *events, void *arg);
/* Ends all boxes and waits for their end. */
void box_boxes_free(struct box_boxes *boxes);

/* Begins a box. Takes `root`, the prepared folder of a caller that is its image, or NULL. */
void box_boxes_make(struct box_boxes *boxes, uint32_t request, const struct box_plan_request *ask,
	struct box_root *root);
/* Unknown numbers are ignored: the box may have ended by itself. */
void box_boxes_end(struct box_boxes *boxes, uint64_t box);
/* box-rpc is gone: boxes that are being made are ended, live boxes stay for the next box-rpc. */
void box_boxes_drop_requests(struct box_boxes *boxes);
/* Calls `made` with request 0 for every live box. */
void box_boxes_list(struct box_boxes *boxes);

/* A detached mount of an opened folder or file, for this box. */
int box_boxes_mount(struct box_boxes *boxes, uint64_t box, int source, bool read_only,
	int *ret_mount, struct box_err *err);
/* Whether a box in any state uses this open folder of the host as its workspace. */
bool box_boxes_uses_folder(struct box_boxes *boxes, int source);
/* The cgroups of single processes in a live box, or NULL with err. */
struct box_process_cgroups *box_boxes_process_cgroups(
	struct box_boxes *boxes, uint64_t box, struct box_err *err);
/* Whether a live box is a microVM, whose own kernel limits its processes. */
bool box_boxes_is_microvm(struct box_boxes *boxes, uint64_t box);
/* The root of a live box as an O_PATH fd, and the path of its workspace in it; *ret_own: the workspace
 * belongs to the box instead of being a folder of the host. The text is valid until the next call. 0,
 * -ESRCH, or -EOPNOTSUPP for a microVM, whose files are not visible from outside. */
int box_boxes_root(struct box_boxes *boxes, uint64_t box, int *ret_root, const char **ret_workspace,
	bool *ret_own);
/* The tenant of a live box, or NULL when there is no such box. Valid until the next call. */
const char *box_boxes_tenant(struct box_boxes *boxes, uint64_t box);

struct box_event_source box_boxes_event_source(struct box_boxes *boxes);
/* The pool of warm boxes; the table owns it. */
struct box_warm_pool *box_boxes_warm_pool(struct box_boxes *boxes);
