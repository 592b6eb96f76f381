/* Reports where a package deviates from the published Agent Skills format. Pure. For package.c. */
#pragma once

#include "base/value.h"
#include "skills/text/yaml.h"

struct box_arena;
struct box_front_matter;

/* A list of {field, message}; empty for a conforming package. `folder` is its folder's name, NULL if it has
 * none yet. */
struct box_value box_conform_check(
	struct box_arena *arena, const struct box_front_matter *front, const char *folder);
