/* Which mounts hang in the share, and for which command. Numbers are given once and never again: a
 * guest that remembers one finds nothing, or what it had. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"

#define BOX_MOUNT_NUMBERS_NONE UINT32_MAX /* under this number nothing ever hangs */

struct box_mount_numbers {
	uint32_t last; /* number given */
	size_t count;
	struct {
		uint32_t number;
		uint32_t id; /* of the command */
	} list[BOX_VMM_MOUNTS_MAX];
};

/* A number that nothing has, for a mount of the command; BOX_MOUNT_NUMBERS_NONE when all were given, or too
 * many hang. */
uint32_t box_mount_numbers_take(struct box_mount_numbers *mounts, uint32_t id);

/* Takes one out that is the command's; 0 when there is none. */
uint32_t box_mount_numbers_drop(struct box_mount_numbers *mounts, uint32_t id);
/* Takes one out that was given no later than `last` and is not a managed process's; 0 when there is
 * none. */
uint32_t box_mount_numbers_drop_upto(struct box_mount_numbers *mounts, uint32_t last);
