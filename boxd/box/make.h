/* A box of which nobody knows yet what it is for: ids, an empty cgroup, namespaces, its root, and
 * box-init waiting for an order. What is missing is its folder of the host, its limits, and as root
 * its network. It is nearly all of making a box, so it is done ahead, in the shape of the last
 * request.
 */
#pragma once

#include "boxd/box/resources.h"
#include "boxd/image/root.h"

struct box_warm_box {
	struct box_resources living;
	struct box_plan_request ask; /* what it has the shape of */
	int orders;                  /* where it waits for one */
};

/* `name` is that of its cgroup, `root` that of its image, or NULL for the usual one. What its first
 * process has to say comes to the report fd, when it is too late for an order or after it.
 * Negative: err, and what there is of it is in `blank`, for box_make_warm_close and the end that boxes
 * have. */
int box_make_warm(struct box_host_state *ground, const char *name, const struct box_plan *plan,
	const struct box_root *root, struct box_warm_box *blank, struct box_err *err);

/* Whether it can become the box that is asked for. */
bool box_make_warm_fits(const struct box_host_state *ground, const struct box_warm_box *blank,
	const struct box_plan_request *ask);

/* Closes what only a blank has; its living part stays. */
void box_make_warm_close(struct box_warm_box *blank);

/* Fills err: which step of making a box failed, with which errno. Returns r. */
int box_make_fail(struct box_err *err, const char *step, int r);
