/* Capabilities of this process, given up. */
#pragma once

#include <stdint.h>

/* Keeps those of `mask` (bits by their numbers) that there are, in effect, and no other in any set but
 * the bounding one. 0 or -errno. */
int box_caps_keep(uint64_t mask);
