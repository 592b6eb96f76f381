/* Paths in boxes by their text, and the errors that clients read. */
#include <errno.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/limits.h"
#include "base/macros.h"
#include "runtime/session/file_text.h"
#include "tests/unit/lib/test.h"

TEST(a_path_has_its_place)
{
	static const struct {
		const char *mount;
		const char *path;
		const char *root;
		const char *below;
	} rows[] = {
		{"/workspace", "a", "/workspace", "a"},
		{"/workspace", ".", "/workspace", "."},
		{"/workspace", "a/../../b", "/workspace", "a/../../b"},
		{"/workspace", "/workspace", "/workspace", ""},
		{"/workspace", "/workspace/", "/workspace", ""},
		{"/workspace", "//workspace//./a//b/", "/workspace", "a//b/"},
		{"/workspace", "/workspaces/a", "/", "workspaces/a"},
		{"/workspace", "/workspac", "/", "workspac"},
		{"/workspace", "/workspace/../etc", "/workspace", "../etc"},
		{"/workspace", "/x/../workspace/a", "/", "x/../workspace/a"},
		{"/workspace", "/tmp/a", "/tmp", "a"},
		{"/workspace", "/tmpa", "/", "tmpa"},
		{"/workspace", "/", "/", ""},
		{"/workspace", "/etc/passwd", "/", "etc/passwd"},
		{"/tmp/ws", "/tmp/ws/a", "/tmp/ws", "a"},
		{"/tmp/ws", "/tmp/wsa", "/tmp", "wsa"},
		{"//srv/x/../y/", "a", "/srv/y", "a"},
		{"//srv/x/../y/", "/srv/y/a", "/srv/y", "a"},
	};
	struct box_arena *arena = box_arena_new();
	for (size_t i = 0; i < BOX_COUNT_OF(rows); i++) {
		struct box_file_path path;
		struct box_err err;
		ASSERT_INT(box_file_text_parse_path(arena, rows[i].mount, box_str(rows[i].path),
				   "path", &path, &err),
			0);
		ASSERT_STR(path.root, rows[i].root);
		ASSERT_STR(path.below, rows[i].below);
	}
	box_arena_free(arena);
}

static void expect_refused(struct box_str path, const char *text)
{
	struct box_arena *arena = box_arena_new();
	struct box_file_path judged;
	struct box_err err;
	ASSERT(box_file_text_parse_path(arena, "/workspace", path, "to", &judged, &err) < 0);
	ASSERT_INT(err.code, BOX_ERR_VALIDATION);
	ASSERT_STR(err.text, text);
	box_arena_free(arena);
}

TEST(texts_that_are_no_paths)
{
	static char text[BOX_PATH_MAX];
	expect_refused(box_str(""), "to must not be empty");
	expect_refused((struct box_str){"a\0b", 3}, "to has a NUL in it");
	expect_refused((struct box_str){"\0", 1}, "to has a NUL in it");
	for (size_t i = 0; i < sizeof(text); i++) {
		text[i] = i % 2 ? '/' : 'a';
	}
	expect_refused((struct box_str){text, sizeof(text)}, "to is longer than 4095 bytes");
	memset(text, 'a', sizeof(text));
	expect_refused((struct box_str){text, 256}, "a name in to is longer than 255 bytes");
	struct box_arena *arena = box_arena_new();
	struct box_file_path judged;
	struct box_err err;
	struct box_str just = {text, 255};
	ASSERT_INT(box_file_text_parse_path(arena, "/workspace", just, "to", &judged, &err), 0);
	box_arena_free(arena);
}

TEST(paths_are_joined_as_people_write_them)
{
	static const struct {
		struct box_file_path path;
		const char *below;
		const char *joined;
	} rows[] = {
		{{"/workspace", "a"}, "", "/workspace/a"},
		{{"/workspace", "a/"}, "b", "/workspace/a/b"},
		{{"/workspace", ""}, "b", "/workspace/b"},
		{{"/workspace", ""}, "", "/workspace"},
		{{"/", ""}, "", "/"},
		{{"/", ""}, "b", "/b"},
		{{"/", "etc"}, "b", "/etc/b"},
	};
	struct box_arena *arena = box_arena_new();
	for (size_t i = 0; i < BOX_COUNT_OF(rows); i++) {
		struct box_str joined = box_file_text_join_path(
			arena, &rows[i].path, box_str(rows[i].below));
		ASSERT_BYTES(joined.bytes, joined.len, rows[i].joined, strlen(rows[i].joined));
	}
	box_arena_free(arena);
}

TEST(each_failure_has_its_name)
{
	static const struct {
		struct box_file_outcome outcome;
		enum box_code code;
		const char *text;
	} rows[] = {
		{{.errnum = ENOENT}, BOX_ERR_OS, "[ENOENT] /w/a: No such file or directory"},
		{{.errnum = EACCES}, BOX_ERR_PERMISSION, "[EACCES] /w/a: Permission denied"},
		{{.errnum = EROFS}, BOX_ERR_OS, "[EROFS] /w/a: Read-only file system"},
		{{.errnum = ENOSPC, .written = 2}, BOX_ERR_OS,
			"[ENOSPC] /w/a: No space left on device; 2 of 4 bytes were written"},
		{{.errnum = EXDEV, .why = BOX_FILE_REFUSAL_OUTSIDE}, BOX_ERR_PERMISSION,
			"[EXDEV] /w/a: leads out of /w"},
		{{.errnum = EXDEV, .why = BOX_FILE_REFUSAL_OUTSIDE, .of_to = true},
			BOX_ERR_PERMISSION, "[EXDEV] /tmp/b: leads out of /tmp"},
		{{.errnum = EXDEV}, BOX_ERR_OS,
			"[EXDEV] /w/a: to is on another file system: copy it and remove it here"},
		{{.errnum = EACCES, .why = BOX_FILE_REFUSAL_KERNEL_FS}, BOX_ERR_PERMISSION,
			"[EACCES] /w/a: is in a file system of the kernel or of devices"},
		{{.errnum = EINVAL, .why = BOX_FILE_REFUSAL_TYPE, .facts.type = BOX_FILE_TYPE_FIFO},
			BOX_ERR_OS, "[EINVAL] /w/a: is a fifo, not a file"},
		{{.errnum = EBUSY, .why = BOX_FILE_REFUSAL_ROOT}, BOX_ERR_PERMISSION,
			"[EBUSY] /w/a: is where the file system is mounted"},
		{{.errnum = ENOSYS, .why = BOX_FILE_REFUSAL_INOTIFY}, BOX_ERR_BACKEND_UNAVAILABLE,
			"[ENOSYS] /w/a: cannot be watched: the filter of this box has no inotify"},
		{{.errnum = E2BIG, .why = BOX_FILE_REFUSAL_FOLDERS}, BOX_ERR_CAPACITY,
			"[E2BIG] /w/a: has too many folders to be watched"},
		{{.errnum = ETIMEDOUT}, BOX_ERR_OS, "[ETIMEDOUT] /w/a: it took longer than 60 s"},
		{{.errnum = 4000}, BOX_ERR_OS, "[EUNKNOWN] /w/a: unknown error"},
	};
	const struct box_backend_file_request ask = {
		.path = {"/w", "a"}, .to = {"/tmp", "b"}, .data = {"xxxx", 4}};
	struct box_arena *arena = box_arena_new();
	for (size_t i = 0; i < BOX_COUNT_OF(rows); i++) {
		struct box_err err;
		box_file_text_explain(arena, &ask, &rows[i].outcome, &err);
		ASSERT_STR(err.text, rows[i].text);
		ASSERT_INT(err.code, rows[i].code);
	}
	box_arena_free(arena);
}

TEST(a_path_in_an_error_cannot_look_like_one)
{
	const struct box_backend_file_request ask = {.path = {"/w", "KeyError: \n\xff"}};
	const struct box_file_outcome outcome = {.errnum = ENOENT};
	struct box_arena *arena = box_arena_new();
	struct box_err err;
	box_file_text_explain(arena, &ask, &outcome, &err);
	ASSERT_STR(err.text, "[ENOENT] /w/KeyError? ?\xef\xbf\xbd: No such file or directory");
	box_arena_free(arena);
}
