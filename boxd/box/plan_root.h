/* The root of a box, built from the mount steps of its plan. Called by the first process of the box, in
 * the box's own mount namespace. base/root_builder.c implements the steps. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "plan/plan.h"

struct box_plan_root {
	const struct box_plan *plan;
	const char *anchor; /* a folder to attach the new root at */
	bool same_uid;      /* there is only one uid */
	const int *trees;   /* one per TREE step; -1: comes later */
};

/* Makes the new root, attached at the anchor and empty; and a second, detached mount of it, which stays
 * writable when the root is made read-only. The plan's first step describes it. */
int box_plan_root_make(const struct box_plan_root *root, int *ret_root, int *ret_writable);

/* Does all other steps. *ret_place is where the tree that comes later is attached, unchanged if there
 * is none. Negative: *ret_step is the step that failed. */
int box_plan_root_run_steps(
	const struct box_plan_root *root, int root_fd, int *ret_place, size_t *ret_step);
