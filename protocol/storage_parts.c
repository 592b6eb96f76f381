/* Decides where the storage of three measured places is counted. Pure. */
#include "protocol/storage_parts.h"

static bool same_filesystem(const struct box_storage_part *a, const struct box_storage_part *b)
{
	return a->is_there && b->is_there && a->device == b->device;
}

static uint64_t without(uint64_t whole, uint64_t part)
{
	return whole > part ? whole - part : 0;
}

void box_storage_parts_settle(struct box_storage_part *workspace, struct box_storage_part *cache,
	struct box_storage_part *temp)
{
	temp->size_bytes = temp->used_bytes;
	workspace->size_bytes = workspace->used_bytes;
	/* links and moves may have distorted the sum of the walk */
	if (cache->size_bytes > cache->used_bytes) {
		cache->size_bytes = cache->used_bytes;
	}
	if (same_filesystem(workspace, temp)) {
		*temp = (struct box_storage_part){0};
	}
	if (same_filesystem(workspace, cache)) {
		workspace->size_bytes = without(workspace->used_bytes, cache->size_bytes);
		workspace->file_count = without(workspace->file_count, cache->file_count);
	}
}
