/* Moves the content of a folder into its image: copied first, and removed only when the copy is on disk
 * and mounted over the folder. Both walks can be interrupted at any moment and started again. Called by
 * quota_task.c. */
#pragma once

#include <stdbool.h>

#include "base/err.h"

/* Copies what is missing or older in `to`. Owner, mode, times and extended attributes are kept; with
 * `fresh` also those of the folder itself. -ENOSPC: it does not fit. */
int box_quota_copy(int from, int to, bool fresh, struct box_err *err);

/* Removes everything from `from` that `to` has, after copying what has changed meanwhile. */
int box_quota_copy_sweep(int from, int to, struct box_err *err);
