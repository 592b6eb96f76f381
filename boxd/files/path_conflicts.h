/* Whether the operator's paths may stand beside each other: judged once, when they are sealed.
 *
 * A mount root in another is folded into it, and none of Box's own trees may be at, above or below
 * one, whichever way a path leads there: through links that boxes could change, through a bind mount,
 * or through a second name of a file.
 */
#pragma once

#include "base/err.h"
#include "boxd/files/mount_roots.h"

/* Else who has the outer one could put something else in the place of the inner one. */
void box_path_conflicts_fold_roots(struct box_mount_roots_paths *roots);

/* 0, or -EINVAL with BOX_ERR_VALUE, which begins with the member of the configuration: of one thing of
 * Box's own, and of all. */
int box_path_conflicts_check_own(const struct box_mount_roots *roots,
	const struct box_mount_roots_path *own, struct box_err *err);
int box_path_conflicts_check(const struct box_mount_roots *roots, struct box_err *err);
