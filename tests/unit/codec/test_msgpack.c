/* msgpack encoder, decoder and scan: exact results, every limit, and the same verdict wherever the
 * input is split. */
#include <errno.h>
#include <math.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "codec/json.h"
#include "codec/msgpack.h"
#include "codec/msgpack_scan.h"
#include "tests/unit/lib/decoded.h"

#define BYTES(literal) literal, sizeof(literal) - 1

struct verdict {
	int result;
	size_t used;
	const char *why;
};

static struct verdict scan_whole(const char *bytes, size_t len)
{
	struct box_msgpack_scan scan;
	struct verdict v = {0};
	box_msgpack_scan_start(&scan);
	v.result = box_msgpack_scan_feed(&scan, bytes, len, &v.used, &v.why);
	return v;
}

/* Feeds pieces of `step` bytes, each in a block of its own, until there is a verdict. */
static struct verdict scan_in_pieces(const char *bytes, size_t len, size_t step)
{
	struct box_msgpack_scan scan;
	struct verdict v = {0};
	box_msgpack_scan_start(&scan);
	for (size_t at = 0; at < len && v.result == 0; at += step) {
		size_t piece = len - at < step ? len - at : step;
		char *copy = malloc(piece);
		size_t used = 0;
		ASSERT(copy != NULL);
		memcpy(copy, bytes + at, piece);
		v.result = box_msgpack_scan_feed(&scan, copy, piece, &used, &v.why);
		v.used += used;
		ASSERT(v.result != 0 || used == piece);
		ASSERT(v.result < 0 || scan.used == v.used);
		free(copy);
	}
	return v;
}

static void assert_same_verdict(const char *bytes, size_t len, struct verdict whole)
{
	for (size_t step = 1; step <= 9; step++) {
		struct verdict v = scan_in_pieces(bytes, len, step);
		ASSERT_INT(v.result, whole.result);
		if (v.result < 0) {
			ASSERT_STR(v.why, whole.why);
		} else {
			ASSERT_INT(v.used, whole.used);
		}
	}
}

static struct decoded decode_msgpack(const char *bytes, size_t len)
{
	struct decoded d = {.arena = box_arena_new()};
	char *copy = exact_copy(d.arena, bytes, len);
	d.result = box_msgpack_decode(d.arena, copy, len, &d.value, &d.why);
	ASSERT(d.result == 0 || d.why != NULL);
	return d;
}

/* The tree as JSON text shows what was read. */
static void assert_reads(const char *bytes, size_t len, const char *json)
{
	struct decoded d = decode_msgpack(bytes, len);
	if (d.result != 0) {
		TEST_FAIL("%s: %d %s", json, d.result, d.why);
	}
	assert_encodes(&d.value, json, strlen(json));
	release(&d);
}

static const struct {
	const char *bytes;
	size_t len;
	const char *json;
	bool shortest; /* encoding gives the same bytes */
} good[] = {
	{BYTES("\xc0"), "null", true},
	{BYTES("\xc2"), "false", true},
	{BYTES("\xc3"), "true", true},
	{BYTES("\x00"), "0", true},
	{BYTES("\x7f"), "127", true},
	{BYTES("\xff"), "-1", true},
	{BYTES("\xe0"), "-32", true},
	{BYTES("\xcc\x80"), "128", true},
	{BYTES("\xcc\x01"), "1", false},
	{BYTES("\xcd\x01\x00"), "256", true},
	{BYTES("\xce\x00\x01\x00\x00"), "65536", true},
	{BYTES("\xcf\x00\x00\x00\x01\x00\x00\x00\x00"), "4294967296", true},
	{BYTES("\xcf\x7f\xff\xff\xff\xff\xff\xff\xff"), "9223372036854775807", true},
	{BYTES("\xcf\x80\x00\x00\x00\x00\x00\x00\x00"), "9.223372036854776e+18", false},
	{BYTES("\xcf\xff\xff\xff\xff\xff\xff\xff\xff"), "1.8446744073709552e+19", false},
	{BYTES("\xd0\x80"), "-128", true},
	{BYTES("\xd1\x80\x00"), "-32768", true},
	{BYTES("\xd2\x80\x00\x00\x00"), "-2147483648", true},
	{BYTES("\xd3\x80\x00\x00\x00\x00\x00\x00\x00"), "-9223372036854775808", true},
	{BYTES("\xd3\x00\x00\x00\x00\x00\x00\x00\x05"), "5", false},
	{BYTES("\xca\x3f\x80\x00\x00"), "1.0", false},
	{BYTES("\xcb\x3f\xf8\x00\x00\x00\x00\x00\x00"), "1.5", true},
	{BYTES("\xcb\x7f\xf0\x00\x00\x00\x00\x00\x00"), "null", true},
	{BYTES("\xa0"), "\"\"", true},
	{BYTES("\xa3"
	       "a\nb"),
		"\"a\\nb\"", true},
	{BYTES("\xd9\x01"
	       "a"),
		"\"a\"", false},
	{BYTES("\xda\x00\x01"
	       "a"),
		"\"a\"", false},
	{BYTES("\xdb\x00\x00\x00\x02\xc3\xa9"), "\"\xc3\xa9\"", false},
	{BYTES("\xc4\x02\x00\xff"), "\"AP8=\"", true},
	{BYTES("\xc5\x00\x00"), "\"\"", false},
	{BYTES("\xc6\x00\x00\x00\x01\x01"), "\"AQ==\"", false},
	{BYTES("\x90"), "[]", true},
	{BYTES("\x80"), "{}", true},
	{BYTES("\x93\x01\x91\x02\x80"), "[1,[2],{}]", true},
	{BYTES("\xdc\x00\x02\x01\x02"), "[1,2]", false},
	{BYTES("\xdd\x00\x00\x00\x00"), "[]", false},
	{BYTES("\x82\xa1z\x01\xa1y\x92\xc0\xa1x"), "{\"z\":1,\"y\":[null,\"x\"]}", true},
	{BYTES("\xde\x00\x01\xd9\x01k\xc3"), "{\"k\":true}", false},
	{BYTES("\xdf\x00\x00\x00\x01\xa0\x80"), "{\"\":{}}", false},
	{BYTES("\x83\xa6seq_id\x01\xa6"
	       "action\xa6__ping\xa4"
	       "data\x80"),
		"{\"seq_id\":1,\"action\":\"__ping\",\"data\":{}}", true},
};

TEST(values_of_every_kind)
{
	for (size_t i = 0; i < COUNT(good); i++) {
		assert_reads(good[i].bytes, good[i].len, good[i].json);
		struct verdict whole = scan_whole(good[i].bytes, good[i].len);
		ASSERT_INT(whole.result, 1);
		ASSERT_INT(whole.used, good[i].len);
		assert_same_verdict(good[i].bytes, good[i].len, whole);
		struct decoded d = decode_msgpack(good[i].bytes, good[i].len);
		struct box_buf out = box_buf(BOX_MIB);
		ASSERT_INT(box_msgpack_encode(&out, &d.value), 0);
		if (good[i].shortest) {
			ASSERT_BYTES(out.bytes, out.len, good[i].bytes, good[i].len);
		} else {
			assert_reads(out.bytes, out.len, good[i].json);
		}
		box_buf_free(&out);
		release(&d);
	}
}

/* Each prefix of a value needs more, and extra bytes after a value are refused. */
TEST(cut_and_prolonged_values)
{
	for (size_t i = 0; i < COUNT(good); i++) {
		for (size_t len = 0; len < good[i].len; len++) {
			struct verdict whole = scan_whole(good[i].bytes, len);
			ASSERT_INT(whole.result, 0);
			ASSERT_INT(whole.used, len);
			assert_same_verdict(good[i].bytes, len, whole);
			struct decoded d = decode_msgpack(good[i].bytes, len);
			ASSERT_INT(d.result, -EBADMSG);
			ASSERT_STR(d.why, "unexpected end of data");
			release(&d);
		}
		char longer[128];
		memcpy(longer, good[i].bytes, good[i].len);
		longer[good[i].len] = '\xc1';
		struct verdict whole = scan_whole(longer, good[i].len + 1);
		ASSERT_INT(whole.result, 1);
		ASSERT_INT(whole.used, good[i].len);
		struct decoded d = decode_msgpack(longer, good[i].len + 1);
		ASSERT_INT(d.result, -EBADMSG);
		ASSERT_STR(d.why, "data after the value");
		release(&d);
	}
}

TEST(what_is_refused)
{
	static const struct {
		const char *bytes;
		size_t len;
		int scan;
		int decode;
	} table[] = {
		{BYTES("\xc1"), -EBADMSG, -EBADMSG},
		{BYTES("\xd4\x01\x02"), -EBADMSG, -EBADMSG},
		{BYTES("\xd5\x01\x02\x03"), -EBADMSG, -EBADMSG},
		{BYTES("\xd6\xff\x00\x00\x00\x00"), -EBADMSG, -EBADMSG},
		{BYTES("\xd7"), -EBADMSG, -EBADMSG},
		{BYTES("\xd8"), -EBADMSG, -EBADMSG},
		{BYTES("\xc7\x00\x01"), -EBADMSG, -EBADMSG},
		{BYTES("\xc8"), -EBADMSG, -EBADMSG},
		{BYTES("\xc9"), -EBADMSG, -EBADMSG},
		{BYTES("\x92\x01\xc1"), -EBADMSG, -EBADMSG},
		{BYTES("\x81\x01\x01"), -EBADMSG, -EBADMSG},
		{BYTES("\x81\xc0\x01"), -EBADMSG, -EBADMSG},
		{BYTES("\x81\xc4\x01k\x01"), -EBADMSG, -EBADMSG},
		{BYTES("\x81\x90\x01"), -EBADMSG, -EBADMSG},
		{BYTES("\x81\x80\x01"), -EBADMSG, -EBADMSG},
		{BYTES("\x82\xa1k\x80\x01\x01"), -EBADMSG, -EBADMSG},
		{BYTES("\xdd\xff\xff\xff\xff"), -EMSGSIZE, -EBADMSG},
		{BYTES("\xdf\xff\xff\xff\xff"), -EMSGSIZE, -EBADMSG},
		{BYTES("\xdf\x80\x00\x00\x00"), -EMSGSIZE, -EBADMSG},
		{BYTES("\xdb\xff\xff\xff\xff"), -EMSGSIZE, -EBADMSG},
		{BYTES("\xc6\x01\x00\x00\x00"), -EMSGSIZE, -EBADMSG},
		{BYTES("\xdf\x00\x7f\xff\xfe"), -EMSGSIZE, -EBADMSG},
		{BYTES("\xdf\x00\x7f\xff\xfd"), -E2BIG, -E2BIG},
		{BYTES("\xdd\x00\x04\x00\x00"), -E2BIG, -E2BIG},
		{BYTES("\xa1\xff"), 1, -EILSEQ},
		{BYTES("\x81\xa2\xc0\x80\x01"), 1, -EILSEQ},
		{BYTES("\x91\xa3\xed\xa0\x80"), 1, -EILSEQ},
		{BYTES("\x82\xa1k\x01\xa1k\x02"), 1, -EBADMSG},
		{BYTES("\x82\xa1k\x01\xd9\x01k\x02"), 1, -EBADMSG},
		{BYTES("\x91\x82\xa0\x01\xa0\x02"), 1, -EBADMSG},
	};
	for (size_t i = 0; i < COUNT(table); i++) {
		struct verdict whole = scan_whole(table[i].bytes, table[i].len);
		struct decoded d = decode_msgpack(table[i].bytes, table[i].len);
		if (whole.result != table[i].scan || d.result != table[i].decode) {
			TEST_FAIL("row %zu: scan %d, decode %d", i, whole.result, d.result);
		}
		assert_same_verdict(table[i].bytes, table[i].len, whole);
		release(&d);
	}
}

TEST(sizes_up_to_the_message_limit)
{
	struct box_msgpack_scan scan;
	size_t used;
	const char *why;
	/* A string that fills the message to the last byte, and one that exceeds it by one. */
	char head[5] = {'\xdb', 0, '\xff', '\xff', '\xfb'};
	box_msgpack_scan_start(&scan);
	ASSERT_INT(box_msgpack_scan_feed(&scan, head, 5, &used, &why), 0);
	ASSERT_INT(scan.skip, BOX_MESSAGE_BYTES_MAX - 5);
	head[4] = '\xfc';
	box_msgpack_scan_start(&scan);
	ASSERT_INT(box_msgpack_scan_feed(&scan, head, 5, &used, &why), -EMSGSIZE);

	/* Two values where the first leaves no byte for the second. */
	static char bytes[BOX_MESSAGE_BYTES_MAX + 1];
	put_bytes(bytes, "\x92\xc6\x00\xff\xff\xfa", 6);
	bytes[BOX_MESSAGE_BYTES_MAX] = '\x01';
	struct verdict v = scan_whole(bytes, BOX_MESSAGE_BYTES_MAX);
	ASSERT_INT(v.result, 0);
	v = scan_whole(bytes, BOX_MESSAGE_BYTES_MAX + 1);
	ASSERT_INT(v.result, -EMSGSIZE);
	ASSERT_STR(v.why, "message too long");
	v = scan_in_pieces(bytes, BOX_MESSAGE_BYTES_MAX + 1, 65521);
	ASSERT_INT(v.result, -EMSGSIZE);
	bytes[0] = '\x91';
	bytes[5] = '\xf9';
	v = scan_whole(bytes, BOX_MESSAGE_BYTES_MAX);
	ASSERT_INT(v.result, 1);
	ASSERT_INT(v.used, BOX_MESSAGE_BYTES_MAX - 1);
}

TEST(depth_is_bounded)
{
	for (size_t depth = BOX_MESSAGE_DEPTH_MAX; depth <= BOX_MESSAGE_DEPTH_MAX + 1; depth++) {
		for (int kind = 0; kind < 4; kind++) {
			char bytes[256];
			size_t n = 0;
			for (size_t i = 0; i < depth; i++) {
				bool map = kind == 2 || (kind == 3 && i % 2);
				bool empty = kind == 0 && i + 1 == depth;
				bytes[n++] = empty ? '\x90' : map ? '\x81' : '\x91';
				if (map) {
					bytes[n++] = '\xa1';
					bytes[n++] = 'k';
				}
			}
			if (kind != 0) {
				bytes[n++] = '\x01';
			}
			int expected = depth > BOX_MESSAGE_DEPTH_MAX ? -E2BIG : 0;
			struct decoded d = decode_msgpack(bytes, n);
			ASSERT_INT(d.result, expected);
			release(&d);
			assert_same_verdict(bytes, n, scan_whole(bytes, n));
		}
	}
}

TEST(values_are_counted_and_keys_are_not)
{
	struct box_buf out = box_buf(BOX_MESSAGE_BYTES_MAX);
	uint32_t most = BOX_MESSAGE_VALUES_MAX - 2;
	/* The map and its list are two values, `most` numbers fill the rest. */
	ASSERT_INT(box_buf_append(&out, "\x81\xa1k\xdd\x00\x03\xff\xfe", 8), 0);
	for (uint32_t i = 0; i < most; i++) {
		ASSERT_INT(box_buf_append(&out, "\x05", 1), 0);
	}
	struct decoded d = decode_msgpack(out.bytes, out.len);
	ASSERT_INT(d.result, 0);
	ASSERT_INT(d.value.pairs[0].value.count, most);
	release(&d);

	/* Lists that are within bounds each, but not together. */
	out.len = 0;
	ASSERT_INT(box_buf_append(&out, "\xdc\x00\x03", 3), 0);
	for (int list = 0; list < 3; list++) {
		ASSERT_INT(box_buf_append(&out, "\xdd\x00\x01\x80\x00", 5), 0);
		for (int i = 0; i < 0x18000; i++) {
			ASSERT_INT(box_buf_append(&out, "\x05", 1), 0);
		}
	}
	d = decode_msgpack(out.bytes, out.len);
	ASSERT_INT(d.result, -E2BIG);
	ASSERT_STR(d.why, "too many values");
	release(&d);
	box_buf_free(&out);
}

TEST(keys_are_unique_in_large_maps_too)
{
	for (int twice = 0; twice < 2; twice++) {
		struct box_buf out = box_buf(BOX_MIB);
		ASSERT_INT(box_buf_append(&out, "\xde\x03\xe8", 3), 0);
		for (int i = 0; i < 1000; i++) {
			int key = twice && i == 999 ? 500 : i;
			ASSERT_INT(box_buf_printf(&out, "\xa4%04d", key), 0);
			ASSERT_INT(box_buf_append(&out, "\xc0", 1), 0);
		}
		struct decoded d = decode_msgpack(out.bytes, out.len);
		ASSERT_INT(d.result, twice ? -EBADMSG : 0);
		release(&d);
		box_buf_free(&out);
	}
}

TEST(strings_stay_in_the_bytes)
{
	static const char bytes[] = "\x82\xa3key\xa5value\xa3"
				    "bin\xc4\x02\xff\x00";
	struct box_arena *arena = box_arena_new();
	struct box_value value;
	const char *why;
	ASSERT_INT(box_msgpack_decode(arena, bytes, sizeof(bytes) - 1, &value, &why), 0);
	ASSERT(value.pairs[0].key.bytes == bytes + 2);
	ASSERT(value.pairs[0].value.str.bytes == bytes + 6);
	ASSERT_INT(value.pairs[1].value.type, BOX_BIN);
	ASSERT(value.pairs[1].value.str.bytes == bytes + 17);
	ASSERT_INT(value.pairs[1].value.str.len, 2);
	box_arena_free(arena);
}

TEST(reals_keep_their_bits)
{
	static const double reals[] = {0.0, -0.0, 1.0, 0.1, 1e300, 5e-324, INFINITY, -INFINITY};
	for (size_t i = 0; i < COUNT(reals); i++) {
		struct box_buf out = box_buf(64);
		struct box_value value = box_real(reals[i]);
		ASSERT_INT(box_msgpack_encode(&out, &value), 0);
		struct decoded d = decode_msgpack(out.bytes, out.len);
		ASSERT_INT(d.result, 0);
		ASSERT_INT(d.value.type, BOX_REAL);
		ASSERT(same_real(d.value.real, reals[i]));
		release(&d);
		box_buf_free(&out);
	}
	struct decoded d = decode_msgpack("\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00", 9);
	ASSERT_INT(d.result, 0);
	ASSERT(isnan(d.value.real));
	release(&d);
}

TEST(the_limit_of_the_buffer_holds)
{
	const char bytes[] = "\x82\xa1k\x92\x01\xa3xyz\xa1l\xc4\x02\xff\xfe";
	size_t len = sizeof(bytes) - 1;
	struct decoded d = decode_msgpack(bytes, len);
	ASSERT_INT(d.result, 0);
	for (size_t limit = 0; limit <= len; limit++) {
		struct box_buf out = box_buf(limit + 1);
		ASSERT_INT(box_buf_append(&out, "#", 1), 0);
		int r = box_msgpack_encode(&out, &d.value);
		ASSERT_INT(r, limit < len ? -EMSGSIZE : 0);
		ASSERT_INT(out.len, r < 0 ? 1 : len + 1);
		box_buf_free(&out);
	}
	release(&d);
}

/* Random bytes: the verdict does not depend on how they are split, and what the scan calls whole,
 * msgpack-c builds. */
TEST(random_bytes_give_one_verdict)
{
	uint64_t state = 0x2545f4914f6cdd1dULL;
	int whole_values = 0;
	for (int round = 0; round < 20000; round++) {
		char bytes[48];
		for (size_t i = 0; i < sizeof(bytes); i++) {
			state ^= state << 13;
			state ^= state >> 7;
			state ^= state << 17;
			/* Mostly small containers, short strings and headers with a size. */
			static const unsigned char base[] = {0x80, 0x90, 0xa0, 0xc0, 0xd8, 0x00};
			bytes[i] = (char)(base[(state >> 8) % 6] + ((state >> 16) % 6));
		}
		struct verdict whole = scan_whole(bytes, sizeof(bytes));
		assert_same_verdict(bytes, sizeof(bytes), whole);
		if (whole.result == 1) {
			struct decoded d = decode_msgpack(bytes, whole.used);
			ASSERT(d.result == 0 || d.result == -EILSEQ || d.result == -EBADMSG);
			ASSERT(d.result == 0 || strcmp(d.why, "rejected by msgpack-c") != 0);
			whole_values += d.result == 0;
			release(&d);
		}
	}
	ASSERT(whole_values > 1000);
}

/* One of two equal strings, and one that only has the same prefix. */
TEST(bytes_left_out_are_left_out_once)
{
	static const char large[] = "abcdef";
	static const char expected[] = "\x93\xc4\x02"
				       "ab\xc4\x06\xc4\x06"
				       "abcdef";
	const struct box_str all = {large, 6};
	struct box_arena *arena = box_arena_new();
	struct box_value list = box_list_value();
	box_list_add(arena, &list, box_bin((struct box_str){large, 2}));
	box_list_add(arena, &list, box_bin(all));
	box_list_add(arena, &list, box_bin(all));
	struct box_buf out = box_buf(64);
	size_t at = 0;
	ASSERT_INT(box_msgpack_encode_around(&out, &list, all, &at), 0);
	ASSERT_INT(at, 7);
	ASSERT_BYTES(out.bytes, out.len, expected, sizeof(expected) - 1);
	box_buf_free(&out);
	box_arena_free(arena);
}
