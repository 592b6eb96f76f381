/* Puts the root of a box together, in the box's own mount namespace: the mount steps of its
 * plan. */
#pragma once

#include "runtime/keeper/child.h"

/* The new root, attached at the anchor and empty; and a second, detached mount of it, which stays
 * writable when the root is frozen. The plan's first step says what it is. */
int box_assemble_root(const struct box_birth *birth, int *ret_root, int *ret_writable);

/* All other steps. *ret_step is the one that failed. */
int box_assemble(const struct box_birth *birth, int root, size_t *ret_step);
