/* Names and paths of skills as text: which are allowed, and how they are derived. Pure. */
#pragma once

#include <stdbool.h>

#include "base/value.h"

struct box_arena;
struct box_err;

/* One folder's name, not "." or "..", without a backslash. */
bool box_names_is_namespace(const char *namespace);

/* Returns the name without white space at its ends. -EINVAL with the reference's text. */
int box_names_check(struct box_str name, struct box_str *ret_name, struct box_err *err);

/* os.path.normpath of a text without NUL. */
char *box_names_normpath(struct box_arena *arena, struct box_str path);

/* The path below `root` of a text that names a place on the host: "" for the root itself; NULL if the text
 * does not lead below it. Links are not resolved. */
char *box_names_below(struct box_arena *arena, struct box_str path, const char *root);

/* .strip().replace("\\", "/").strip("/"): how the paths in archives are compared. */
struct box_str box_names_source_path(struct box_arena *arena, struct box_str path);

/* STEM of an uploaded file's name; never empty. */
struct box_str box_names_stem(struct box_arena *arena, struct box_str filename);
/* The folder's name for a package: STEM, STEM-LEAF, STEM-SUFFIX or STEM-LEAF-SUFFIX. */
struct box_str box_names_target(
	struct box_arena *arena, struct box_str stem, struct box_str source, struct box_str suffix);
/* Whether it is a single name that a folder can have. */
bool box_names_is_folder(struct box_str name);

/* The last part of a path. */
struct box_str box_names_leaf(struct box_str path);
/* a/b, or whichever of the two is not empty. */
char *box_names_join(struct box_arena *arena, const char *a, const char *b);
