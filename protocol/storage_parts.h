/* The parts of a box that are its own, as they were measured: what is said of them together. Both who
 * measures from outside (boxd) and who does so inside (box-init of a microVM) use it. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* One part, and the file system that it is in. */
struct box_storage_part {
	bool is_there;
	uint64_t device;
	uint64_t used_bytes; /* of the whole file system */
	uint64_t size_bytes; /* of what is in it, by a walk */
	uint64_t file_count; /* regular files */
};

/* Nothing is counted twice: a workspace at /tmp is a workspace, a cache in a workspace is a cache.
 * The workspace and /tmp are file systems of their own: what they use is what is in them. */
void box_storage_parts_settle(struct box_storage_part *workspace, struct box_storage_part *cache,
	struct box_storage_part *temp);
