/* The rules of Python for text that clients of the skill actions can see: what is white space, a line end
 * or a letter, how long a text is, and how times are written. The store that clients know is written in
 * Python, so a name that is valid there must be valid here (docs/decisions/036-front-matter.md). All of it is
 * pure. Strings are valid UTF-8.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/value.h"

#define BOX_PYTEXT_ISOFORMAT_SIZE 40

/* The first code point, which is taken off; `rest` must not be empty. */
uint32_t box_pytext_next(struct box_str *rest);
/* In code points. */
size_t box_pytext_length(struct box_str text);

bool box_pytext_is_space(uint32_t c);
/* Of all scripts, as str.isalnum(). */
bool box_pytext_is_letter_or_digit(uint32_t c);

struct box_str box_pytext_strip(struct box_str text);
/* The next line with its end, as splitlines() cuts; it is taken off. */
struct box_str box_pytext_line(struct box_str *rest);

/* datetime.fromtimestamp(sec + nsec, utc).isoformat(): clients get times in this form. False for a year
 * that Python does not have. */
bool box_pytext_isoformat(int64_t sec, uint32_t nsec, char out[BOX_PYTEXT_ISOFORMAT_SIZE]);

/* "int", "str", "NoneType"...: what Python calls the type of a value. */
const char *box_pytext_type_name(enum box_type type);
/* bool(value): an argument that is false counts as missing. */
bool box_pytext_is_true(const struct box_value *value);
