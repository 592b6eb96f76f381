/* The small things everything stands on: arenas, buffers, value trees, UTF-8, the hash table, the
 * clock's text and errors. */
#include <errno.h>
#include <stdalign.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/table.h"
#include "base/utf8.h"
#include "base/value.h"
#include "tests/unit/test.h"

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

/* --- arena --- */

TEST(arena_alignment)
{
	struct box_arena *arena = box_arena_new();
	for (size_t size = 0; size < 300; size++) {
		(void)box_arena_bytes(arena, size % 7);
		char *memory = box_arena_alloc(arena, size);
		ASSERT_INT((uintptr_t)memory % alignof(max_align_t), 0);
		for (size_t i = 0; i < size; i++) {
			ASSERT_INT(memory[i], 0);
		}
		memset(memory, 0xff, size);
	}
	box_arena_free(arena);
	box_arena_free(NULL);
}

TEST(arena_growth)
{
	enum {
		PIECES = 3000
	};
	static char *pieces[PIECES];
	static size_t sizes[PIECES];
	struct box_arena *arena = box_arena_new();
	for (size_t i = 0; i < PIECES; i++) {
		/* Small ones, and now and then one larger than any block. */
		sizes[i] = i % 500 == 7 ? 200000 : 1 + i * 31 % 400;
		pieces[i] = box_arena_bytes(arena, sizes[i]);
		memset(pieces[i], (int)(i % 251), sizes[i]);
	}
	for (size_t i = 0; i < PIECES; i++) {
		for (size_t at = 0; at < sizes[i]; at++) {
			ASSERT_INT((unsigned char)pieces[i][at], i % 251);
		}
	}
	box_arena_free(arena);
}

TEST(arena_adopt)
{
	struct box_arena *arena = box_arena_new();
	for (int i = 0; i < 100; i++) {
		char *memory = malloc(1000);
		memory[999] = 'x';
		box_arena_adopt(arena, memory);
	}
	box_arena_adopt(arena, NULL);
	box_arena_free(arena); /* the leak checker and the double-free check say the rest */
}

TEST(arena_texts)
{
	struct box_arena *arena = box_arena_new();
	ASSERT_STR(box_arena_printf(arena, "%s-%d", "a", 7), "a-7");
	ASSERT_STR(box_arena_printf(arena, "%s", ""), "");
	char *wide = box_arena_printf(arena, "%0100000d", 5);
	ASSERT_INT(strlen(wide), 100000);
	ASSERT_INT(wide[99999], '5');
	char *copy = box_arena_strndup(arena, "a\0b", 3);
	ASSERT_BYTES(copy, 4, "a\0b", 4);
	ASSERT_STR(box_arena_strndup(arena, NULL, 0), "");
	char *own = box_strdup("own");
	ASSERT_STR(own, "own");
	free(own);
	box_arena_free(arena);
}

/* --- buf --- */

TEST(buf_limit)
{
	struct box_buf buf = box_buf(10);
	ASSERT_INT(box_buf_append(&buf, "12345", 5), 0);
	ASSERT_INT(box_buf_append(&buf, "67890", 5), 0);
	ASSERT(!buf.overflowed);
	ASSERT_INT(box_buf_append(&buf, "x", 1), -EMSGSIZE);
	ASSERT(buf.overflowed);
	ASSERT_BYTES(buf.bytes, buf.len, "1234567890", 10);
	ASSERT_INT(box_buf_append(&buf, "", 0), 0);
	box_buf_free(&buf);
	ASSERT(buf.bytes == NULL && buf.len == 0 && !buf.overflowed);
	ASSERT_INT(buf.limit, 10);
	box_buf_free(&buf);
}

TEST(buf_overflow_keeps_content)
{
	struct box_buf buf = box_buf(100);
	ASSERT_INT(box_buf_append_str(&buf, "kept"), 0);
	ASSERT_INT(box_buf_append(&buf, buf.bytes, 97), -EMSGSIZE);
	ASSERT_INT(box_buf_append(&buf, buf.bytes, SIZE_MAX), -EMSGSIZE);
	ASSERT(box_buf_reserve(&buf, SIZE_MAX - 2) == NULL);
	ASSERT_INT(box_buf_printf(&buf, "%097d", 1), -EMSGSIZE);
	ASSERT_BYTES(buf.bytes, buf.len, "kept", 4);
	ASSERT_INT(box_buf_append(&buf, "!", 1), 0);
	ASSERT_BYTES(buf.bytes, buf.len, "kept!", 5);
	box_buf_free(&buf);
}

TEST(buf_headroom)
{
	struct box_buf buf = box_buf(1 << 20);
	for (int i = 0; i < 5000; i++) {
		ASSERT_INT(box_buf_printf(&buf, "%04d ", i), 0);
		memset(buf.bytes - BOX_BUF_HEADROOM, 0xee, BOX_BUF_HEADROOM);
	}
	ASSERT_INT(buf.len, 25000);
	for (int i = 0; i < 5000; i++) {
		char expected[16];
		snprintf(expected, sizeof(expected), "%04d ", i);
		ASSERT_BYTES(buf.bytes + 5 * i, 5, expected, 5);
	}
	box_buf_free(&buf);
}

TEST(buf_printf_at_the_limit)
{
	/* 512 is also where the first room ends: the NUL of vsnprintf must find a place. */
	const size_t limits[] = {0, 1, 5, 511, 512, 513, 1024, 4096};
	for (size_t i = 0; i < COUNT(limits); i++) {
		struct box_buf buf = box_buf(limits[i]);
		ASSERT_INT(box_buf_printf(&buf, "%*s", (int)limits[i], ""), 0);
		ASSERT_INT(buf.len, limits[i]);
		ASSERT_INT(buf.limit, limits[i]);
		ASSERT(!buf.overflowed);
		ASSERT_INT(box_buf_printf(&buf, "x"), -EMSGSIZE);
		ASSERT_INT(buf.len, limits[i]);
		ASSERT(buf.overflowed);
		box_buf_free(&buf);
	}
}

TEST(buf_reserve)
{
	struct box_buf buf = box_buf(2000);
	char *place = box_buf_reserve(&buf, 2000);
	ASSERT(place != NULL);
	memset(place, 'r', 2000);
	ASSERT_INT(buf.len, 0);
	buf.len = 1500;
	ASSERT(box_buf_reserve(&buf, 501) == NULL);
	ASSERT(box_buf_reserve(&buf, 500) == buf.bytes + 1500);
	box_buf_free(&buf);
}

TEST(buf_consume)
{
	struct box_buf buf = box_buf(100);
	box_buf_consume(&buf, 0);
	ASSERT_INT(box_buf_append_str(&buf, "abcdef"), 0);
	box_buf_consume(&buf, 0);
	box_buf_consume(&buf, 2);
	ASSERT_BYTES(buf.bytes, buf.len, "cdef", 4);
	box_buf_consume(&buf, 4);
	ASSERT_INT(buf.len, 0);
	ASSERT_INT(box_buf_append_str(&buf, "again"), 0);
	ASSERT_BYTES(buf.bytes, buf.len, "again", 5);
	box_buf_free(&buf);
}

/* --- value --- */

TEST(value_map)
{
	struct box_arena *arena = box_arena_new();
	struct box_value map = box_map_value();
	for (int i = 0; i < 100; i++) {
		struct box_value *place = box_map_add(
			arena, &map, box_arena_printf(arena, "k%d", i), box_int(-1));
		*place = box_int(i);
	}
	ASSERT_INT(map.count, 100);
	ASSERT_INT(box_map_get(&map, "k0")->integer, 0);
	ASSERT_INT(box_map_get(&map, "k99")->integer, 99);
	ASSERT(box_map_get(&map, "k100") == NULL);
	ASSERT(box_map_get(&map, "k") == NULL);
	ASSERT(box_map_get(NULL, "k0") == NULL);
	struct box_value list = box_list_value();
	ASSERT(box_map_get(&list, "k0") == NULL);

	box_map_set(arena, &map, box_str("k50"), box_cstr("new"));
	box_map_set(arena, &map, box_str("fresh"), box_bool(true));
	ASSERT_INT(map.count, 101);
	ASSERT(box_str_eq(box_map_get(&map, "k50")->str, "new"));
	ASSERT(box_map_get(&map, "fresh")->boolean);
	ASSERT(box_str_eq(map.pairs[50].key, "k50")); /* a set keeps the order */

	box_map_add_str(arena, &map, (struct box_str){"n\0l", 3}, box_int(7));
	ASSERT(box_map_get(&map, "n") == NULL);
	ASSERT_INT(map.pairs[101].key.len, 3);
	box_arena_free(arena);
}

TEST(value_list_growth)
{
	struct box_arena *arena = box_arena_new();
	struct box_value list = box_list_value();
	for (int i = 0; i < 10000; i++) {
		ASSERT_INT(box_list_add(arena, &list, box_int(i))->integer, i);
	}
	ASSERT_INT(list.count, 10000);
	for (int i = 0; i < 10000; i++) {
		ASSERT_INT(list.items[i].integer, i);
	}
	box_arena_free(arena);
}

static struct box_value sample(struct box_arena *arena, char *text)
{
	struct box_value inner = box_map_value();
	box_map_add_str(arena, &inner, (struct box_str){text, 3}, box_text(box_str(text)));
	box_map_add(
		arena, &inner, "bin", (struct box_value){.type = BOX_BIN, .str = {text + 1, 2}});
	struct box_value list = box_list_value();
	box_list_add(arena, &list, inner);
	box_list_add(arena, &list, box_null());
	box_list_add(arena, &list, box_real(1.5));
	box_list_add(arena, &list, box_list_value());
	box_list_add(arena, &list, box_map_value());
	return list;
}

TEST(value_copy)
{
	struct box_arena *from = box_arena_new();
	struct box_arena *to = box_arena_new();
	char *text = box_arena_strndup(from, "text", 4);
	struct box_value source = sample(from, text);
	struct box_value copy = box_value_copy(to, &source);
	memset(text, '#', 4);
	source.items[0].pairs[0].value = box_int(1);
	source.items[2] = box_int(2);
	box_arena_free(from); /* a copy that points back is read after free below */

	ASSERT_INT(copy.count, 5);
	const struct box_value *inner = &copy.items[0];
	ASSERT(box_str_eq(inner->pairs[0].key, "tex"));
	ASSERT(box_str_eq(inner->pairs[0].value.str, "text"));
	ASSERT_INT(inner->pairs[1].value.type, BOX_BIN);
	ASSERT(box_str_eq(box_map_get(inner, "bin")->str, "ex"));
	ASSERT_INT(copy.items[1].type, BOX_NULL);
	ASSERT(copy.items[2].real == 1.5);
	ASSERT_INT(copy.items[3].type, BOX_LIST);
	ASSERT_INT(copy.items[4].type, BOX_MAP);
	box_list_add(to, &copy, box_int(3));
	box_map_add(to, &copy.items[4], "k", box_int(4));
	ASSERT_INT(copy.count, 6);
	box_arena_free(to);
}

TEST(value_strip)
{
	static const struct {
		const char *text;
		const char *stripped;
	} rows[] = {
		{"", ""},
		{" ", ""},
		{"\t\n\v\f\r ", ""},
		{"a", "a"},
		{"  a b  ", "a b"},
		{"\na\n", "a"},
		{"\xc2\xa0"
		 "a",
			"\xc2\xa0"
			"a"},
		{"a\x1c", "a\x1c"},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct box_str stripped = box_str_strip(box_str(rows[i].text));
		ASSERT_BYTES(
			stripped.bytes, stripped.len, rows[i].stripped, strlen(rows[i].stripped));
	}
	struct box_str nul = box_str_strip((struct box_str){" \0 ", 3});
	ASSERT_BYTES(nul.bytes, nul.len, "\0", 1);
	ASSERT_INT(box_str_strip((struct box_str){NULL, 0}).len, 0);
}

TEST(value_strings)
{
	ASSERT(box_str_eq(box_str("ab"), "ab"));
	ASSERT(!box_str_eq((struct box_str){"ab\0", 3}, "ab"));
	ASSERT(box_str_same((struct box_str){NULL, 0}, box_str("")));
	ASSERT(!box_str_same(box_str("a"), box_str("b")));
	ASSERT(box_str_has_nul((struct box_str){"a\0", 2}));
	ASSERT(!box_str_has_nul((struct box_str){NULL, 0}));
	ASSERT_INT(box_cstr(NULL).type, BOX_NULL);
	ASSERT_STR(box_type_name(BOX_REAL), "float");
	ASSERT_STR(box_type_name(BOX_BIN), "bytes");
}

/* --- utf8 --- */

static const char *const valid_texts[] = {"", "plain", "\x7f", "\xc2\x80", "\xdf\xbf",
	"\xe0\xa0\x80", "\xe1\x80\x80", "\xec\xbf\xbf", "\xed\x80\x80", "\xed\x9f\xbf",
	"\xee\x80\x80", "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf1\x80\x80\x80", "\xf3\xbf\xbf\xbf",
	"\xf4\x80\x80\x80", "\xf4\x8f\xbf\xbf", "a\xc3\xa9z", "\xe4\xbd\xa0\xe5\xa5\xbd",
	"\xf0\x9f\x98\x80\xf0\x9f\x98\x80", "12345678\xc3\xa9", "1234567\xc3\xa9",
	"123456789abcdef\xe4\xbd\xa0xyz"};

static const char *const invalid_texts[] = {"\x80", "\xbf", "\xc0\x80", "\xc0\xaf", "\xc1\xbf",
	"\xc2", "\xc2\x7f", "\xc2\xc0", "\xdf\xff", "\xe0\x80\x80", "\xe0\x9f\xbf", "\xe0\xa0",
	"\xe0\xa0\x7f", "\xe1\x7f\x80", "\xe1\x80\xc0", "\xed\xa0\x80", "\xed\xad\xbf",
	"\xed\xbf\xbf", "\xef\xbf", "\xf0\x80\x80\x80", "\xf0\x8f\xbf\xbf", "\xf0\x90\x80",
	"\xf0\x90\x80\x7f", "\xf0\x90\x7f\x80", "\xf4\x90\x80\x80", "\xf4\xbf\xbf\xbf",
	"\xf5\x80\x80\x80", "\xf8\x88\x80\x80\x80", "\xfc\x84\x80\x80\x80\x80", "\xfe", "\xff",
	"ok\xff", "12345678\x80", "1234567\xc3", "\xc3\xa9\xa9", "\xc3\xc3\xa9"};

/* In memory of exactly its size, so that a read behind it is seen. */
static bool valid_exact(const char *bytes, size_t len)
{
	char *exact = malloc(len ? len : 1);
	memcpy(exact, bytes, len);
	bool valid = box_utf8_valid(exact, len);
	free(exact);
	return valid;
}

TEST(utf8_valid)
{
	for (size_t i = 0; i < COUNT(valid_texts); i++) {
		if (!valid_exact(valid_texts[i], strlen(valid_texts[i]))) {
			TEST_FAIL("valid text %zu is refused", i);
		}
	}
	for (size_t i = 0; i < COUNT(invalid_texts); i++) {
		if (valid_exact(invalid_texts[i], strlen(invalid_texts[i]))) {
			TEST_FAIL("invalid text %zu is taken", i);
		}
	}
	ASSERT(valid_exact("a\0b", 3));
}

/* Every character, whole; cut at every place inside; and the surrogates, put by hand. */
TEST(utf8_every_code_point)
{
	char bytes[4];
	for (uint32_t c = 0; c <= 0x10ffff; c++) {
		if (c >= 0xd800 && c <= 0xdfff) {
			continue;
		}
		size_t len = box_utf8_put(bytes, c);
		ASSERT_INT(len, c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4);
		ASSERT(box_utf8_valid(bytes, len));
		for (size_t cut = 1; cut < len; cut++) {
			ASSERT(!box_utf8_valid(bytes, cut));
			ASSERT(!box_utf8_valid(bytes + cut, len - cut));
			ASSERT_INT(box_utf8_floor(bytes, cut), 0);
		}
		ASSERT_INT(box_utf8_floor(bytes, len), len);
	}
	for (uint32_t c = 0xd800; c <= 0xdfff; c++) {
		const char surrogate[] = {
			(char)0xed, (char)(0x80 | (c >> 6 & 0x3f)), (char)(0x80 | (c & 0x3f))};
		ASSERT(!box_utf8_valid(surrogate, 3));
	}
}

TEST(utf8_floor)
{
	const char *text = "a\xc3\xa9\xe4\xbd\xa0z\xf0\x9f\x98\x80!";
	const size_t floors[] = {0, 1, 1, 3, 3, 3, 6, 7, 7, 7, 7, 11, 12};
	ASSERT_INT(strlen(text), COUNT(floors) - 1);
	for (size_t len = 0; len < COUNT(floors); len++) {
		ASSERT_INT(box_utf8_floor(text, len), floors[len]);
		ASSERT(box_utf8_valid(text, floors[len]));
	}
}

/* --- table --- */

#define KEYS 10000

static struct box_str key_of(int i, char *room, size_t size)
{
	int len = snprintf(room, size, "key-%d", i);
	return (struct box_str){room, (size_t)len};
}

static void fill(struct box_table *table, int *numbers)
{
	char room[32];
	for (int i = 0; i < KEYS; i++) {
		ASSERT(box_table_put(table, key_of(i, room, sizeof(room)), &numbers[i]) == NULL);
	}
	ASSERT_INT(table->count, KEYS);
}

TEST(table_many)
{
	static int numbers[KEYS];
	struct box_table table = {0};
	char room[32];
	ASSERT(box_table_get(&table, box_str("x")) == NULL);
	ASSERT(box_table_remove(&table, box_str("x")) == NULL);
	fill(&table, numbers);
	for (int i = 0; i < KEYS; i++) {
		ASSERT(box_table_get(&table, key_of(i, room, sizeof(room))) == &numbers[i]);
	}
	ASSERT(box_table_put(&table, box_str("key-5"), &numbers[6]) == &numbers[5]);
	ASSERT_INT(table.count, KEYS);
	ASSERT(box_table_put(&table, box_str("key-5"), &numbers[5]) == &numbers[6]);
	for (int i = 0; i < KEYS; i += 2) {
		ASSERT(box_table_remove(&table, key_of(i, room, sizeof(room))) == &numbers[i]);
	}
	ASSERT_INT(table.count, KEYS / 2);
	for (int i = 0; i < KEYS; i++) {
		void *expected = i % 2 ? &numbers[i] : NULL;
		ASSERT(box_table_get(&table, key_of(i, room, sizeof(room))) == expected);
		ASSERT(box_table_remove(&table, key_of(i, room, sizeof(room))) == expected);
	}
	ASSERT_INT(table.count, 0);
	box_table_free(&table);
	ASSERT(table.buckets == NULL);
	box_table_free(&table);
}

/* Walks the table and removes every entry for which i % keep != 0; each must be seen once. */
static void walk_removing(int keep)
{
	static int seen[KEYS];
	struct box_table table = {0};
	struct box_str key;
	uint64_t position = 0;
	int *number;
	memset(seen, 0, sizeof(seen));
	fill(&table, seen);
	while ((number = box_table_next(&table, &position, &key))) {
		char room[32];
		int i = (int)(number - seen);
		ASSERT(box_str_same(key, key_of(i, room, sizeof(room))));
		ASSERT_INT(++*number, 1);
		if (keep == 0 || i % keep != 0) {
			ASSERT(box_table_remove(&table, key_of(i, room, sizeof(room))) == number);
		}
	}
	for (int i = 0; i < KEYS; i++) {
		ASSERT_INT(seen[i], 1);
	}
	ASSERT_INT(table.count, keep ? (KEYS + keep - 1) / keep : 0);
	ASSERT(box_table_next(&table, &position, NULL) == NULL);
	box_table_free(&table);
}

TEST(table_walk)
{
	walk_removing(1); /* removes none */
	walk_removing(2);
	walk_removing(3);
	walk_removing(0); /* removes all */
	struct box_table empty = {0};
	uint64_t position = 0;
	ASSERT(box_table_next(&empty, &position, NULL) == NULL);
}

TEST(table_odd_keys)
{
	const struct box_str keys[] = {{"", 0}, {"\0", 1}, {"\0\0", 2}, {"a", 1}, {"a\0", 2},
		{"a\0b", 3}, {"a\0c", 3}, {"12345678", 8}, {"12345678\0", 9}};
	int numbers[COUNT(keys)];
	struct box_table table = {0};
	for (size_t i = 0; i < COUNT(keys); i++) {
		ASSERT(box_table_put(&table, keys[i], &numbers[i]) == NULL);
	}
	for (size_t i = 0; i < COUNT(keys); i++) {
		ASSERT(box_table_get(&table, keys[i]) == &numbers[i]);
		ASSERT(box_table_hash(keys[i]) == box_table_hash(keys[i]));
	}
	ASSERT(box_table_get(&table, (struct box_str){NULL, 0}) == &numbers[0]);
	ASSERT(box_table_remove(&table, keys[0]) == &numbers[0]);
	ASSERT(box_table_get(&table, keys[1]) == &numbers[1]);
	ASSERT(box_table_put(&table, (struct box_str){NULL, 0}, &numbers[0]) == NULL);
	ASSERT(box_table_get(&table, keys[0]) == &numbers[0]);
	box_table_free(&table);
}

/* --- clock --- */

TEST(clock_format)
{
	static const struct {
		int64_t utc_us;
		const char *text;
	} rows[] = {
		{0, "1970-01-01T00:00:00.000000Z"},
		{1, "1970-01-01T00:00:00.000001Z"},
		{999999, "1970-01-01T00:00:00.999999Z"},
		{951782400LL * 1000000, "2000-02-29T00:00:00.000000Z"},
		{1794794100LL * 1000000 + 348528, "2026-11-16T01:55:00.348528Z"},
		{253402300799LL * 1000000 + 999999, "9999-12-31T23:59:59.999999Z"},
	};
	char text[BOX_CLOCK_TEXT];
	(void)setenv("TZ", "Asia/Shanghai", 1);
	for (size_t i = 0; i < COUNT(rows); i++) {
		box_clock_format(rows[i].utc_us, text);
		ASSERT_STR(text, rows[i].text);
	}
}

TEST(clock_runs)
{
	uint64_t us = box_clock_us();
	ASSERT(box_clock_us() >= us);
	ASSERT(box_clock_ms() >= us / 1000);
	ASSERT(box_clock_utc_us() > 1700000000LL * 1000000);
}

/* --- err --- */

#define SUFFIX "... [protocol error truncated]"

static char *filled(char *text, size_t len, const char *with)
{
	for (size_t at = 0; at < len; at++) {
		text[at] = with[at % strlen(with)];
	}
	text[len] = '\0';
	return text;
}

TEST(err_cut)
{
	static char text[5 * BOX_ERROR_TEXT_MAX];
	static char expected[5 * BOX_ERROR_TEXT_MAX];
	struct box_err err;
	ASSERT_INT(box_err_set(&err, BOX_ERR_BOX, EIO, "%s", filled(text, 4096, "a")), -EIO);
	ASSERT_STR(err.text, text);
	(void)box_err_set(&err, BOX_ERR_BOX, EIO, "%s", filled(text, 4097, "a"));
	(void)snprintf(expected, sizeof(expected), "%.4096s%s", text, SUFFIX);
	ASSERT_STR(err.text, expected);

	/* Characters of 2, 3 and 4 bytes behind 0 to 3 of one byte: always 4,096 are kept. */
	static const char *const wide[] = {"\xc3\xa9", "\xe4\xbd\xa0", "\xf0\x9f\x98\x80"};
	for (size_t i = 0; i < COUNT(wide); i++) {
		for (size_t before = 0; before < 4; before++) {
			size_t unit = strlen(wide[i]);
			size_t kept = before + (BOX_ERROR_TEXT_MAX - before) * unit;
			filled(text, before, "a");
			filled(text + before, BOX_ERROR_TEXT_MAX * unit, wide[i]);
			(void)box_err_set(&err, BOX_ERR_BOX, EIO, "%s", text);
			if (before == 0) {
				ASSERT_STR(err.text, text);
				continue;
			}
			(void)snprintf(
				expected, sizeof(expected), "%.*s%s", (int)kept, text, SUFFIX);
			ASSERT_STR(err.text, expected);
			ASSERT(box_utf8_valid(err.text, strlen(err.text)));
		}
	}
}

TEST(err_set)
{
	struct box_err err;
	ASSERT_INT(box_err_set(&err, BOX_ERR_KEY, EINVAL, "'%s'", "x"), -EINVAL);
	ASSERT_INT(err.code, BOX_ERR_KEY);
	ASSERT_INT(err.errnum, EINVAL);
	ASSERT_STR(err.text, "'x'");
	ASSERT_INT(box_err_set(NULL, BOX_ERR_KEY, EPERM, "x"), -EPERM);
}

TEST(err_names)
{
	static const char *const names[] = {"BoxError", "BoxValidationError",
		"BoxBackendUnavailableError", "BoxRuntimeUnavailableError", "BoxAdmissionError",
		"BoxReadinessError", "BoxCapacityExceededError", "BoxSessionConflictError",
		"BoxSessionNotFoundError", "BoxManagedProcessConflictError",
		"BoxManagedProcessNotFoundError", "PermissionError", "ValueError",
		"ValidationError", "KeyError", "OSError"};
	size_t named = 0;
	for (size_t i = 0; i < COUNT(names); i++) {
		enum box_code code = box_code_from_name(names[i]);
		ASSERT(code != BOX_ERR_NONE);
		ASSERT_STR(box_code_name(code), names[i]);
	}
	for (int code = 0; code < BOX_ERR_CODES_; code++) {
		const char *name = box_code_name((enum box_code)code);
		if (name) {
			named++;
			ASSERT_INT(box_code_from_name(name), code);
		}
	}
	ASSERT_INT(named, COUNT(names));
	ASSERT(box_code_name(BOX_ERR_NONE) == NULL);
	ASSERT(box_code_name(BOX_ERR_BUSY) == NULL);
	ASSERT_INT(box_code_from_name(""), BOX_ERR_NONE);
	ASSERT_INT(box_code_from_name("boxerror"), BOX_ERR_NONE);
}
