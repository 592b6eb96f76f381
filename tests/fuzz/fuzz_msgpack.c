/* msgpack: the scan gives the same verdict wherever the bytes are split, msgpack-c builds what it
 * calls whole, and what is decoded and encoded decodes again to the same tree. */
#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "codec/msgpack.h"
#include "codec/msgpack_scan.h"
#include "tests/fuzz/common.h"

/* Returns the verdict and, unless it is an error, how many bytes belong to the value. */
static int scan(const char *bytes, size_t len, size_t step, size_t *ret_used)
{
	struct box_msgpack_scan state;
	int r = 0;
	size_t total = 0;
	box_msgpack_scan_start(&state);
	for (size_t at = 0; r == 0 && at < len; at += step) {
		size_t used = 0;
		const char *why = NULL;
		size_t piece = len - at < step ? len - at : step;
		r = box_msgpack_scan_feed(&state, bytes + at, piece, &used, &why);
		MUST(r >= 0 || why);
		total += used;
	}
	*ret_used = r < 0 ? 0 : total;
	return r;
}

static void round_trip(const char *bytes, size_t len)
{
	struct box_arena *arena = box_arena_new();
	struct box_value first;
	const char *why = NULL;
	int r = box_msgpack_decode(arena, bytes, len, &first, &why);
	MUST(r == 0 || (why && strcmp(why, "rejected by msgpack-c") != 0));
	if (r == 0) {
		struct box_buf packed = box_buf(4 * BOX_MESSAGE_BYTES_MAX);
		struct box_buf again = box_buf(4 * BOX_MESSAGE_BYTES_MAX);
		struct box_value second;
		MUST(box_msgpack_encode(&packed, &first) == 0);
		MUST(box_msgpack_decode(arena, packed.bytes, packed.len, &second, &why) == 0);
		MUST(box_msgpack_encode(&again, &second) == 0 && packed.len == again.len);
		MUST(memcmp(packed.bytes, again.bytes, packed.len) == 0);
		box_buf_free(&packed);
		box_buf_free(&again);
	}
	box_arena_free(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *bytes = (const char *)data;
	size_t whole_used;
	int whole = scan(bytes, size, size ? size : 1, &whole_used);
	for (size_t step = 1; step <= 7; step += 3) {
		size_t used;
		MUST(scan(bytes, size, step, &used) == whole && used == whole_used);
	}
	/* Input that the scan refuses is also decoded, which must refuse it, too. */
	round_trip(bytes, whole == 1 ? whole_used : size);
	return 0;
}
