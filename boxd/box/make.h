/* How a box is made, in two halves.
 *
 * A warm box is everything that does not depend on a single request: ids, an empty cgroup, namespaces,
 * its root, and box-init waiting for an order. That is nearly all of the work, so warm_pool.c has it
 * done before anybody asks. The second half adds what a request decides: limits, the folder of the
 * host and, as root, the network; then the order lets box-init go on.
 *
 * Called by boxes.c and warm_pool.c. Whatever was made is in struct box_resources at once, so that the
 * caller can give it back at any point.
 */
#pragma once

#include "boxd/box/resources.h"
#include "boxd/image/root.h"

struct box_warm_box {
	struct box_resources resources;
	struct box_plan_request ask; /* what it has the shape of */
	int orders;                  /* the socket that box-init waits at for its order */
};

/* --- the first half --- */

/* `name` is that of its cgroup, `root` that of its image, or NULL for the default root. The first
 * process writes to the report fd when it fails, before or after the order, and when it is ready.
 * Negative: err, and `warm` holds what there is of it, for box_make_warm_close and boxes.c. */
int box_make_warm(struct box_host_state *host_state, const char *name, const struct box_plan *plan,
	const struct box_root *root, struct box_warm_box *warm, struct box_err *err);

/* Whether a warm box can become the box that is asked for. */
bool box_make_warm_fits(const struct box_host_state *host_state, const struct box_warm_box *warm,
	const struct box_plan_request *ask);

/* Closes what only a warm box has; its resources stay. */
void box_make_warm_close(struct box_warm_box *warm);

/* --- the second half --- */

/* Opens the folder of the host that is asked for; *ret_source is not written when none is. To be called
 * before a warm box is taken, so that a wrong path costs none. */
int box_make_open_folder(const struct box_host_state *host_state,
	const struct box_plan_request *ask, int *ret_source, struct box_err *err);
/* That the quota is enforced, checked on the very folder that the box will get. */
int box_make_check_quota(const struct box_host_state *host_state,
	const struct box_plan_request *ask, int source, struct box_err *err);

/* Turns a warm box into the box of a plan that it fits; `source` is the folder of the host, or -1. The
 * report fd says how it went. Negative: err, and the warm box must be discarded. */
int box_make_from_warm(struct box_host_state *host_state, const struct box_plan *plan, int source,
	struct box_warm_box *warm, struct box_err *err);

/* --- later --- */

/* A mount of an opened source for a command in the box. */
int box_make_mount(struct box_host_state *host_state, const struct box_resources *resources,
	int source, bool read_only, int *ret_mount, struct box_err *err);
