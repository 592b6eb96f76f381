/* Text by Python's rules, where clients of the reference can tell the difference: white space, line
 * ends, repr() of strings and numbers, isoformat(). All of it is pure. Strings are valid UTF-8.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/value.h"

struct box_buf;

#define BOX_PYTEXT_ISOFORMAT_SIZE 40

/* The first code point, which is taken off; `rest` must not be empty. */
uint32_t box_pytext_next(struct box_str *rest);
size_t box_pytext_length(struct box_str text);

bool box_pytext_is_space(uint32_t c);
bool box_pytext_is_printable(uint32_t c);

struct box_str box_pytext_strip(struct box_str text);
/* str.isalnum(): not empty, and nothing but letters and digits. */
bool box_pytext_is_alnum(struct box_str text);
/* The next line with its end, as splitlines() cuts; it is taken off. */
struct box_str box_pytext_line(struct box_str *rest);

/* These fail only when the buffer is full. */
int box_pytext_repr_text(struct box_buf *out, struct box_str text);
int box_pytext_repr_bytes(struct box_buf *out, struct box_str bytes);
int box_pytext_repr_real(struct box_buf *out, double real);

/* datetime.fromtimestamp(sec + nsec, utc).isoformat(), by way of a float as os.stat gives it. False for
 * a year that Python does not have. */
bool box_pytext_isoformat(int64_t sec, uint32_t nsec, char out[BOX_PYTEXT_ISOFORMAT_SIZE]);

/* "int", "str", "NoneType"...: what Python calls the type of a value. */
const char *box_pytext_type_name(enum box_type type);
/* bool(value). */
bool box_pytext_is_true(const struct box_value *value);
