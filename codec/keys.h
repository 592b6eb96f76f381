/* Rejects duplicate keys in a map, in whichever format it came. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/value.h"

struct box_arena;

/* True when no two pairs have the same key. Takes linear time, even if the keys were chosen to make it
 * slow. */
bool box_keys_unique(struct box_arena *arena, const struct box_pair *pairs, uint32_t count);
