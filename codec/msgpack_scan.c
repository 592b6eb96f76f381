/* A bounded walk over msgpack bytes. All state between two pieces of input is in the struct, and every
 * verdict depends only on the bytes walked so far, never on where a piece ends.
 */
#include "codec/msgpack_scan.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

enum kind {
	KIND_SCALAR, /* `size` bytes follow the header */
	KIND_STR,
	KIND_BIN,
	KIND_LIST, /* `size` values follow */
	KIND_MAP,  /* `size` pairs follow */
};

struct head {
	enum kind kind;
	uint32_t size;
	uint8_t len; /* size of the header: 1, 2, 3 or 5; 0: refused */
};

/* Headers 0xc0 to 0xdf. If a size follows the first byte, len includes its bytes. */
static const struct head heads[32] = {
	[0xc0 - 0xc0] = {KIND_SCALAR, 0, 1}, /* nil */
	[0xc2 - 0xc0] = {KIND_SCALAR, 0, 1}, /* false */
	[0xc3 - 0xc0] = {KIND_SCALAR, 0, 1}, /* true */
	[0xc4 - 0xc0] = {KIND_BIN, 0, 2},
	[0xc5 - 0xc0] = {KIND_BIN, 0, 3},
	[0xc6 - 0xc0] = {KIND_BIN, 0, 5},
	[0xca - 0xc0] = {KIND_SCALAR, 4, 1}, /* float 32 */
	[0xcb - 0xc0] = {KIND_SCALAR, 8, 1},
	[0xcc - 0xc0] = {KIND_SCALAR, 1, 1}, /* uint 8 */
	[0xcd - 0xc0] = {KIND_SCALAR, 2, 1},
	[0xce - 0xc0] = {KIND_SCALAR, 4, 1},
	[0xcf - 0xc0] = {KIND_SCALAR, 8, 1},
	[0xd0 - 0xc0] = {KIND_SCALAR, 1, 1}, /* int 8 */
	[0xd1 - 0xc0] = {KIND_SCALAR, 2, 1},
	[0xd2 - 0xc0] = {KIND_SCALAR, 4, 1},
	[0xd3 - 0xc0] = {KIND_SCALAR, 8, 1},
	[0xd9 - 0xc0] = {KIND_STR, 0, 2},
	[0xda - 0xc0] = {KIND_STR, 0, 3},
	[0xdb - 0xc0] = {KIND_STR, 0, 5},
	[0xdc - 0xc0] = {KIND_LIST, 0, 3},
	[0xdd - 0xc0] = {KIND_LIST, 0, 5},
	[0xde - 0xc0] = {KIND_MAP, 0, 3},
	[0xdf - 0xc0] = {KIND_MAP, 0, 5},
};

static struct head head_of(uint8_t first)
{
	if (first < 0x80 || first >= 0xe0) {
		return (struct head){KIND_SCALAR, 0, 1};
	}
	if (first < 0x90) {
		return (struct head){KIND_MAP, first & 0x0f, 1};
	}
	if (first < 0xa0) {
		return (struct head){KIND_LIST, first & 0x0f, 1};
	}
	if (first < 0xc0) {
		return (struct head){KIND_STR, first & 0x1f, 1};
	}
	return heads[first - 0xc0];
}

static int refuse(const char **ret_why, int code, const char *why)
{
	*ret_why = why;
	return code;
}

void box_msgpack_scan_start(struct box_msgpack_scan *scan)
{
	memset(scan, 0, sizeof(*scan));
	scan->level[0].left = 1;
}

static bool complete(const struct box_msgpack_scan *scan)
{
	return scan->depth == 0 && scan->level[0].left == 0 && scan->skip == 0;
}

static uint64_t bytes_left(const struct box_msgpack_scan *scan)
{
	return BOX_MESSAGE_BYTES_MAX - scan->used;
}

/* A list or map of head->size members begins. */
static int enter(struct box_msgpack_scan *scan, const struct head *head, const char **ret_why)
{
	bool is_map = head->kind == KIND_MAP;
	if (scan->depth >= BOX_MESSAGE_DEPTH_MAX) {
		return refuse(ret_why, -E2BIG, "too deep");
	}
	/* Each member takes at least one byte. This also keeps `left` from overflowing. */
	uint64_t members = (uint64_t)head->size * (is_map ? 2 : 1);
	if (members > bytes_left(scan)) {
		return refuse(ret_why, -EMSGSIZE, "count declared beyond the message limit");
	}
	if (head->size > BOX_MESSAGE_VALUES_MAX - scan->values) {
		return refuse(ret_why, -E2BIG, "too many values");
	}
	if (members > 0) {
		scan->depth++;
		scan->level[scan->depth].left = (uint32_t)members;
		scan->level[scan->depth].is_map = is_map;
	}
	return 0;
}

/* A complete header: a value (or key) begins. */
static int begin(struct box_msgpack_scan *scan, const struct head *head, const char **ret_why)
{
	bool in_map = scan->level[scan->depth].is_map;
	bool is_key = in_map && scan->level[scan->depth].left % 2 == 0;
	if (is_key && head->kind != KIND_STR) {
		return refuse(ret_why, -EBADMSG, "a map key is not a string");
	}
	if (!is_key && ++scan->values > BOX_MESSAGE_VALUES_MAX) {
		return refuse(ret_why, -E2BIG, "too many values");
	}
	scan->level[scan->depth].left--;
	if (head->kind == KIND_LIST || head->kind == KIND_MAP) {
		return enter(scan, head, ret_why);
	}
	if (head->size > bytes_left(scan)) {
		return refuse(ret_why, -EMSGSIZE, "size declared beyond the message limit");
	}
	scan->skip = head->size;
	return 0;
}

/* Takes header bytes up to the end of the piece. 1: `ret_head` is complete; 0: more is needed. */
static int take_head(struct box_msgpack_scan *scan, const uint8_t *bytes, size_t len, size_t *at,
	struct head *ret_head, const char **ret_why)
{
	while (*at < len) {
		if (scan->used >= BOX_MESSAGE_BYTES_MAX) {
			return refuse(ret_why, -EMSGSIZE, "message too long");
		}
		scan->header[scan->header_len++] = bytes[(*at)++];
		scan->used++;
		struct head head = head_of(scan->header[0]);
		if (head.len == 0) {
			return refuse(ret_why, -EBADMSG, "ext or unknown type");
		}
		if (scan->header_len < head.len) {
			continue;
		}
		for (uint8_t i = 1; i < head.len; i++) {
			head.size = head.size << 8 | scan->header[i];
		}
		scan->header_len = 0;
		*ret_head = head;
		return 1;
	}
	return 0;
}

int box_msgpack_scan_feed(struct box_msgpack_scan *scan, const char *bytes, size_t len,
	size_t *ret_used, const char **ret_why)
{
	size_t at = 0;
	while (!complete(scan) && at < len) {
		if (scan->skip > 0) {
			size_t step = scan->skip < len - at ? (size_t)scan->skip : len - at;
			scan->skip -= step;
			scan->used += step;
			at += step;
		} else {
			struct head head;
			int r = take_head(scan, (const uint8_t *)bytes, len, &at, &head, ret_why);
			if (r > 0) {
				r = begin(scan, &head, ret_why);
			}
			if (r < 0) {
				return r;
			}
		}
		/* In the middle of a header its value still counts as missing, so this is safe. */
		while (scan->skip == 0 && scan->depth > 0 && scan->level[scan->depth].left == 0) {
			scan->depth--;
		}
	}
	*ret_used = at;
	return complete(scan);
}
