/* YAML as PyYAML reads and writes it: a bounded reader, the types of plain scalars, and the writer of
 * single scalars. A scalar is kept as the text that Python's str() would give for it, because that is
 * all that the fields of a skill need of it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/value.h"

struct box_arena;
struct box_buf;
struct box_err;

enum box_yaml_type {
	BOX_YAML_NULL,
	BOX_YAML_BOOL,
	BOX_YAML_INT,
	BOX_YAML_REAL,
	BOX_YAML_TEXT,
	BOX_YAML_BYTES,
	BOX_YAML_TIME,
	BOX_YAML_LIST,
	BOX_YAML_MAP,
	BOX_YAML_MERGE, /* a plain "<<": only as a key, and never in a tree that was read */
	BOX_YAML_VALUE, /* a plain "=": the same */
};

struct box_yaml {
	enum box_yaml_type type;
	bool is_true;           /* bool() of it */
	struct box_str text;    /* scalars: str() of it; BYTES: the bytes */
	struct box_str repr;    /* TIME: repr() of it */
	struct box_yaml *items; /* LIST: items; MAP: key, value, key, value... */
	size_t count;           /* items, pairs */
};

/* The tree of the only document in the text; NULL for an empty one. -EINVAL with a text that has the
 * field and the line (BOX_ERR_VALIDATION). Lines are counted from first_line. ret_values: how many it
 * has, or had up to the error. */
int box_yaml_read(struct box_arena *arena, struct box_str text, size_t first_line,
	struct box_yaml *ret_root, size_t *ret_values, struct box_err *err);

/* The value of a text key, or NULL. */
const struct box_yaml *box_yaml_get(const struct box_yaml *map, const char *key);

/* Which type PyYAML gives a plain scalar. */
enum box_yaml_type box_yaml_type_of(struct box_str plain);
/* A scalar of that type. NULL, or why it is none: its text does not fit the type, or its value is out
 * of range. */
const char *box_yaml_scalar(struct box_arena *arena, enum box_yaml_type type, struct box_str text,
	struct box_yaml *ret_scalar);
/* The time that a text of type TIME stands for. NULL, or why there is no such time. */
const char *box_yaml_time(struct box_arena *arena, struct box_str text, struct box_yaml *ret_time);
bool box_yaml_is_time(struct box_str text);

/* A value of a message as such a tree. */
struct box_yaml box_yaml_of_value(struct box_arena *arena, const struct box_value *value);

/* str(node), repr(node). -EMSGSIZE when it does not fit. */
int box_yaml_str(struct box_buf *out, const struct box_yaml *node);
int box_yaml_repr(struct box_buf *out, const struct box_yaml *node);

/* Appends "key: scalar\n" as yaml.dump(default_flow_style=False, allow_unicode=True) writes it. Only
 * scalars of messages: NULL, BOOL, INT, REAL, TEXT. */
int box_yaml_dump_pair(struct box_buf *out, const char *key, const struct box_yaml *scalar);
