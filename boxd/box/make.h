/* Makes boxes, in two halves.
 *
 * The first half makes a warm box, everything that does not depend on a single request: ids, an empty
 * cgroup, namespaces, the root, and box-init waiting for an order. That is nearly all of the work, so
 * warm_pool.c does it in advance. The second half adds what the request decides: limits, the workspace
 * folder and, as root, the network; then the order lets box-init continue.
 *
 * Called by boxes.c and warm_pool.c. Everything that was made is in struct box_resources at once, so
 * that the caller can free it at any point.
 */
#pragma once

#include "boxd/box/resources.h"
#include "boxd/image/root.h"

struct box_warm_box {
	struct box_resources resources;
	struct box_plan_request ask; /* the request that it fits */
	int orders;                  /* the socket on which box-init waits for its order */
};

/* --- the first half --- */

/* `name` is the cgroup's, `root` the root of the image, or NULL for the default root. The first process
 * writes to the report fd when it is ready, or when it fails, before or after the order. Negative: err,
 * and `warm` holds what was made so far, for box_make_warm_close and boxes.c. */
int box_make_warm(struct box_host_state *host_state, const char *name, const struct box_plan *plan,
	const struct box_root *root, struct box_warm_box *warm, struct box_err *err);

/* Whether a warm box fits the request. */
bool box_make_warm_fits(const struct box_host_state *host_state, const struct box_warm_box *warm,
	const struct box_plan_request *ask);

/* Closes what only a warm box has; its resources stay open. */
void box_make_warm_close(struct box_warm_box *warm);

/* --- the second half --- */

/* Opens the workspace folder of the host; *ret_source is not written when the request has none. Called
 * before a warm box is taken, so that a wrong path does not cost one. */
int box_make_open_folder(const struct box_host_state *host_state,
	const struct box_plan_request *ask, int *ret_source, struct box_err *err);
/* Checks that the quota is enforced, on the very folder that the box will get. */
int box_make_check_quota(const struct box_host_state *host_state,
	const struct box_plan_request *ask, int source, struct box_err *err);

/* Turns a warm box into the box of a plan that it fits; `source` is the workspace folder of the host,
 * or -1. The result comes over the report fd. Negative: err, and the warm box must be discarded. */
int box_make_from_warm(struct box_host_state *host_state, const struct box_plan *plan, int source,
	struct box_warm_box *warm, struct box_err *err);

/* --- later --- */

/* A mount of an opened source for a command in the box. */
int box_make_mount(struct box_host_state *host_state, const struct box_resources *resources,
	int source, bool read_only, int *ret_mount, struct box_err *err);
