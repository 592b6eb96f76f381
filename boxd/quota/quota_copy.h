/* What is in a folder goes into its image: copied first, and removed only when the copy is on disk
 * and mounted over it. Both walks can be broken off at any moment and begun again. */
#pragma once

#include <stdbool.h>

#include "base/err.h"

/* Copies what `from` has and `to` has not, or has older. Owner, mode, times and extended attributes
 * stay as they are; with `fresh` also those of the folder itself. -ENOSPC: it does not fit. */
int box_quota_copy(int from, int to, bool fresh, struct box_err *err);

/* Removes from `from` what `to` has, after copying what was changed meanwhile. */
int box_quota_copy_sweep(int from, int to, struct box_err *err);
