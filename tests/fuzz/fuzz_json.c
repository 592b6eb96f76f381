/* JSON: what is decoded and encoded must decode again, to a tree that encodes to the same text. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "transport/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int decode(
	struct box_arena *arena, const void *text, size_t len, struct box_value *ret_value)
{
	const char *why = NULL;
	char *copy = malloc(len ? len : 1);
	if (!copy) {
		abort();
	}
	if (len > 0) {
		memcpy(copy, text, len);
	}
	box_arena_adopt(arena, copy);
	int r = box_json_decode(arena, copy, len, ret_value, &why);
	if (r < 0 && !why) {
		abort();
	}
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct box_arena *arena = box_arena_new();
	struct box_value first;
	if (decode(arena, data, size, &first) == 0) {
		struct box_buf text = box_buf(2 * BOX_MESSAGE_BYTES_MAX);
		struct box_buf again = box_buf(2 * BOX_MESSAGE_BYTES_MAX);
		struct box_value second;
		if (box_json_encode(&text, &first) < 0 ||
			decode(arena, text.bytes, text.len, &second) < 0 ||
			box_json_encode(&again, &second) < 0 || text.len != again.len ||
			memcmp(text.bytes, again.bytes, text.len) != 0) {
			abort();
		}
		box_buf_free(&text);
		box_buf_free(&again);
	}
	box_arena_free(arena);
	return 0;
}
