/* How much is in a workspace, as far as that must be known: a walk that ends at the limit, at so many
 * entries and at a depth, follows no link, and can be taken in pieces by a loop.
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

/* What was found; when the walk ended early, what was found until then. */
struct box_quota_walk_found {
	uint64_t bytes; /* sizes of files and of links; of hard links each */
	uint64_t entries;
	bool too_large;
	bool too_many;
	bool too_deep;
};

/* Begins. -ENOENT when there is no such folder here (a link is none). */
int box_quota_walk_open(const char *folder, const struct box_quota_walk_limits *quota,
	struct box_quota_walk **ret_walk, struct box_err *err);
/* NULL is fine. */
void box_quota_walk_close(struct box_quota_walk *walk);

/* Goes on for so many entries. 1: there is more; 0: *ret_found is filled; or negative, when a part
 * of it cannot be read: what it holds is not known. What vanishes meanwhile does not count. */
int box_quota_walk_step(struct box_quota_walk *walk, size_t entries,
	struct box_quota_walk_found *ret_found, struct box_err *err);

/* NULL when it is within the quota, else what to say of it, in the arena: "workspace quota exceeded
 * before execution: used=...". Pure. */
struct box_arena;
const char *box_quota_walk_verdict(struct box_arena *arena,
	const struct box_quota_walk_limits *quota, const struct box_quota_walk_found *found,
	const char *phase, const char *folder, const char *session_id);
