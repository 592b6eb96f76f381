/* A list, searched from its end: commands have few mounts, and those of one stand side by side. */
#include "vmm/bridge/mount_numbers.h"

#include "protocol/init_process.h"

uint32_t box_mount_numbers_take(struct box_mount_numbers *mounts, uint32_t id)
{
	if (mounts->count == BOX_VMM_MOUNTS_MAX || mounts->last == BOX_MOUNT_NUMBERS_NONE - 1) {
		return BOX_MOUNT_NUMBERS_NONE;
	}
	uint32_t number = ++mounts->last;
	mounts->list[mounts->count].number = number;
	mounts->list[mounts->count].id = id;
	mounts->count++;
	return number;
}

static uint32_t take_out(struct box_mount_numbers *mounts, size_t index)
{
	uint32_t number = mounts->list[index].number;
	mounts->list[index] = mounts->list[--mounts->count];
	return number;
}

uint32_t box_mount_numbers_drop(struct box_mount_numbers *mounts, uint32_t id)
{
	for (size_t i = mounts->count; i-- > 0;) {
		if (mounts->list[i].id == id) {
			return take_out(mounts, i);
		}
	}
	return 0;
}

uint32_t box_mount_numbers_drop_upto(struct box_mount_numbers *mounts, uint32_t last)
{
	for (size_t i = mounts->count; i-- > 0;) {
		bool kept = mounts->list[i].id & BOX_INIT_MOUNT_OF_PROCESS;
		if (mounts->list[i].number <= last && !kept) {
			return take_out(mounts, i);
		}
	}
	return 0;
}
