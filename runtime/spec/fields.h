/* Typed readers for the members of a map, driven by a table: one row, one member.
 *
 * Shared by the box spec, the process spec, the admission section and the configuration. Values
 * are accepted in the forms that the models of the reference accept, and refused in their words:
 * `1 validation error for MODEL\nFIELD\n  TEXT`, the first broken row only.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/value.h"

struct box_arena;

enum box_field_kind {
	BOX_FIELD_TEXT,  /* const char * */
	BOX_FIELD_BYTES, /* struct box_str into the value itself, for what may be long */
	BOX_FIELD_INT,   /* int64_t */
	BOX_FIELD_REAL,  /* double, finite and above 0 */
	BOX_FIELD_BOOL,  /* bool */
	BOX_FIELD_WORD,  /* int: the place in `words` */
	BOX_FIELD_OTHER, /* read by the row's own function */
};

#define BOX_FIELD_REQUIRED (1U << 0)
#define BOX_FIELD_NULLABLE (1U << 1)
#define BOX_FIELD_STRIP (1U << 2)    /* text: without white space at both ends */
#define BOX_FIELD_ABSOLUTE (1U << 3) /* text: begins with `/` */
#define BOX_FIELD_FILLED (1U << 4)   /* text: not empty */
#define BOX_FIELD_STRICT (1U << 5)   /* numbers: no strings, no booleans, no floats for integers */
#define BOX_FIELD_EMPTY_UNSET (1U << 6) /* text: "" counts as null */

/* What is read, and how errors name it. */
struct box_fields {
	struct box_arena *arena;
	const char *model;  /* "BoxSpec" */
	const char *within; /* "" or "extra_mounts.0." */
	struct box_err *err;
};

struct box_field {
	const char *name;
	enum box_field_kind kind;
	unsigned flags;
	size_t offset;      /* of the member in the target */
	int64_t min;        /* integers */
	int64_t max;        /* integers; text: bytes. 0: no limit */
	const char *broken; /* the error if the range or the rule of a text is broken */
	const char *(*check)(const char *text); /* further rules for a text: NULL, or the error */
	const char *const *words;               /* BOX_FIELD_WORD, NULL-terminated */
	const char *expected;                   /* BOX_FIELD_WORD: "'off' or 'on'" */
	int (*other)(const struct box_fields *fields, const struct box_value *value, void *member);
};

/* Reads every row's member of `map` into target; a missing member leaves the target as it is. 0, or -EINVAL with
 * BOX_ERR_VALIDATION. Members without a row are ignored. */
int box_fields_read(const struct box_fields *fields, const struct box_field *rows, size_t count,
	const struct box_value *map, void *target);

/* Refuses the first member of `map` that has no row. */
int box_fields_refuse_unknown(const struct box_fields *fields, const struct box_field *rows,
	size_t count, const struct box_value *map);

/* Sets the error and returns -EINVAL. `field` may be "": then the map as a whole is wrong. */
int box_fields_refuse(const struct box_fields *fields, const char *field, const char *text);

/* A client's bytes for use in an error: cut at 100 bytes, without control characters, and with nothing that a client
 * could mistake for the name of an error. */
const char *box_fields_echo(struct box_arena *arena, struct box_str bytes);

/* The lax forms: "30", 30.0, true for integers; "1.5" for numbers; "yes", 0 for booleans. NULL and
 * the value, or why not, in the reference's words. */
const char *box_fields_to_int(const struct box_value *value, int64_t *ret_integer);
const char *box_fields_to_real(const struct box_value *value, double *ret_real);
const char *box_fields_to_bool(const struct box_value *value, bool *ret_boolean);
/* Text, or bytes that are UTF-8. */
const char *box_fields_to_str(const struct box_value *value, struct box_str *ret_str);
