/* Paths of the host in arguments, as the runtime must be told them. */
#pragma once

#include "base/err.h"

struct box_arena;

/* An absolute path without `.`, `..`, doubled slashes and slashes at its end, by its text alone. */
const char *box_path_argument_clean(struct box_arena *arena, const char *path);

/* The same path from the root: a relative one is meant from the working folder. The runtime takes
 * no `.` and `..`, so one that is relative or has a `..` is resolved here, as a shell would open it:
 * links first, then `..`. Of what is not there, which the runtime will say, and of other absolute
 * paths only the text is cleaned: a runtime in a container may see another tree. */
int box_path_argument_resolve(
	struct box_arena *arena, const char *path, const char **ret_path, struct box_err *err);
