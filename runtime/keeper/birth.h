/* From a blank to a box, seen from boxd: what depends on the request. */
#pragma once

#include "runtime/keeper/blank.h"

/* Makes of a blank the box of a plan that it fits. What comes to the report fd tells how it went. The
 * blank is used up in any case. Negative: err, and nothing of it remains. */
int box_birth_begin(struct box_ground *ground, const struct box_plan *plan, struct box_blank *blank,
	struct box_living *ret_living, struct box_err *err);

/* A mount of the host for a command in it. */
int box_birth_mount(struct box_ground *ground, const struct box_living *living, const char *path,
	bool read_only, int *ret_mount, struct box_err *err);
