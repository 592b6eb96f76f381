/* Whether the operator's paths conflict with each other; checked once, when they are sealed. Called by
 * mount_roots.c.
 *
 * A mount root inside another is merged into it, and none of Box's own trees may be at, above or below
 * a mount root, by whichever path: through links that boxes could change, through a bind mount, or
 * through a hard link.
 */
#pragma once

#include "base/err.h"
#include "boxd/files/mount_roots.h"

/* Otherwise whoever has the outer root could replace the inner one. */
void box_path_conflicts_merge_roots(struct box_mount_roots_paths *roots);

/* 0, or -EINVAL with BOX_ERR_VALUE and a text that begins with the configuration member. The first
 * checks one of Box's own paths, the second all. */
int box_path_conflicts_check_own(const struct box_mount_roots *roots,
	const struct box_mount_roots_path *own, struct box_err *err);
int box_path_conflicts_check(const struct box_mount_roots *roots, struct box_err *err);
