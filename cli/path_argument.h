/* Paths of the host in arguments, as the runtime must get them. */
#pragma once

#include <stdbool.h>

#include "base/err.h"

struct box_arena;

/* An absolute path without `.`, `..`, double slashes and slashes at its end, by its text alone. */
const char *box_path_argument_clean(struct box_arena *arena, const char *path);

/* The absolute path; a relative one is relative to the working folder. The runtime accepts no `.` and `..`, so
 * a path that is relative or has a `..` is resolved here as a shell would open it: links first, then `..`.
 * Of a path that does not exist, which the runtime will report, and of other absolute paths only the text is
 * cleaned: a runtime in a container may see another tree. */
int box_path_argument_resolve(
	struct box_arena *arena, const char *path, const char **ret_path, struct box_err *err);

/* HOST:BOX[:ro|rw], as in --mount and msb's --volume. */
struct box_path_argument_mount {
	const char *host; /* may be relative */
	const char *box;  /* absolute */
	const char *mode; /* "ro" or "rw" */
};

/* False when the text has another form. The parts are in the arena. */
bool box_path_argument_split_mount(
	struct box_arena *arena, const char *text, struct box_path_argument_mount *ret_mount);
