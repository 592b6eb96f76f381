/* How much there is in a tree that someone else may change while it is looked at.
 *
 * Goes from folder to folder by fds, follows no link, enters no other mount, opens nothing that is
 * not a folder, and sees a bounded number of entries.
 */
#pragma once

#include <stddef.h>

#include "protocol/boxd.h"

enum box_tree_size_unit {
	BOX_TREE_SIZE_LENGTHS, /* the lengths of everything that is no folder, and its number */
	BOX_TREE_SIZE_BLOCKS,  /* disk blocks, and the number of plain files */
};

/* Sums up what the O_PATH fd stands for into parts[0], and what is in or under names[i] at its top
 * also into parts[i + 1]. What vanishes meanwhile is passed over; what cannot be looked at is
 * counted in error_count. The parts must be zero. */
void box_tree_size_add(int fd, enum box_tree_size_unit unit, const char *const *names,
	size_t name_count, struct box_boxd_part *parts);
