/* HOST:PLACE[:ro|rw], as --mount and msb's --volume have it. Pure. */
#pragma once

#include <stdbool.h>

struct box_arena;

struct box_path_argument_mount {
	const char *host; /* a path, which may be relative */
	const char *box;  /* absolute */
	const char *mode; /* "ro" or "rw" */
};

/* False when it is something else. The texts are in the arena. */
bool box_path_argument_split_mount(
	struct box_arena *arena, const char *text, struct box_path_argument_mount *ret_mount);
