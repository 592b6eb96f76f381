/* Host paths as people type them, and the absolute paths that the runtime gets. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/macros.h"
#include "cli/path_argument.h"
#include "tests/unit/lib/test.h"

TEST(text_is_cleaned)
{
	static const struct {
		const char *from, *to;
	} rows[] = {{"/a/b", "/a/b"}, {"/a/./b//c/", "/a/b/c"}, {"/a/../b", "/b"}, {"/", "/"},
		{"/..", "/"}, {"/a/..", "/"}, {"//a", "/a"}, {"/a/b/../../..", "/"},
		{"/...", "/..."}};
	struct box_arena *arena = box_arena_new();
	for (size_t i = 0; i < BOX_COUNT_OF(rows); i++) {
		ASSERT_STR(box_path_argument_clean(arena, rows[i].from), rows[i].to);
	}
	box_arena_free(arena);
}

/* root/far/inner, root/work/d, root/work/link -> ../far/inner; root/work is the working folder. */
static char root[] = "/tmp/box-path-argument-XXXXXX";

static void make_tree(void)
{
	ASSERT(mkdtemp(root) != NULL);
	ASSERT_INT(chdir(root), 0);
	ASSERT_INT(mkdir("far", 0700), 0);
	ASSERT_INT(mkdir("far/inner", 0700), 0);
	ASSERT_INT(mkdir("work", 0700), 0);
	ASSERT_INT(mkdir("work/d", 0700), 0);
	ASSERT_INT(symlink("../far/inner", "work/link"), 0);
	ASSERT_INT(chdir("work"), 0);
}

static void remove_tree(void)
{
	static const char *const folders[] = {"work/d", "work", "far/inner", "far"};
	ASSERT_INT(chdir(root), 0);
	ASSERT_INT(unlink("work/link"), 0);
	for (size_t i = 0; i < BOX_COUNT_OF(folders); i++) {
		ASSERT_INT(rmdir(folders[i]), 0);
	}
	ASSERT_INT(chdir("/"), 0);
	ASSERT_INT(rmdir(root), 0);
}

static const char *made(struct box_arena *arena, const char *path)
{
	struct box_err err;
	const char *whole = NULL;
	ASSERT_INT(box_path_argument_resolve(arena, path, &whole, &err), 0);
	return whole;
}

TEST(relative_paths_are_those_a_shell_would_open)
{
	static const struct {
		const char *from, *to;
	} rows[] = {{".", "/work"}, {"./", "/work"}, {"./d", "/work/d"}, {"d", "/work/d"},
		{"d/", "/work/d"}, {"d/.", "/work/d"}, {"..", ""}, {"../far", "/far"},
		{"link", "/far/inner"}, {"link/..", "/far"}, {"./link/../inner/", "/far/inner"},
		/* Paths that do not exist are normalized as text. */
		{"none", "/work/none"}, {"./none/", "/work/none"}, {"../none", "/none"}};
	struct box_arena *arena = box_arena_new();
	make_tree();
	for (size_t i = 0; i < BOX_COUNT_OF(rows); i++) {
		ASSERT_STR(made(arena, rows[i].from),
			box_arena_printf(arena, "%s%s", root, rows[i].to));
	}
	remove_tree();
	box_arena_free(arena);
}

TEST(of_absolute_paths_only_a_parent_is_resolved)
{
	static const struct {
		const char *from, *to;
	} rows[] = {{"/work/d/", "/work/d"}, {"/work//d/.", "/work/d"},
		{"/work/link/", "/work/link"}, {"/work/link/..", "/far"},
		{"/work/none/../d", "/work/d"}};
	struct box_arena *arena = box_arena_new();
	make_tree();
	for (size_t i = 0; i < BOX_COUNT_OF(rows); i++) {
		ASSERT_STR(made(arena, box_arena_printf(arena, "%s%s", root, rows[i].from)),
			box_arena_printf(arena, "%s%s", root, rows[i].to));
	}
	remove_tree();
	box_arena_free(arena);
}

TEST(a_working_folder_that_is_gone_or_has_no_utf8)
{
	struct box_arena *arena = box_arena_new();
	struct box_err err;
	const char *whole = NULL;
	make_tree();
	ASSERT_INT(mkdir("\xff", 0700), 0);
	ASSERT_INT(chdir("\xff"), 0);
	ASSERT_INT(box_path_argument_resolve(arena, ".", &whole, &err), -EILSEQ);
	ASSERT(strstr(err.text, "not valid UTF-8") != NULL);
	ASSERT_INT(rmdir("../\xff"), 0);
	ASSERT_INT(box_path_argument_resolve(arena, ".", &whole, &err), -ENOENT);
	ASSERT(strstr(err.text, "cannot get the working folder") != NULL);
	remove_tree();
	box_arena_free(arena);
}
