/* Capabilities of the calling thread: drop them, keep them over exec, make them effective again. All
 * functions return 0 or -errno. In a mask, bit N is the capability with number N. */
#pragma once

#include <stdint.h>

/* Keeps the capabilities of `mask` that the thread has, effective, and clears all others in every set
 * but the bounding set. */
int box_caps_keep(uint64_t mask);

/* Clears every set but the bounding set, in one system call. */
int box_caps_drop_all(void);

/* Exactly the capabilities of `mask`, effective, and kept over an exec by a process that is not root.
 * Fails if one of them is missing. */
int box_caps_keep_over_exec(uint64_t mask);

/* Makes all permitted capabilities effective again, after a change of the effective uid has cleared
 * them. */
int box_caps_restore_effective(void);
