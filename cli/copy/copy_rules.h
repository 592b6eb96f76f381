/* Where a copy goes, by the rules of `docker cp`. Pure. */
#pragma once

#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"

enum box_copy_rules_kind {
	BOX_COPY_NOTHING,
	BOX_COPY_FILE, /* or a link that is copied as one */
	BOX_COPY_FOLDER,
	BOX_COPY_STREAM, /* "-": an archive */
};

struct box_copy_rules_end {
	const char *path;
	enum box_copy_rules_kind kind;
	bool has_parent; /* the folder of a missing one exists */
};

struct box_copy_rules_target {
	const char *folder; /* the destination, which exists */
	/* The name in it, of at most NAME_MAX bytes; NULL: only the contents of the source, or the
	 * names of the archive. */
	const char *name;
};

/* "SESSION:PATH" -> true; a path of the host, which "./a:b" is, -> false. */
bool box_copy_rules_split(
	struct box_arena *arena, const char *text, const char **ret_session, const char **ret_path);

/* The same of "WORKSPACE/BOX:PATH", which may also be a path of the host: only used when no other word names a
 * box. */
bool box_copy_rules_split_qualified(
	struct box_arena *arena, const char *text, const char **ret_name, const char **ret_path);

/* Of a path, without slashes at its end: the last part, and what is before it ("." or "/" when there is none). */
const char *box_copy_rules_base(struct box_arena *arena, const char *path);
const char *box_copy_rules_parent(struct box_arena *arena, const char *path);
bool box_copy_rules_ends_with_slash(const char *path);

int box_copy_rules_resolve(struct box_arena *arena, const struct box_copy_rules_end *from,
	const struct box_copy_rules_end *to, struct box_copy_rules_target *ret_way,
	struct box_err *err);
