/* Trees of values from JSON text, and back. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "codec/json.h"
#include "tests/unit/lib/test.h"

#define HEX64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static inline struct box_value tree(struct box_arena *arena, const char *text)
{
	struct box_value value = box_null();
	const char *why = NULL;
	char *copy = box_arena_strndup(arena, text, strlen(text));
	if (box_json_decode(arena, copy, strlen(copy), &value, &why) < 0) {
		TEST_FAIL("no JSON: %s: %s", text, why);
	}
	return value;
}

static inline const char *json(struct box_arena *arena, const struct box_value *value)
{
	struct box_buf out = box_buf(64 * BOX_MIB);
	ASSERT_INT(box_json_encode(&out, value), 0);
	const char *text = box_arena_strndup(arena, out.bytes, out.len);
	box_buf_free(&out);
	return text;
}
