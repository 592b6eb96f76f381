/* The root of a box from the mount steps of its plan, for the first process of the box in the box's own mount
 * namespace. What a step does is base/root_builder.c's. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "plan/plan.h"

struct box_plan_root {
	const struct box_plan *plan;
	const char *anchor; /* a folder to attach the new root at */
	bool same_uid;      /* one id is all there is */
	const int *trees;   /* of each TREE step; -1 for one that comes later */
};

/* The new root, attached at the anchor and empty; and a second, detached mount of it, which stays
 * writable when the root is frozen. The plan's first step says what it is. */
int box_plan_root_make(const struct box_plan_root *root, int *ret_root, int *ret_writable);

/* All other steps. *ret_place is where the tree goes that comes later, or what it was before if there
 * is none. Negative: *ret_step is the one that failed. */
int box_plan_root_run_steps(
	const struct box_plan_root *root, int root_fd, int *ret_place, size_t *ret_step);
