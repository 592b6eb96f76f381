/* SKILL.md: YAML between two lines of `---`, then the instructions. Knows how to split and write it, which
 * fields there are, and that all of them are text. Pure.
 */
#pragma once

#include <stdbool.h>

#include "base/value.h"
#include "skills/text/yaml.h"

struct box_arena;
struct box_buf;
struct box_err;

struct box_front_matter {
	bool is_there;
	struct box_yaml meta; /* a map; empty where the front matter is missing or not a map */
	bool is_no_map;       /* the front matter is not a map */
	struct box_str instructions;
	size_t work; /* the cost of reading: one for each value, and one for each 64 bytes */
};

/* The text must be UTF-8 and outlive the result. -EINVAL: the YAML cannot be read; `work` is set even
 * then. */
int box_front_matter_read(struct box_arena *arena, struct box_str text,
	struct box_front_matter *ret_front, struct box_err *err);

/* The text of a field without white space at its ends, in the arena; `fallback` if the value is missing
 * (NULL) or empty. -EMSGSIZE, with the field named, if the text is too long. */
int box_front_matter_text(struct box_arena *arena, const struct box_yaml *value, const char *field,
	struct box_str fallback, struct box_str *ret_text, struct box_err *err);

/* The fields that are written; blank ones are omitted. */
struct box_front_matter_fields {
	struct box_str name, display_name, description;
};

/* Appends a whole SKILL.md. -EMSGSIZE if it does not fit. */
int box_front_matter_write(struct box_buf *out, const struct box_front_matter_fields *fields,
	struct box_str instructions);
