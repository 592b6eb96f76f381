/* From a blank to a box, seen from boxd: what depends on the request. */
#pragma once

#include "runtime/keeper/blank.h"

/* Opens the folder of the host that is asked for: before a blank is taken, so that a wrong path costs
 * none. -1 where none is asked for. */
int box_birth_open(const struct box_ground *ground, const struct box_ask *ask, int *ret_source,
	struct box_err *err);
/* That it is held to its quota, looked at on the very folder that the box will get. */
int box_birth_check(const struct box_ground *ground, const struct box_ask *ask, int source,
	struct box_err *err);

/* Makes of a blank the box of a plan that it fits. What comes to the report fd tells how it went.
 * Negative: err, and the blank is to be ended. */
int box_birth_begin(struct box_ground *ground, const struct box_plan *plan, int source,
	struct box_blank *blank, struct box_err *err);

/* A mount of an opened source for a command in it. */
int box_birth_mount(struct box_ground *ground, const struct box_living *living, int source,
	bool read_only, int *ret_mount, struct box_err *err);
