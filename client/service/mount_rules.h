/* Which folders of the host a box may have, where both sides see the same file system. */
#pragma once

#include "base/err.h"
#include "base/value.h"

struct box_arena;

/* Whether an absolute path is one of the roots (NULL-terminated), or below one. Pure. */
bool box_mount_rules_is_inside(const char *path, const char *const *roots);

/* The path without links, as far as it is there; what is not there yet is kept as it is. */
const char *box_mount_rules_real(struct box_arena *arena, const char *path);

/* Makes the folder and those above it, if it is inside the roots. 0 also when it is there. */
int box_mount_rules_make_folder(
	struct box_arena *arena, const char *path, const char *const *roots, struct box_err *err);

/* Whether host_path and those of extra_mounts are folders inside the roots; in the spec they are the
 * real ones afterwards, so that what was looked at is what is asked for. -EINVAL or -EPERM with
 * BOX_ERR_VALIDATION. */
int box_mount_rules_check_spec(struct box_arena *arena, struct box_value *spec,
	const char *const *roots, struct box_err *err);
