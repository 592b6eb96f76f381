/* No key twice in a map, whatever codec it came in. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/value.h"

struct box_arena;

/* True when no two pairs have the same key. Time is linear in the bytes of the keys, also for keys
 * that were chosen to make it slow. */
bool box_keys_unique(struct box_arena *arena, const struct box_pair *pairs, uint32_t count);
