/* The storage of a box's own parts, from separate measurements. Used by boxd, which measures from
 * outside, and by box-init of a microVM, which measures inside. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* One part, and its file system. */
struct box_storage_part {
	bool is_there;
	uint64_t device;
	uint64_t used_bytes; /* by the whole file system */
	uint64_t size_bytes; /* of the part, by a walk */
	uint64_t file_count; /* regular files */
};

/* Counts nothing twice: a workspace at /tmp is a workspace, a cache in a workspace is a cache. The
 * workspace and /tmp are file systems of their own: they use what is in them. */
void box_storage_parts_settle(struct box_storage_part *workspace, struct box_storage_part *cache,
	struct box_storage_part *temp);
