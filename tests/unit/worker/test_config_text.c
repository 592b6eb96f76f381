/* Configuration texts: the values they give, and the positions of their errors. */
#include <errno.h>
#include <math.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "tests/unit/lib/test.h"
#include "worker/config_text.h"

/* A tree as one line, with the type of every scalar. */
static void show(struct box_buf *out, const struct box_value *value)
{
	switch (value->type) {
	case BOX_NULL:
		box_buf_append_str(out, "null");
		break;
	case BOX_BOOL:
		box_buf_append_str(out, value->boolean ? "true" : "false");
		break;
	case BOX_INT:
		box_buf_printf(out, "%lld", (long long)value->integer);
		break;
	case BOX_REAL:
		box_buf_printf(out, "r%g", value->real);
		break;
	case BOX_LIST:
		box_buf_append_str(out, "[");
		for (uint32_t i = 0; i < value->count; i++) {
			box_buf_append_str(out, i > 0 ? "," : "");
			show(out, &value->items[i]);
		}
		box_buf_append_str(out, "]");
		break;
	case BOX_MAP:
		box_buf_append_str(out, "{");
		for (uint32_t i = 0; i < value->count; i++) {
			box_buf_append_str(out, i > 0 ? "," : "");
			box_buf_append(out, value->pairs[i].key.bytes, value->pairs[i].key.len);
			box_buf_append_str(out, ":");
			show(out, &value->pairs[i].value);
		}
		box_buf_append_str(out, "}");
		break;
	default:
		box_buf_append_str(out, "'");
		box_buf_append(out, value->str.bytes, value->str.len);
		box_buf_append_str(out, "'");
	}
}

static void expect_tree(const char *text, size_t len, const char *wanted)
{
	struct box_arena *arena = box_arena_new();
	struct box_value map = box_null();
	struct box_err err = {0};
	struct box_buf out = box_buf(BOX_MIB);
	if (box_config_text_parse(arena, text, len, &map, &err) != 0) {
		TEST_FAIL("\"%s\" is refused: %s", text, err.text);
	}
	show(&out, &map);
	box_buf_append(&out, "", 1);
	ASSERT_STR(out.bytes, wanted);
	box_buf_free(&out);
	box_arena_free(arena);
}

static void expect_refusal(const char *text, size_t len, const char *wanted)
{
	struct box_arena *arena = box_arena_new();
	struct box_value map = box_int(7);
	struct box_err err = {0};
	int result = box_config_text_parse(arena, text, len, &map, &err);
	if (result != -EINVAL) {
		TEST_FAIL("\"%.200s\" gives %d", text, result);
	}
	ASSERT_STR(err.text, wanted);
	ASSERT_INT(err.code, BOX_ERR_VALUE);
	ASSERT_INT(map.type, BOX_INT);
	box_arena_free(arena);
}

TEST(trees)
{
	static const struct {
		const char *text;
		const char *tree;
	} rows[] = {
		{"", "{}"},
		{"# nothing\n", "{}"},
		{"---\n", "{}"},
		{"{}", "{}"},
		{"a: 1", "{a:1}"},
		{"---\na: 1\n...\n", "{a:1}"},
		{"a: 1\nb:\n  c: [x, 'y', \"z\"]\n", "{a:1,b:{c:['x','y','z']}}"},
		{"a:\n- 1\n- b: 2\n", "{a:[1,{b:2}]}"},
		{"{\"a\": {\"b\": [1, 2.5, true, null, \"x\\u00e9\\/\"]}}",
			"{a:{b:[1,r2.5,true,null,'x\xc3\xa9/']}}"},
		{"{\n\t\"a\":\t1\n}", "{a:1}"},
		{"a: &x 1", "{a:1}"},
		{"a: |\n  two\n  lines\n", "{a:'two\nlines\n'}"},
		{"1: x\ntrue: y\n", "{1:'x',true:'y'}"},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		expect_tree(rows[i].text, strlen(rows[i].text), rows[i].tree);
	}
	/* The text needs no terminating NUL, and an escaped NUL is a character. */
	expect_tree("a: 12345", 5, "{a:12}");
	struct box_arena *arena = box_arena_new();
	struct box_value map;
	struct box_err err = {0};
	ASSERT_INT(box_config_text_parse(arena, "a: \"x\\0y\"", 9, &map, &err), 0);
	ASSERT_BYTES(map.pairs[0].value.str.bytes, map.pairs[0].value.str.len, "x\0y", 3);
	box_arena_free(arena);
}

TEST(plain_scalars)
{
	static const struct {
		const char *text;
		const char *value;
	} rows[] = {
		{"", "null"},
		{"~", "null"},
		{"null", "null"},
		{"Null", "null"},
		{"NULL", "null"},
		{"nULL", "'nULL'"},
		{"true", "true"},
		{"True", "true"},
		{"TRUE", "true"},
		{"false", "false"},
		{"False", "false"},
		{"FALSE", "false"},
		{"yes", "'yes'"},
		{"no", "'no'"},
		{"on", "'on'"},
		{"off", "'off'"},
		{"0", "0"},
		{"-1", "-1"},
		{"+12", "12"},
		{"010", "10"},
		{"0o10", "8"},
		{"0x1F", "31"},
		{"0o8", "'0o8'"},
		{"0x", "'0x'"},
		{"-0x1", "'-0x1'"},
		{"1_000", "'1_000'"},
		{"9223372036854775807", "9223372036854775807"},
		{"-9223372036854775808", "-9223372036854775808"},
		{"9223372036854775808", "r9.22337e+18"},
		{"0xffffffffffffffff", "r1.84467e+19"},
		{"1.5", "r1.5"},
		{".5", "r0.5"},
		{"5.", "r5"},
		{"1e3", "r1000"},
		{"1E+3", "r1000"},
		{"-1.5e-1", "r-0.15"},
		{"1e", "'1e'"},
		{"1e400", "rinf"},
		{".", "'.'"},
		{"+", "'+'"},
		{"1.2.3", "'1.2.3'"},
		{".inf", "rinf"},
		{"-.INF", "r-inf"},
		{"+.Inf", "rinf"},
		{".NaN", "rnan"},
		{"-.nan", "'-.nan'"},
		{"inf", "'inf'"},
		{"nan", "'nan'"},
		{"\"1\"", "'1'"},
		{"'true'", "'true'"},
		{"\"\"", "''"},
		{"''", "''"},
		{"12:30", "'12:30'"},
		{"2026-01-02", "'2026-01-02'"},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		char text[128];
		char wanted[128];
		(void)snprintf(text, sizeof(text), "k: %s", rows[i].text);
		(void)snprintf(wanted, sizeof(wanted), "{k:%s}", rows[i].value);
		expect_tree(text, strlen(text), wanted);
	}
}

TEST(refusals)
{
	static const struct {
		const char *text;
		const char *refusal;
	} rows[] = {
		{"x", "1:1: the configuration must be a map"},
		{"null", "1:1: the configuration must be a map"},
		{"\"\"", "1:1: the configuration must be a map"},
		{"# a\n- 1\n", "2:1: the configuration must be a map"},
		{"a: &x 1\nb: *x\n", "2:4: aliases are not supported"},
		{"a: &x [1]\nb: {c: [*x]}\n", "2:9: aliases are not supported"},
		{"a: !!str 1", "1:4: tags are not supported"},
		{"a: ! 1", "1:4: tags are not supported"},
		{"a: !x {}", "1:4: tags are not supported"},
		{"a: !x []", "1:4: tags are not supported"},
		{"!!map {a: 1}", "1:1: tags are not supported"},
		{"!!str a: 1", "1:1: tags are not supported"},
		{"a: 1\n---\nb: 2\n", "2:1: only one document is allowed"},
		{"a: 1\nb: 2\na: 3\n", "3:1: a is defined twice"},
		{"a:\n  x: 1\n  \"x\": 2\n", "3:3: x is defined twice"},
		{"{a: 1, a: 2}", "1:8: a is defined twice"},
		{"? [1]\n: 2\n", "1:3: a key must be text"},
		{"? {}\n: 2\n", "1:3: a key must be text"},
		{"*a : 1", "1:1: a key must be text"},
		{"a: \xff\n", "1:4: invalid leading UTF-8 octet"},
		{"a: 1\nb: \x01\n", "2:4: control characters are not allowed"},
		{"a: [1\n", "2:1: did not find expected ',' or ']'"},
		{"a: 1\n b: 2\n", "2:3: mapping values are not allowed in this context"},
		{"a: \"x", "1:6: found unexpected end of stream"},
		{"a: @x", "1:4: found character that cannot start any token"},
		{"a:\n\t- 1", "2:1: found character that cannot start any token"},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		expect_refusal(rows[i].text, strlen(rows[i].text), rows[i].refusal);
	}
}

TEST(error_may_be_null)
{
	struct box_arena *arena = box_arena_new();
	struct box_value map;
	ASSERT_INT(box_config_text_parse(arena, "- 1", 3, &map, NULL), -EINVAL);
	box_arena_free(arena);
}

TEST(depth)
{
	char text[3 * BOX_MESSAGE_DEPTH_MAX + 16];
	for (size_t lists = BOX_MESSAGE_DEPTH_MAX - 2; lists < BOX_MESSAGE_DEPTH_MAX + 1; lists++) {
		struct box_arena *arena = box_arena_new();
		struct box_value map;
		struct box_err err = {0};
		put_bytes(text, "a: ", 3);
		memset(text + 3, '[', lists);
		memset(text + 3 + lists, ']', lists);
		int result = box_config_text_parse(arena, text, 3 + 2 * lists, &map, &err);
		/* The map is one level, and the innermost list is empty. */
		ASSERT_INT(result, lists < BOX_MESSAGE_DEPTH_MAX ? 0 : -EINVAL);
		if (result < 0) {
			ASSERT_STR(err.text, "1:35: nested too deeply");
		}
		box_arena_free(arena);
	}
}

TEST(sizes)
{
	size_t len = BOX_CONFIG_BYTES_MAX + 1;
	char *text = box_alloc(len);
	memset(text, ' ', len);
	expect_tree(text, len - 1, "{}");
	expect_refusal(text, len, "1:1: the configuration is longer than 1048576 bytes");
	ASSERT_INT(box_config_text_line(text, len, "a"), 0);

	/* Two bytes per value: more values than a message may have. */
	put_bytes(text, "a: [", 4);
	for (size_t i = 4; i + 1 < BOX_CONFIG_BYTES_MAX; i += 2) {
		put_bytes(text + i, "1,", 2);
	}
	struct box_arena *arena = box_arena_new();
	struct box_value map;
	struct box_err err = {0};
	ASSERT_INT(box_config_text_parse(arena, text, BOX_CONFIG_BYTES_MAX, &map, &err), -EINVAL);
	ASSERT_STR(err.text, "1:524289: too many values");
	box_arena_free(arena);

	/* Many keys in one map, the last of which repeats the first. */
	arena = box_arena_new();
	struct box_buf keys = box_buf(BOX_CONFIG_BYTES_MAX);
	for (int i = 0; i < 100000; i++) {
		box_buf_printf(&keys, "k%d:\n", i);
	}
	ASSERT_INT(box_config_text_parse(arena, keys.bytes, keys.len, &map, &err), 0);
	ASSERT_INT(map.count, 100000);
	box_buf_append_str(&keys, "k0:\n");
	ASSERT_INT(box_config_text_parse(arena, keys.bytes, keys.len, &map, &err), -EINVAL);
	ASSERT_STR(err.text, "100001:1: k0 is defined twice");
	box_buf_free(&keys);
	box_arena_free(arena);
	free(text);
}

TEST(lines)
{
	static const char text[] = "# box\n"
				   "limits:\n"
				   "  max_sessions: 5\n"
				   "  other: {max_sessions: 1, x: [\n"
				   "    {host_root: 3}]}\n"
				   "local:\n"
				   "  host_root: /a\n"
				   "  allowed_mount_roots:\n"
				   "    - /a\n"
				   "  'quoted': 1\n"
				   "a.b:\n"
				   "  c: 1\n"
				   "last: 1\n";
	static const struct {
		const char *key;
		size_t line;
	} rows[] = {
		{"limits", 2},
		{"limits.max_sessions", 3},
		{"limits.other", 4},
		{"limits.other.max_sessions", 4},
		{"limits.other.x", 4},
		{"local", 6},
		{"local.host_root", 7},
		{"local.allowed_mount_roots", 8},
		{"local.quoted", 10},
		{"a.b", 11},
		{"a.b.c", 12},
		{"last", 13},
		{"", 0},
		{"limit", 0},
		{"limits.", 0},
		{"limits.host_root", 0},
		{"host_root", 0},
		{"last.x", 0},
		{"local.host_root.x", 0},
		{"nope", 0},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		size_t line = box_config_text_line(text, strlen(text), rows[i].key);
		if (line != rows[i].line) {
			TEST_FAIL("%s is on line %zu, not %zu", rows[i].key, line, rows[i].line);
		}
	}
	ASSERT_INT(box_config_text_line("", 0, "a"), 0);
	ASSERT_INT(box_config_text_line("[a]", 3, "a"), 0);
	ASSERT_INT(box_config_text_line("a: [", 4, "b"), 0);
	ASSERT_INT(box_config_text_line("{\"a\":\n{\"b\":\n1}}", 15, "a.b"), 2);
}
