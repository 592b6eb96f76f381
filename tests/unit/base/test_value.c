/* Trees of values, and UTF-8. */
#include "base/arena.h"
#include "base/utf8.h"
#include "base/value.h"
#include "tests/unit/lib/test.h"

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

/* In memory of exactly its size, so that a read past it is detected. */
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

/* Every character whole, cut at every place inside, and hand-made surrogates. */
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
