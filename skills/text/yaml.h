/* Untrusted YAML as a tree: a bounded reader in which every scalar stays the text that was written. Nothing
 * needs to know whether `1.50` is a number or `yes` a boolean: the fields of a skill are text
 * (docs/decisions/036-front-matter.md).
 */
#pragma once

#include <stddef.h>

#include "base/value.h"

struct box_arena;
struct box_buf;
struct box_err;

enum box_yaml_type {
	BOX_YAML_NULL,
	BOX_YAML_TEXT, /* every other scalar */
	BOX_YAML_LIST,
	BOX_YAML_MAP,
	BOX_YAML_MERGE, /* the key "<<": never in a tree that was read */
};

struct box_yaml {
	enum box_yaml_type type;
	struct box_str text;    /* TEXT */
	struct box_yaml *items; /* LIST: items; MAP: key, value, key, value... */
	size_t count;           /* items, pairs */
};

/* The tree of the only document in the text; NULL for an empty document. -EINVAL with a text that names the
 * field and the line (BOX_ERR_VALIDATION). Lines are counted from first_line. ret_values: the number of
 * values in the text, or up to the error. */
int box_yaml_read(struct box_arena *arena, struct box_str text, size_t first_line,
	struct box_yaml *ret_root, size_t *ret_values, struct box_err *err);

/* The value of a key, or NULL. */
const struct box_yaml *box_yaml_get(const struct box_yaml *map, const char *key);

/* Converts a message's value to such a tree. */
struct box_yaml box_yaml_of_value(struct box_arena *arena, const struct box_value *value);

/* Appends the tree as text for people: scalars as they are, "null", [a, b], {a: b}. -EMSGSIZE if it does not
 * fit. */
int box_yaml_append_text(struct box_buf *out, const struct box_yaml *node);
