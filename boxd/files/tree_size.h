/* The size of a tree that others may change meanwhile. Called by measures_child.c, and in microVMs by
 * box-init.
 *
 * Goes from folder to folder by fds, follows no link, enters no other mount, opens nothing but folders,
 * and reads a limited number of entries.
 */
#pragma once

#include <stddef.h>

#include "protocol/boxd.h"

enum box_tree_size_unit {
	BOX_TREE_SIZE_LENGTHS, /* length and number of everything but folders */
	BOX_TREE_SIZE_BLOCKS,  /* disk blocks, and the number of regular files */
};

/* Adds up the tree below the O_PATH fd into parts[0], and what is at or below names[i] at its top also
 * into parts[i + 1]. What vanishes meanwhile is ignored; what cannot be examined is counted in
 * error_count. The parts must be zero. */
void box_tree_size_add(int fd, enum box_tree_size_unit unit, const char *const *names,
	size_t name_count, struct box_boxd_part *parts);
