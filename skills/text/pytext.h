/* Python's rules for text that clients of the skill actions can see: what is white space, a line end or a
 * letter, how long a text is, and how times are written. The store that clients know is written in Python,
 * so a name that is valid there must be valid here (docs/decisions/036-front-matter.md). Everything is pure.
 * Strings are valid UTF-8.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/value.h"

#define BOX_PYTEXT_ISOFORMAT_SIZE 40

/* Takes off and returns the first code point; `rest` must not be empty. */
uint32_t box_pytext_next(struct box_str *rest);
/* The length in code points. */
size_t box_pytext_length(struct box_str text);

bool box_pytext_is_space(uint32_t c);
/* In any script, as str.isalnum(). */
bool box_pytext_is_letter_or_digit(uint32_t c);

struct box_str box_pytext_strip(struct box_str text);
/* Takes off and returns the next line with its end, as splitlines() cuts. */
struct box_str box_pytext_line(struct box_str *rest);

/* datetime.fromtimestamp(sec + nsec, utc).isoformat(), the form in which clients get times. False for a year
 * that Python does not support. */
bool box_pytext_isoformat(int64_t sec, uint32_t nsec, char out[BOX_PYTEXT_ISOFORMAT_SIZE]);

/* "int", "str", "NoneType"...: what Python calls the type of a value. */
const char *box_pytext_type_name(enum box_type type);
/* bool(value): a false argument counts as missing. */
bool box_pytext_is_true(const struct box_value *value);
