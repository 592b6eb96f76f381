/* A skill on this host as a ZIP to be uploaded: a folder is packed, a ZIP is read. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

/* The archive, checked by the rules of the skill store, which the caller frees; and the name of `path` without
 * ".zip". A link, a special file and what exceeds a limit are errors that name the file. */
int box_skill_pack(const char *path, struct box_arena *arena, struct box_buf *ret_zip,
	const char **ret_stem, struct box_err *err);
