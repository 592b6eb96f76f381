/* SKILL.md: YAML between two lines of `---`, then the instructions. Pure. */
#pragma once

#include <stdbool.h>

#include "base/value.h"
#include "skills/text/yaml.h"

struct box_arena;
struct box_buf;
struct box_err;

struct box_front_matter {
	bool is_there;
	struct box_yaml meta; /* a map; empty when there is none, or when it is no map */
	bool is_no_map;       /* there is something, but no map */
	struct box_str instructions;
	size_t work; /* what reading it took: its values, and one for each 64 bytes */
};

/* The text must be UTF-8 and outlive what is made of it. -EINVAL: the YAML cannot be read; `work` is
 * told all the same. */
int box_front_matter_read(struct box_arena *arena, struct box_str text,
	struct box_front_matter *ret_front, struct box_err *err);

/* str(value or fallback).strip(), in the arena. -EMSGSIZE, with the field named, when that is too
 * long. `value` may be NULL. */
int box_front_matter_text(struct box_arena *arena, const struct box_yaml *value, const char *field,
	struct box_str fallback, struct box_str *ret_text, struct box_err *err);

/* The fields that are written. NULL, null and blank ones are left out. */
struct box_front_matter_fields {
	const struct box_yaml *name, *display_name, *description;
};

/* Appends a whole SKILL.md. -EMSGSIZE when it does not fit. */
int box_front_matter_write(struct box_buf *out, const struct box_front_matter_fields *fields,
	struct box_str instructions);
