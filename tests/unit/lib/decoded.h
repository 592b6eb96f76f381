/* Checks of decoded bytes. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "codec/json.h"
#include "tests/unit/lib/test.h"

struct decoded {
	struct box_arena *arena;
	struct box_value value;
	const char *why;
	int result;
};

/* In memory of exactly its size, so that a read past it is detected. */
static inline char *exact_copy(struct box_arena *arena, const char *bytes, size_t len)
{
	char *copy = malloc(len ? len : 1);
	ASSERT(copy != NULL);
	memcpy(copy, bytes, len);
	box_arena_adopt(arena, copy);
	return copy;
}

static inline struct decoded decode_json(const char *text, size_t len)
{
	struct decoded d = {.arena = box_arena_new()};
	char *copy = exact_copy(d.arena, text, len);
	d.result = box_json_decode(d.arena, copy, len, &d.value, &d.why);
	ASSERT(d.result == 0 || d.why != NULL);
	return d;
}

static inline void release(struct decoded *d)
{
	box_arena_free(d->arena);
}

static inline void assert_encodes(const struct box_value *value, const char *expected, size_t len)
{
	struct box_buf out = box_buf(BOX_MESSAGE_BYTES_MAX);
	ASSERT_INT(box_json_encode(&out, value), 0);
	ASSERT_BYTES(out.bytes, out.len, expected, len);
	box_buf_free(&out);
}
