/* Where a copy goes: the rules of `docker cp`, one row each. */
#include <errno.h>

#include "cli/copy/copy_rules.h"
#include "tests/unit/lib/test.h"

#define NONE BOX_COPY_NOTHING
#define FILE_ BOX_COPY_FILE
#define FOLDER BOX_COPY_FOLDER
#define LONGEST                                                                                    \
	NAME16 NAME16 NAME16 NAME16 NAME16 NAME16 NAME16 NAME16 NAME16 NAME16 NAME16 NAME16 NAME16 \
		NAME16 NAME16 "123456789012345"
#define NAME16 "1234567890123456"

TEST(rules)
{
	static const struct {
		const char *from;
		const char *to;
		enum box_copy_rules_kind from_kind;
		enum box_copy_rules_kind to_kind;
		bool has_parent;
		int r;
		const char *folder;
		const char *name;
	} rows[] = {
		{"a/f", "b/g", FILE_, NONE, true, 0, "b", "g"},
		{"a/f", "g", FILE_, NONE, true, 0, ".", "g"},
		{"a/f", "/g", FILE_, NONE, true, 0, "/", "g"},
		{"a/f", "b/g", FILE_, NONE, false, -ENOENT, NULL, NULL},
		{"a/f", "b/g/", FILE_, NONE, true, -ENOENT, NULL, NULL},
		{"a/f", "b/g", FILE_, FILE_, true, 0, "b", "g"},
		{"a/f", "b/g/", FILE_, FILE_, true, -ENOTDIR, NULL, NULL},
		{"a/f", "b", FILE_, FOLDER, true, 0, "b", "f"},
		{"a/f", "b/", FILE_, FOLDER, true, 0, "b/", "f"},
		{"a/f/", "b", FILE_, FOLDER, true, -ENOTDIR, NULL, NULL},
		{"a/d", "b/e", FOLDER, NONE, true, 0, "b", "e"},
		{"a/d", "b/e/", FOLDER, NONE, true, 0, "b", "e"},
		{"a/d", "b/e", FOLDER, NONE, false, -ENOENT, NULL, NULL},
		{"a/d/.", "b/e", FOLDER, NONE, true, 0, "b", "e"},
		{"a/d", "b/e", FOLDER, FILE_, true, -ENOTDIR, NULL, NULL},
		{"a/d", "b", FOLDER, FOLDER, true, 0, "b", "d"},
		{"a/d/", "b", FOLDER, FOLDER, true, 0, "b", "d"},
		{"a/d/.", "b", FOLDER, FOLDER, true, 0, "b", NULL},
		{".", "b", FOLDER, FOLDER, true, 0, "b", NULL},
		{"/", "b", FOLDER, FOLDER, true, 0, "b", NULL},
		{"a/..", "b", FOLDER, FOLDER, true, 0, "b", NULL},
		/* A box claims that these are files: no file name can be derived from them. */
		{"a/..", "b", FILE_, FOLDER, true, -ENOTDIR, NULL, NULL},
		{"a/..", "b/g", FILE_, NONE, true, -ENOTDIR, NULL, NULL},
		{"a/..", "b/g", FILE_, FILE_, true, -ENOTDIR, NULL, NULL},
		{"a/.", "b", FILE_, FOLDER, true, -ENOTDIR, NULL, NULL},
		{"..", "b", FILE_, FOLDER, true, -ENOTDIR, NULL, NULL},
		{"/", "b", FILE_, FOLDER, true, -ENOTDIR, NULL, NULL},
		{"a/d", "b", NONE, FOLDER, true, -ENOENT, NULL, NULL},
		{"a/d", LONGEST, FOLDER, NONE, true, 0, ".", LONGEST},
		{"a/d", LONGEST "6", FOLDER, NONE, true, -ENAMETOOLONG, NULL, NULL},
		{"a/" LONGEST "6", "b", FOLDER, FOLDER, true, -ENAMETOOLONG, NULL, NULL},
		{"a/" LONGEST "6", "b/g", FILE_, FILE_, true, 0, "b", "g"},
		{"-", "b", BOX_COPY_STREAM, FOLDER, true, 0, "b", NULL},
		{"-", "b", BOX_COPY_STREAM, FILE_, true, -ENOTDIR, NULL, NULL},
		{"-", "b", BOX_COPY_STREAM, NONE, true, -ENOTDIR, NULL, NULL},
	};
	struct box_arena *arena = box_arena_new();
	for (size_t i = 0; i < COUNT(rows); i++) {
		const struct box_copy_rules_end from = {
			.path = rows[i].from, .kind = rows[i].from_kind};
		const struct box_copy_rules_end to = {
			rows[i].to, rows[i].to_kind, rows[i].has_parent};
		struct box_copy_rules_target way = {0};
		struct box_err err;
		int r = box_copy_rules_resolve(arena, &from, &to, &way, &err);
		if (r != rows[i].r) {
			TEST_FAIL("row %zu: %d", i, r);
		}
		if (r == 0) {
			ASSERT_STR(way.folder, rows[i].folder);
			ASSERT((way.name == NULL) == (rows[i].name == NULL));
			ASSERT(!way.name || strcmp(way.name, rows[i].name) == 0);
		}
	}
	box_arena_free(arena);
}

TEST(a_box_of_another_workspace)
{
	static const struct {
		const char *text;
		const char *name;
		const char *path;
	} rows[] = {{"w/b:/a", "w/b", "/a"}, {"w/b:a:b/c", "w/b", "a:b/c"},
		{"w/x/b:a", "w/x/b", "a"}, {"/b:a", "/b", "a"}, {"b:a", NULL, NULL},
		{"b:/a/c", NULL, NULL}, {"./b:a", NULL, NULL}, {"../b:a", NULL, NULL},
		{"/tmp/b:a", NULL, NULL}, {"w/:a", NULL, NULL}, {"w/b", NULL, NULL},
		{":w/b", NULL, NULL}};
	struct box_arena *arena = box_arena_new();
	for (size_t i = 0; i < COUNT(rows); i++) {
		const char *name = NULL;
		const char *path = NULL;
		if (box_copy_rules_split_qualified(arena, rows[i].text, &name, &path) !=
			(rows[i].name != NULL)) {
			TEST_FAIL("%s", rows[i].text);
		}
		if (name) {
			ASSERT_STR(name, rows[i].name);
			ASSERT_STR(path, rows[i].path);
		}
	}
	box_arena_free(arena);
}

TEST(which_side)
{
	static const struct {
		const char *text;
		const char *session;
		const char *path;
	} rows[] = {{"s:/a", "s", "/a"}, {"s:a:b", "s", "a:b"}, {"s:", "s", ""}, {"a", NULL, NULL},
		{"./s:a", NULL, NULL}, {"/s:a", NULL, NULL}, {"a/s:a", NULL, NULL},
		{":a", NULL, NULL}, {"-", NULL, NULL}, {"../s:a", NULL, NULL}};
	struct box_arena *arena = box_arena_new();
	for (size_t i = 0; i < COUNT(rows); i++) {
		const char *session = NULL;
		const char *path = NULL;
		bool is = box_copy_rules_split(arena, rows[i].text, &session, &path);
		ASSERT(is == (rows[i].session != NULL));
		if (is) {
			ASSERT_STR(session, rows[i].session);
			ASSERT_STR(path, rows[i].path);
		}
	}
	box_arena_free(arena);
}
