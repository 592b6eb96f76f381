/* JSON: what is decoded and encoded must decode again, to a tree that encodes to the same text. */
#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "codec/json.h"
#include "tests/fuzz/common.h"

static int decode(
	struct box_arena *arena, const void *text, size_t len, struct box_value *ret_value)
{
	const char *why = NULL;
	char *copy = malloc(len ? len : 1);
	MUST(copy);
	if (len > 0) {
		memcpy(copy, text, len);
	}
	box_arena_adopt(arena, copy);
	int r = box_json_decode(arena, copy, len, ret_value, &why);
	MUST(r == 0 || why);
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
		MUST(box_json_encode(&text, &first) == 0);
		MUST(decode(arena, text.bytes, text.len, &second) == 0);
		MUST(box_json_encode(&again, &second) == 0 && text.len == again.len);
		MUST(memcmp(text.bytes, again.bytes, text.len) == 0);
		box_buf_free(&text);
		box_buf_free(&again);
	}
	box_arena_free(arena);
	return 0;
}
