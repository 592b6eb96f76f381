/* A skill on this host as the archive that is sent: a folder is packed, a ZIP is read. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

/* The archive, checked by the store's own rules, for the caller to free; and what `path` is called,
 * without ".zip". A link, a special file, or too much is refused by its name. */
int box_skill_pack(const char *path, struct box_arena *arena, struct box_buf *ret_zip,
	const char **ret_stem, struct box_err *err);
