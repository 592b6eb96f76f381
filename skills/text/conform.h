/* The published Agent Skills format: what of a package is not as it says. Pure. */
#pragma once

#include "base/value.h"
#include "skills/text/yaml.h"

struct box_arena;
struct box_front_matter;

/* A list of {field, message}; empty for a package that conforms. `folder` is its folder's name, NULL
 * where it has none yet. */
struct box_value box_conform_check(
	struct box_arena *arena, const struct box_front_matter *front, const char *folder);
