/* Measures a workspace as far as the quota requires: the walk ends at the size limit, an entry limit and a
 * depth limit, follows no link, and can be done in pieces by a loop. For service.c.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct box_quota_walk;

struct box_quota_walk_limits {
	uint64_t bytes_max;
	uint64_t entries_max;
};

/* The result so far; complete only if the walk did not end at a limit. */
struct box_quota_walk_found {
	uint64_t bytes; /* sizes of files and links; each hard link counts */
	uint64_t entries;
	bool too_large;
	bool too_many;
	bool too_deep;
};

/* Starts a walk. -ENOENT if there is no such folder here (a link does not count). */
int box_quota_walk_open(const char *folder, const struct box_quota_walk_limits *quota,
	struct box_quota_walk **ret_walk, struct box_err *err);
/* NULL is fine. */
void box_quota_walk_close(struct box_quota_walk *walk);

/* Visits up to this many entries. 1: there are more; 0: *ret_found is complete; negative: a part cannot be
 * read, so its size is unknown. Entries that vanish meanwhile do not count. */
int box_quota_walk_step(struct box_quota_walk *walk, size_t entries,
	struct box_quota_walk_found *ret_found, struct box_err *err);

/* NULL if it is within the quota, otherwise the error text, in the arena: "workspace quota exceeded before
 * execution: used=...". Pure. */
struct box_arena;
const char *box_quota_walk_verdict(struct box_arena *arena,
	const struct box_quota_walk_limits *quota, const struct box_quota_walk_found *found,
	const char *phase, const char *folder, const char *session_id);
