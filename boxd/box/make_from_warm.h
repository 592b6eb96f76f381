/* From a blank to a box, seen from boxd: what depends on the request. */
#pragma once

#include "boxd/box/make.h"

/* Opens the folder of the host that is asked for: before a blank is taken, so that a wrong path costs
 * none. -1 where none is asked for. */
int box_make_open_folder(const struct box_host_state *ground, const struct box_plan_request *ask,
	int *ret_source, struct box_err *err);
/* That it is held to its quota, looked at on the very folder that the box will get. */
int box_make_check_quota(const struct box_host_state *ground, const struct box_plan_request *ask,
	int source, struct box_err *err);

/* Makes of a blank the box of a plan that it fits. What comes to the report fd tells how it went.
 * Negative: err, and the blank is to be ended. */
int box_make_from_warm(struct box_host_state *ground, const struct box_plan *plan, int source,
	struct box_warm_box *blank, struct box_err *err);

/* A mount of an opened source for a command in it. */
int box_make_mount(struct box_host_state *ground, const struct box_resources *living, int source,
	bool read_only, int *ret_mount, struct box_err *err);
