/* JSON at its limits: strings, numbers, depth, counts, keys and buffer sizes. */
#include <errno.h>
#include <math.h>
#include <time.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "codec/json.h"
#include "tests/unit/lib/decoded.h"

TEST(lone_surrogates_become_replacement_characters)
{
#define R "\xef\xbf\xbd"
	static const struct {
		const char *text;
		const char *bytes;
	} table[] = {
		{"\"\\ud800\"", R},
		{"\"\\udc00\"", R},
		{"\"a\\ud800b\"", "a" R "b"},
		{"\"\\ud800\\ud800\\udc00\"", R "\xf0\x90\x80\x80"},
		{"\"\\ud800\\u0041\"", R "A"},
		{"\"\\udc00\\ud800\"", R R},
		{"\"\\ud83d\\n\"", R "\n"},
		{"\"\\udbff\\udfff\"", "\xf4\x8f\xbf\xbf"},
	};
	for (size_t i = 0; i < COUNT(table); i++) {
		struct decoded d = decode_json(table[i].text, strlen(table[i].text));
		ASSERT_INT(d.result, 0);
		ASSERT_INT(d.value.type, BOX_STR);
		ASSERT_BYTES(
			d.value.str.bytes, d.value.str.len, table[i].bytes, strlen(table[i].bytes));
		release(&d);
	}
}

TEST(strings_stay_in_the_text)
{
	char text[] = "{\"plain\":\"value\",\"k\\u0065y\":\"a\\tb\"}";
	struct box_arena *arena = box_arena_new();
	struct box_value value;
	const char *why;
	ASSERT_INT(box_json_decode(arena, text, sizeof(text) - 1, &value, &why), 0);
	ASSERT_INT(value.count, 2);
	ASSERT(value.pairs[0].key.bytes == text + 2);
	ASSERT(value.pairs[0].value.str.bytes == text + 10);
	ASSERT(value.pairs[1].key.bytes == text + 18);
	ASSERT_BYTES(value.pairs[1].key.bytes, value.pairs[1].key.len, "key", 3);
	ASSERT_BYTES(value.pairs[1].value.str.bytes, value.pairs[1].value.str.len, "a\tb", 3);
	box_arena_free(arena);
}

/* A string of `len` characters, with the one at `at` escaped; `at` == `len`: none. */
static void check_string(size_t len, size_t at)
{
	char text[64];
	char plain[64];
	size_t n = 0;
	text[n++] = '"';
	for (size_t i = 0; i < len; i++) {
		plain[i] = i == at ? '\n' : i % 3 ? 'x' : '\x7f';
		if (i == at) {
			text[n++] = '\\';
		}
		text[n++] = i == at ? 'n' : plain[i];
	}
	text[n++] = '"';
	struct decoded d = decode_json(text, n);
	ASSERT_INT(d.result, 0);
	ASSERT_BYTES(d.value.str.bytes, d.value.str.len, plain, len);
	assert_encodes(&d.value, text, n);
	release(&d);
	if (at < len) {
		text[at + 1] = '\x1f';
		d = decode_json(text, n);
		ASSERT_INT(d.result, -EBADMSG);
		release(&d);
	}
}

/* An escape or the end at every offset from the 8-byte steps of the string scan. */
TEST(every_alignment_of_a_string)
{
	for (size_t len = 0; len < 40; len++) {
		for (size_t at = 0; at <= len; at++) {
			check_string(len, at);
		}
	}
}

TEST(reals_are_short_and_exact)
{
	static const struct {
		double real;
		const char *text;
	} table[] = {
		{0.0, "0.0"},
		{-0.0, "-0.0"},
		{1.0, "1.0"},
		{-1.5, "-1.5"},
		{0.1, "0.1"},
		{0.3, "0.3"},
		{0.1 + 0.2, "0.30000000000000004"},
		{1.0 / 3.0, "0.3333333333333333"},
		{100000.0, "100000.0"},
		{1e14, "100000000000000.0"},
		{1e15, "1e+15"},
		{1e22, "1e+22"},
		{1e-7, "1e-07"},
		{123456.789, "123456.789"},
		{9007199254740993.0, "9007199254740992.0"},
		{5e-324, "5e-324"},
		{2.2250738585072014e-308, "2.2250738585072014e-308"},
		{1.7976931348623157e308, "1.7976931348623157e+308"},
		{INFINITY, "null"},
		{-INFINITY, "null"},
		{NAN, "null"},
	};
	for (size_t i = 0; i < COUNT(table); i++) {
		struct box_value value = box_real(table[i].real);
		assert_encodes(&value, table[i].text, strlen(table[i].text));
	}
	uint64_t bits = 88172645463325252ULL;
	for (int i = 0; i < 20000; i++) {
		bits ^= bits << 13;
		bits ^= bits >> 7;
		bits ^= bits << 17;
		double real;
		memcpy(&real, &bits, sizeof(real));
		if (!isfinite(real)) {
			continue;
		}
		struct box_buf out = box_buf(64);
		struct box_value value = box_real(real);
		ASSERT_INT(box_json_encode(&out, &value), 0);
		struct decoded d = decode_json(out.bytes, out.len);
		ASSERT_INT(d.result, 0);
		ASSERT_INT(d.value.type, BOX_REAL);
		ASSERT(same_real(d.value.real, real));
		release(&d);
		box_buf_free(&out);
	}
}

TEST(long_numbers)
{
	static char text[200000];
	memset(text, '1', sizeof(text));
	struct decoded d = decode_json(text, sizeof(text));
	ASSERT_STR(d.why, "number out of range");
	release(&d);
	text[1] = '.';
	d = decode_json(text, sizeof(text));
	ASSERT_INT(d.result, 0);
	ASSERT(d.value.type == BOX_REAL && d.value.real > 1.11 && d.value.real < 1.12);
	release(&d);
	d = decode_json(text, 63);
	ASSERT_INT(d.result, 0);
	release(&d);
	d = decode_json(text, 64);
	ASSERT_INT(d.result, 0);
	release(&d);
}

static size_t nested(
	char *text, size_t depth, const char *open, const char *core, const char *close)
{
	char *at = text;
	for (size_t i = 0; i < depth; i++) {
		at = stpcpy(at, open);
	}
	at = stpcpy(at, core);
	for (size_t i = 0; i < depth; i++) {
		at = stpcpy(at, close);
	}
	return (size_t)(at - text);
}

TEST(depth_is_bounded)
{
	static const struct {
		const char *open, *core, *close;
	} table[] = {
		{"[", "", "]"}, {"[", "1", "]"}, {"{\"a\":", "1", "}"}, {"[{\"a\":", "1", "}]"}};
	for (size_t i = 0; i < COUNT(table); i++) {
		char text[1024];
		size_t each = i == 3 ? 2 : 1;
		size_t most = BOX_MESSAGE_DEPTH_MAX / each;
		struct decoded d = decode_json(
			text, nested(text, most, table[i].open, table[i].core, table[i].close));
		ASSERT_INT(d.result, 0);
		release(&d);
		d = decode_json(
			text, nested(text, most + 1, table[i].open, table[i].core, table[i].close));
		ASSERT_INT(d.result, -E2BIG);
		ASSERT_STR(d.why, "too deep");
		release(&d);
	}
	static char open[1000000];
	memset(open, '[', sizeof(open));
	struct decoded d = decode_json(open, sizeof(open));
	ASSERT_INT(d.result, -E2BIG);
	release(&d);
	/* Depth counts open containers, not all containers so far. */
	struct box_buf wide = box_buf(BOX_MIB);
	ASSERT_INT(box_buf_append_str(&wide, "[[]"), 0);
	for (int i = 0; i < 100; i++) {
		ASSERT_INT(box_buf_append_str(&wide, ",[{}]"), 0);
	}
	ASSERT_INT(box_buf_append_str(&wide, "]"), 0);
	d = decode_json(wide.bytes, wide.len);
	ASSERT_INT(d.result, 0);
	release(&d);
	box_buf_free(&wide);
}

TEST(values_are_counted)
{
	static char text[BOX_MESSAGE_VALUES_MAX * 2 + 2];
	/* The list itself is a value, too. */
	for (size_t members = BOX_MESSAGE_VALUES_MAX - 1; members <= BOX_MESSAGE_VALUES_MAX;
		members++) {
		size_t n = 0;
		text[n++] = '[';
		for (size_t i = 0; i < members; i++) {
			text[n++] = '1';
			text[n++] = i + 1 < members ? ',' : ']';
		}
		struct decoded d = decode_json(text, n);
		ASSERT_INT(d.result, members < BOX_MESSAGE_VALUES_MAX ? 0 : -E2BIG);
		ASSERT(d.result < 0 || d.value.count == members);
		release(&d);
	}
}

static struct decoded decode_many_keys(uint32_t count, uint32_t repeated)
{
	struct box_buf out = box_buf(BOX_MESSAGE_BYTES_MAX);
	for (uint32_t i = 0; i < count; i++) {
		ASSERT_INT(box_buf_printf(&out, "%s\"key%u\":%u", i ? "," : "{",
				   i == count - 1 ? repeated : i, i),
			0);
	}
	ASSERT_INT(box_buf_append_str(&out, "}"), 0);
	struct decoded d = decode_json(out.bytes, out.len);
	box_buf_free(&out);
	return d;
}

TEST(a_key_twice_is_found_in_maps_of_any_size)
{
	static const uint32_t counts[] = {2, 3, 15, 16, 17, 18, 31, 32, 33, 64, 65, 1000, 50000};
	for (size_t i = 0; i < COUNT(counts); i++) {
		struct decoded d = decode_many_keys(counts[i], counts[i] - 1);
		ASSERT_INT(d.result, 0);
		ASSERT_INT(d.value.count, counts[i]);
		ASSERT_INT(d.value.pairs[counts[i] - 1].value.integer, counts[i] - 1);
		release(&d);
		uint32_t repeated[] = {0, counts[i] / 2, counts[i] - 2};
		for (size_t j = 0; j < COUNT(repeated); j++) {
			if (repeated[j] == counts[i] - 1) {
				continue;
			}
			d = decode_many_keys(counts[i], repeated[j]);
			ASSERT_INT(d.result, -EBADMSG);
			ASSERT_STR(d.why, "duplicate map key");
			release(&d);
		}
	}
}

/* The largest possible map. Comparing all pairs would take minutes. */
TEST(many_keys_take_linear_time)
{
	clock_t before = clock();
	struct decoded d = decode_many_keys(BOX_MESSAGE_VALUES_MAX - 1, BOX_MESSAGE_VALUES_MAX - 2);
	ASSERT_INT(d.result, 0);
	ASSERT((clock() - before) / CLOCKS_PER_SEC < 10);
	release(&d);
}

TEST(the_limit_of_the_buffer_holds)
{
	struct decoded d = decode_json("{\"a\":[1,true,\"x\\n\",1.5]}", 24);
	const char *back = "{\"a\":[1,true,\"x\\n\",1.5]}";
	ASSERT_INT(d.result, 0);
	for (size_t limit = 0; limit <= 24; limit++) {
		struct box_buf out = box_buf(limit + 1);
		ASSERT_INT(box_buf_append(&out, "#", 1), 0);
		int r = box_json_encode(&out, &d.value);
		ASSERT_INT(r, limit < 24 ? -EMSGSIZE : 0);
		ASSERT_INT(out.len, r < 0 ? 1 : 25);
		ASSERT(r < 0 || memcmp(out.bytes + 1, back, 24) == 0);
		box_buf_free(&out);
	}
	release(&d);
	struct box_buf out = box_buf(4);
	ASSERT_INT(box_json_encode_str(&out, box_str("abc")), -EMSGSIZE);
	ASSERT_INT(out.len, 0);
	ASSERT_INT(box_json_encode_str(&out, box_str("ab")), 0);
	ASSERT_BYTES(out.bytes, out.len, "\"ab\"", 4);
	box_buf_free(&out);
}

TEST(what_json_has_no_word_for)
{
	struct box_value bin = {.type = BOX_BIN, .str = {"\x00\xff\x10", 3}};
	assert_encodes(&bin, "\"AP8Q\"", 6);
	bin.str = (struct box_str){NULL, 0};
	assert_encodes(&bin, "\"\"", 2);
	struct box_value empty = box_text((struct box_str){NULL, 0});
	assert_encodes(&empty, "\"\"", 2);
	struct box_value least = box_int(INT64_MIN);
	assert_encodes(&least, "-9223372036854775808", 20);
}
