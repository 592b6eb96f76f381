/* The pure parts of the skill store: names, Python's text rules, front matter, the published format. */
#include <errno.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/limits.h"
#include "skills/store/names.h"
#include "skills/text/conform.h"
#include "skills/text/front_matter.h"
#include "skills/text/pytext.h"
#include "tests/unit/lib/test.h"

static struct box_err err;

TEST(names_are_letters_digits_hyphens_and_underscores)
{
	struct box_str name;
	static const char *const good[] = {"a", "A-b_9", "技能", " trimmed ", "é", "²"};
	static const char *const bad[] = {"", " ", "-", "a b", "a/b", "..", "a.b", "😀", "a\n b"};
	for (size_t i = 0; i < COUNT(good); i++) {
		ASSERT_INT(box_names_check(box_str(good[i]), &name, &err), 0);
	}
	for (size_t i = 0; i < COUNT(bad); i++) {
		ASSERT_INT(box_names_check(box_str(bad[i]), &name, &err), -EINVAL);
	}
	char longest[BOX_SKILL_NAME_MAX + 2];
	memset(longest, 'x', sizeof(longest));
	ASSERT_INT(box_names_check((struct box_str){longest, BOX_SKILL_NAME_MAX}, &name, &err), 0);
	ASSERT_INT(box_names_check((struct box_str){longest, BOX_SKILL_NAME_MAX + 1}, &name, &err),
		-EINVAL);
	ASSERT_STR(err.text, "Skill name cannot exceed 64 characters");
}

TEST(namespaces_are_one_folder)
{
	ASSERT(box_names_is_namespace("ws-0123"));
	static const char *const bad[] = {"", ".", "..", "a/b", "a\\b", "/"};
	for (size_t i = 0; i < COUNT(bad); i++) {
		ASSERT(!box_names_is_namespace(bad[i]));
	}
}

TEST(paths_are_normalised_as_python_does)
{
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	static const char *const rows[][2] = {{"", "."}, {"a", "a"}, {"a/", "a"}, {"a//b", "a/b"},
		{"./a/./b", "a/b"}, {"a/..", "."}, {"a/../..", ".."}, {"../a", "../a"},
		{"a/../../b/..", ".."}, {"/", "/"}, {"//a", "//a"}, {"///a", "/a"}, {"/..", "/"},
		{"/a/../../b", "/b"}, {"../../a/../b", "../../b"}, {"..a", "..a"},
		{"a/...", "a/..."}};
	for (size_t i = 0; i < COUNT(rows); i++) {
		ASSERT_STR(box_names_normpath(arena, box_str(rows[i][0])), rows[i][1]);
	}
}

TEST(a_host_path_is_below_the_root_or_not)
{
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	ASSERT_STR(box_names_below(arena, box_str("/r/t/a/b"), "/r/t"), "a/b");
	ASSERT_STR(box_names_below(arena, box_str("/r/t"), "/r/t"), "");
	ASSERT_STR(box_names_below(arena, box_str("//r//x/../t/a/"), "/r/t"), "a");
	static const char *const out[] = {"/r/tx", "/r", "/", "", "r/t/a", "/r/t/../u", "/r/t/.."};
	for (size_t i = 0; i < COUNT(out); i++) {
		ASSERT(!box_names_below(arena, box_str(out[i]), "/r/t"));
	}
}

TEST(targets_of_uploads)
{
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	static const char *const stems[][2] = {{"skill.zip", "skill"},
		{"My Skill (1).zip", "My-Skill--1"}, {"../x/技能.zip", "技能"}, {".zip", "zip"},
		{"", "uploaded-skill"}, {"___.zip", "uploaded-skill"}, {"a.tar.gz", "a-tar"},
		{"...", "uploaded-skill"}};
	for (size_t i = 0; i < COUNT(stems); i++) {
		struct box_str stem = box_names_stem(arena, box_str(stems[i][0]));
		ASSERT_BYTES(stem.bytes, stem.len, stems[i][1], strlen(stems[i][1]));
	}
	static const char *const rows[][4] = {{"s", "", "upload", "s-upload"},
		{"s", "a/b", "u", "s-b-u"}, {"s", "s", "u", "s-u"}, {"s", "a", "", "s-a"},
		{"s", "", "", "s"}};
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct box_str target = box_names_target(
			arena, box_str(rows[i][0]), box_str(rows[i][1]), box_str(rows[i][2]));
		ASSERT_STR(target.bytes, rows[i][3]);
	}
}

TEST(times_are_rounded_by_way_of_a_float)
{
	char text[BOX_PYTEXT_ISOFORMAT_SIZE];
	static const struct {
		int64_t sec;
		uint32_t nsec;
		const char *text;
	} rows[] = {
		{0, 0, "1970-01-01T00:00:00+00:00"},
		{1700000000, 123456789, "2023-11-14T22:13:20.123457+00:00"},
		{1700000000, 999999900, "2023-11-14T22:13:21+00:00"},
		{1700000000, 100, "2023-11-14T22:13:20+00:00"},
		{-2, 500000000, "1969-12-31T23:59:58.500000+00:00"},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		ASSERT(box_pytext_isoformat(rows[i].sec, rows[i].nsec, text));
		ASSERT_STR(text, rows[i].text);
	}
	ASSERT(!box_pytext_isoformat(300000000000LL, 0, text));
	ASSERT(!box_pytext_isoformat(-70000000000LL, 0, text));
}

/* The description of a SKILL.md with this scalar, or NULL when the YAML is invalid. */
static const char *description_of(struct box_arena *arena, const char *scalar)
{
	struct box_front_matter front;
	struct box_str text;
	const char *whole = box_arena_printf(arena, "---\ndescription: %s\n---\n", scalar);
	if (box_front_matter_read(arena, box_str(whole), &front, &err) < 0) {
		return NULL;
	}
	ASSERT_INT(box_front_matter_text(arena, box_yaml_get(&front.meta, "description"),
			   "description", box_str("fallback"), &text, &err),
		0);
	return box_arena_strndup(arena, text.bytes, text.len);
}

TEST(scalars_are_the_text_that_was_written)
{
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	static const char *const rows[][2] = {{"plain", "plain"}, {"'quoted'", "quoted"},
		{"\"a\\tb\"", "a\tb"}, {"1.50", "1.50"}, {"0x1F", "0x1F"}, {"017", "017"},
		{"yes", "yes"}, {"false", "false"}, {"0", "0"}, {"2024-01-02", "2024-01-02"},
		{"2024-13-45", "2024-13-45"}, {"1_000", "1_000"}, {".inf", ".inf"}, {"=", "="},
		{"!!str 5", "5"}, {"!!int '5'", "5"}, {"! x", "x"}, {"", "fallback"},
		{"~", "fallback"}, {"null", "fallback"}, {"''", "fallback"}, {"[]", "fallback"},
		{"{}", "fallback"}, {"!!null x", "fallback"}, {"'null'", "null"},
		{"[a, 1, null, [b]]", "[a, 1, null, [b]]"},
		{"{a: 1, b: {c: d}}", "{a: 1, b: {c: d}}"}};
	for (size_t i = 0; i < COUNT(rows); i++) {
		ASSERT_STR(description_of(arena, rows[i][0]), rows[i][1]);
	}
	ASSERT(!description_of(arena, "!foo x"));
	ASSERT(!description_of(arena, "*nobody"));
	ASSERT(!description_of(arena, "[open"));
}

TEST(fields_are_written_plain_where_every_reader_takes_them_for_text)
{
	static const char *const rows[][2] = {{"two words", "two words"}, {"it's", "it's"},
		{"\u6280\u80fd", "\u6280\u80fd"}, {" trimmed ", "trimmed"}, {"a:b", "a:b"},
		{"yes", "\"yes\""}, {"NULL", "\"NULL\""}, {"5", "\"5\""},
		{"2024-01-02", "\"2024-01-02\""}, {"key: value", "\"key: value\""},
		{"end:", "\"end:\""}, {"a #b", "\"a #b\""}, {"- x", "\"- x\""}, {"---", "\"---\""},
		{"a\nb", "\"a\\nb\""}, {"a\"b\\", "a\"b\\"}, {"\"b\\", "\"\\\"b\\\\\""},
		{"a\x07", "\"a\\u0007\""}, {"a\u2028b", "\"a\\u2028b\""},
		{"\U0001f600", "\"\U0001f600\""}};
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct box_buf out = box_buf(1024);
		struct box_buf wanted = box_buf(1024);
		const struct box_front_matter_fields fields = {
			box_str("name"), box_str(" "), box_str(rows[i][0])};
		ASSERT_INT(box_front_matter_write(&out, &fields, box_str("body")), 0);
		(void)box_buf_printf(
			&wanted, "---\nname: name\ndescription: %s\n---\n\nbody", rows[i][1]);
		ASSERT_BYTES(out.bytes, out.len, wanted.bytes, wanted.len);
		box_buf_free(&out);
		box_buf_free(&wanted);
	}
	struct box_buf out = box_buf(1024);
	const struct box_front_matter_fields none = {{NULL, 0}, {NULL, 0}, {NULL, 0}};
	ASSERT_INT(box_front_matter_write(&out, &none, box_str("body")), 0);
	ASSERT_BYTES(out.bytes, out.len, "body", 4);
	box_buf_free(&out);
}

TEST(front_matter_is_cut_off)
{
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	struct box_front_matter front;
	static const struct {
		const char *text, *instructions;
		size_t fields;
	} rows[] = {
		{"", "", 0},
		{"# x\n", "# x\n", 0},
		{"---\na: 1\nb: 2\n---\n\n\nbody\n", "body\n", 2},
		{"---\r\na: 1\r\n---\r\nbody", "body", 1},
		{"---\na: 1\n", "---\na: 1\n", 0},
		{"--- x\na: 1\n---\n", "--- x\na: 1\n---\n", 0},
		{"---\n---", "", 0},
		{"---\n- a\n---\nx", "x", 0},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		ASSERT_INT(box_front_matter_read(arena, box_str(rows[i].text), &front, &err), 0);
		ASSERT_BYTES(front.instructions.bytes, front.instructions.len, rows[i].instructions,
			strlen(rows[i].instructions));
		ASSERT_INT(front.meta.count, rows[i].fields);
	}
	ASSERT_INT(box_front_matter_read(arena, box_str("---\na: 1\nname: [\n---\n"), &front, &err),
		-EINVAL);
	ASSERT(strstr(err.text, "field \"name\", line "));
}

static struct box_value warnings_of(struct box_arena *arena, const char *text, const char *folder)
{
	struct box_front_matter front;
	ASSERT_INT(box_front_matter_read(arena, box_str(text), &front, &err), 0);
	return box_conform_check(arena, &front, folder);
}

TEST(the_published_format)
{
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	ASSERT_INT(warnings_of(arena, "---\nname: a-b\ndescription: x\nlicense: MIT\n---\n", "a-b")
			   .count,
		0);
	static const struct {
		const char *text, *field, *message;
	} rows[] = {
		{"no front matter", "front matter", "is required"},
		{"---\n- a\n---\n", "front matter", "must be a map"},
		{"---\nname: a-b\n---\n", "description", "is required"},
		{"---\ndescription: x\n---\n", "name", "is required"},
		{"---\nname: a-b\ndescription: ''\n---\n", "description",
			"must be a non-empty string"},
		{"---\nname: A-b\ndescription: x\n---\n", "name", "must be lowercase"},
		{"---\nname: a_b\ndescription: x\n---\n", "name",
			"only letters, digits and hyphens are allowed"},
		{"---\nname: a-b\ndescription: x\ndisplay_name: y\n---\n", "display_name",
			"is not a field of the format"},
		{"---\nname: a-b\ndescription: x\ncompatibility: [y]\n---\n", "compatibility",
			"must be a string"},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct box_value list = warnings_of(arena, rows[i].text, "a-b");
		ASSERT(list.count > 0);
		const struct box_value *field = box_map_get(&list.items[0], "field");
		const struct box_value *message = box_map_get(&list.items[0], "message");
		ASSERT_BYTES(
			field->str.bytes, field->str.len, rows[i].field, strlen(rows[i].field));
		ASSERT_STR(message->str.bytes, rows[i].message);
	}
}
