/* msgpack bytes <-> value tree; msgpack-c is used only behind this header. */
#pragma once

#include <stddef.h>

#include "base/value.h"

struct box_arena;
struct box_buf;

/* Decodes exactly one value, after the bounded scan of msgpack_scan.h. Strings point into `bytes`,
 * which must live as long as the tree. Errors as box_json_decode. */
int box_msgpack_decode(struct box_arena *arena, const char *bytes, size_t len,
	struct box_value *ret_value, const char **ret_why);

/* Appends one value. 0 or -EMSGSIZE. */
int box_msgpack_encode(struct box_buf *out, const struct box_value *value);

/* The same without the bytes of one str or bin in it, `apart`: they belong at offset *ret_at of `out`,
 * and need not be copied there. */
int box_msgpack_encode_around(
	struct box_buf *out, const struct box_value *value, struct box_str apart, size_t *ret_at);
