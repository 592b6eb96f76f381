/* Texts about files in boxes: paths of clients, parsed and checked without looking at files, and the errors that
 * clients get. Pure. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "base/value.h"
#include "runtime/backend/backend_file.h"

struct box_arena;

/* The path in a box of a session with this mount_path: absolute, or relative to that. Its root is
 * the mount path, /tmp or the root, whichever it begins with. 0, or negative with BOX_ERR_VALIDATION;
 * `field` is the client's name for it. */
int box_file_text_parse_path(struct box_arena *arena, const char *mount_path, struct box_str path,
	const char *field, struct box_file_path *ret_path, struct box_err *err);

/* `path` with something below it (may be empty), as clients write it. */
struct box_str box_file_text_join_path(
	struct box_arena *arena, const struct box_file_path *path, struct box_str below);

/* Why it failed; outcome->errnum is not 0. The text begins with the name of the errno in brackets. */
void box_file_text_explain(struct box_arena *arena, const struct box_backend_file_request *ask,
	const struct box_file_outcome *outcome, struct box_err *err);

/* "file", "folder", "link" ...; "unknown" for a value out of range. */
const char *box_file_text_type(enum box_file_type type);
