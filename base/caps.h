/* Capabilities of this process: given up, kept over exec, taken back into effect. All give 0 or -errno,
 * and change the calling thread alone. Masks have a bit for the number of each capability. */
#pragma once

#include <stdint.h>

/* Keeps those of `mask` that there are, in effect, and no other in any set but the bounding one. */
int box_caps_keep(uint64_t mask);

/* None in any set but the bounding one, in one system call. */
int box_caps_drop_all(void);

/* Exactly those of `mask`, in effect and also after an exec of a process that is not root. They must all be
 * there. */
int box_caps_keep_over_exec(uint64_t mask);

/* All that are permitted are in effect again: a change of the effective uid cleared them. */
int box_caps_restore_effective(void);
