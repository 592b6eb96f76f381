/* Which host folders a box may mount, if both sides see the same file system. For service_spec.c. */
#pragma once

#include "base/err.h"
#include "base/value.h"

struct box_arena;

/* Whether an absolute path is one of the roots (NULL-terminated), or below one. Pure. */
bool box_mount_rules_is_inside(const char *path, const char *const *roots);

/* The path with its links resolved; components that do not exist stay as they are. */
const char *box_mount_rules_real(struct box_arena *arena, const char *path);

/* Creates the folder and its parents, if it is inside the roots. 0 if it exists already. */
int box_mount_rules_make_folder(
	struct box_arena *arena, const char *path, const char *const *roots, struct box_err *err);

/* Whether host_path and those of extra_mounts are folders inside the roots. Their real paths replace them in
 * the spec, so that the folders that were checked are those that are requested. -EINVAL or -EPERM with
 * BOX_ERR_VALIDATION. */
int box_mount_rules_check_spec(struct box_arena *arena, struct box_value *spec,
	const char *const *roots, struct box_err *err);
