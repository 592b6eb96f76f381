/* The check of ZIPs: what it accepts, and the text of each refusal. */
#include <errno.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "skills/archive/zip.h"
#include "tests/unit/lib/zip_maker.h"

static struct box_err err;
static struct box_zip zip;
static struct box_arena *arena;

static int check(const struct box_buf *buf)
{
	box_arena_free(arena);
	arena = box_arena_new();
	/* A copy of exactly this size, so that the sanitizer detects a read past it. */
	char *copy = malloc(buf->len ? buf->len : 1);
	memcpy(copy, buf->bytes, buf->len);
	box_arena_adopt(arena, copy);
	err = (struct box_err){0};
	return box_zip_check((const uint8_t *)copy, buf->len, arena, &zip, &err);
}

static void accepts(const struct zip_item *items, size_t count)
{
	_zip_ buf = zip_make(items, count, NULL);
	if (check(&buf) < 0) {
		TEST_FAIL("refused: %s", err.text);
	}
	ASSERT_INT(zip.count, count);
}

static void refuses_bytes(struct box_buf *buf, const char *text)
{
	ASSERT_INT(check(buf), -EINVAL);
	ASSERT_INT(err.code, BOX_ERR_VALIDATION);
	ASSERT_STR(err.text, text);
}

static void refuses(const struct zip_item *items, size_t count, const char *text)
{
	_zip_ buf = zip_make(items, count, NULL);
	refuses_bytes(&buf, text);
}

#define VALID "Uploaded file must be a valid .zip archive"

TEST(tells_what_is_in_it)
{
	const struct zip_item items[] = {
		{.name = "a/", .mode = S_IFDIR | 0755, .dos = 0x10},
		{.name = "a/run.sh", .content = "#!", .mode = S_IFREG | 04755},
		{.name = "a/b/c/text", .content = "hello hello hello", .method = 8},
		{.name = "./a/./empty", .has_descriptor = true},
		{.name = "a/\xc3\xa9", .mode = S_IFREG | 0600},
	};
	accepts(items, COUNT(items));
	ASSERT_INT(zip.folder_count, 3);
	ASSERT_STR(zip.folders[0], "a");
	ASSERT_STR(zip.folders[1], "a/b");
	ASSERT_STR(zip.folders[2], "a/b/c");
	ASSERT(zip.entries[0].is_folder && !zip.entries[1].is_folder);
	ASSERT(zip.entries[1].is_executable && !zip.entries[2].is_executable);
	ASSERT(zip.entries[2].is_deflated && !zip.entries[1].is_deflated);
	ASSERT_INT(zip.entries[2].size, 17);
	ASSERT_BYTES(zip.entries[1].packed, zip.entries[1].packed_size, "#!", 2);
	ASSERT_STR(zip.entries[3].path, "a/empty");
	ASSERT_STR(zip.entries[3].name, "./a/./empty");
	ASSERT(!zip.entries[4].is_executable);
}

TEST(takes_an_empty_one_and_one_with_a_comment)
{
	_zip_ buf = zip_make(NULL, 0, &(struct zip_end){.comment = "84e0a6f"});
	ASSERT_INT(check(&buf), 0);
	ASSERT_INT(zip.count, 0);
}

TEST(refuses_what_is_no_archive)
{
	static const char *const texts[] = {"", "P", "not a zip at all, not at all", "PK\5\6"};
	for (size_t i = 0; i < COUNT(texts); i++) {
		_zip_ buf = box_buf(BOX_KIB);
		zip_put_bytes(&buf, texts[i], strlen(texts[i]));
		zip_put_bytes(&buf, "", 1);
		refuses_bytes(&buf, VALID);
	}
}

TEST(refuses_every_beginning_of_an_archive)
{
	const struct zip_item items[] = {
		{.name = "a", .content = "one"},
		{.name = "b", .content = "two", .has_descriptor = true},
	};
	_zip_ whole = zip_make(items, COUNT(items), NULL);
	for (size_t len = 0; len < whole.len; len++) {
		struct box_buf part = whole;
		part.len = len;
		ASSERT_INT(check(&part), -EINVAL);
	}
	ASSERT_INT(check(&whole), 0);
}

TEST(refuses_names_that_lead_astray)
{
	static const struct {
		const char *name;
		const char *text;
	} rows[] = {
		{"/etc/passwd", "/etc/passwd"},
		{"/", "/"},
		{"..", ".."},
		{"../x", "../x"},
		{"a/../b", "a/../b"},
		{"a/..", "a/.."},
		{"a/../", "a/../"},
		{".", "."},
		{"./", "./"},
		{"a//b", "a//b (empty component)"},
		{"a//", "a// (empty component)"},
		{"C:x", "C:x"},
		{"c:/x", "c:/x"},
		{"./c:x", "./c:x"},
		{"a\\..\\b", "a\\..\\b (backslash)"},
		{"a\nb", "a\\x0ab (control character)"},
		{"\x7f", "\\x7f (control character)"},
		{"a\xc2\x85", "a\\xc2\\x85 (control character)"},
		{"\xff", "\\xff (not UTF-8)"},
		{"\xc0\xae\xc0\xae/x", "\\xc0\\xae\\xc0\\xae/x (not UTF-8)"},
		{"\xed\xa0\x80", "\\xed\\xa0\\x80 (not UTF-8)"},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		char text[256];
		const struct zip_item items[] = {
			{.name = "fine", .content = "x"}, {.name = rows[i].name}};
		(void)snprintf(
			text, sizeof(text), "Archive contains an unsafe path: %s", rows[i].text);
		refuses(items, COUNT(items), text);
	}
	accepts(&(struct zip_item){.name = "..a/b../...", .content = "x"}, 1);
}

TEST(refuses_empty_names_and_nul)
{
	refuses(&(struct zip_item){.name = ""}, 1,
		"Archive contains an unsafe empty or NUL path: (entry 1)");
	refuses(&(struct zip_item){.name = "a\0/../b", .name_len = 7}, 1,
		"Archive contains an unsafe empty or NUL path: a\\x00/../b");
}

TEST(names_have_limits)
{
	char name[BOX_PATH_MAX + 300];
	memset(name, 'x', sizeof(name));
	name[BOX_ARCHIVE_PART_BYTES_MAX] = '\0';
	accepts(&(struct zip_item){.name = name}, 1);
	name[BOX_ARCHIVE_PART_BYTES_MAX] = 'x';
	name[BOX_ARCHIVE_PART_BYTES_MAX + 1] = '\0';
	_zip_ buf = zip_make(&(struct zip_item){.name = name}, 1, NULL);
	ASSERT_INT(check(&buf), -EINVAL);
	ASSERT(strstr(err.text, "xxx... (component too long)"));

	for (size_t i = 0; i < BOX_ARCHIVE_DEPTH_MAX; i++) {
		name[2 * i] = 'd';
		name[2 * i + 1] = '/';
	}
	name[2 * BOX_ARCHIVE_DEPTH_MAX] = '\0';
	accepts(&(struct zip_item){.name = name}, 1);
	name[2 * BOX_ARCHIVE_DEPTH_MAX] = 'd';
	name[2 * BOX_ARCHIVE_DEPTH_MAX + 1] = '\0';
	box_buf_free(&buf);
	buf = zip_make(&(struct zip_item){.name = name}, 1, NULL);
	ASSERT_INT(check(&buf), -EINVAL);
	ASSERT(strstr(err.text, "d/d (too deep)"));

	memset(name, 'x', sizeof(name));
	for (size_t i = 200; i < BOX_PATH_MAX; i += 201) {
		name[i] = '/';
	}
	name[BOX_PATH_MAX] = '\0';
	box_buf_free(&buf);
	buf = zip_make(&(struct zip_item){.name = name}, 1, NULL);
	ASSERT_INT(check(&buf), -EINVAL);
	ASSERT(strstr(err.text, "... (too long)"));
	name[BOX_PATH_MAX - 1] = '\0';
	accepts(&(struct zip_item){.name = name}, 1);
}

TEST(refuses_two_that_are_one_somewhere)
{
	static const char *const pairs[][2] = {
		{"a", "a"},
		{"a", "./a"},
		{"a/b", "A/B"},
		{"d/", "d/"},
		{"SKILL.md", "skill.md"},
		{"\xc3\x89", "\xc3\xa9"},  /* E and e with an accent */
		{"\xc3\xa9", "e\xcc\x81"}, /* composed or not */
		{"stra\xc3\x9f"
		 "e",
			"STRASSE"}, /* one folds to two */
		{"a", "a/b"},       /* a file that is a folder */
		{"a/b", "a"},
		{"A", "a/b"},
		{"Docs/a", "docs/b"},
	};
	for (size_t i = 0; i < COUNT(pairs); i++) {
		char text[256];
		const struct zip_item items[] = {{.name = pairs[i][0]}, {.name = pairs[i][1]}};
		(void)snprintf(
			text, sizeof(text), "Archive contains a duplicate path: %s", pairs[i][1]);
		refuses(items, 2, text);
	}
	const struct zip_item late[] = {{.name = "a/b"}, {.name = "a/"}, {.name = "a/c"}};
	accepts(late, 3);
}

TEST(refuses_all_but_files_and_folders)
{
	static const struct {
		struct zip_item item;
		const char *text;
	} rows[] = {
		{{.name = "l", .content = "/etc", .mode = S_IFLNK | 0777},
			"Archive contains a symbolic link: l"},
		{{.name = "l/", .mode = S_IFLNK | 0777}, "Archive contains a symbolic link: l/"},
		{{.name = "f", .mode = S_IFIFO}, "Archive contains a non-regular entry: f"},
		{{.name = "s", .mode = S_IFSOCK}, "Archive contains a non-regular entry: s"},
		{{.name = "c", .mode = S_IFCHR}, "Archive contains a non-regular entry: c"},
		{{.name = "b", .mode = S_IFBLK}, "Archive contains a non-regular entry: b"},
		{{.name = "?", .mode = 0xf000}, "Archive contains a non-regular entry: ?"},
		{{.name = "d", .mode = S_IFDIR}, "Archive contains a non-regular entry: d"},
		{{.name = "d", .dos = 0x10}, "Archive contains a non-regular entry: d"},
		{{.name = "d/", .content = "x"}, "Archive directory has unexpected content: d/"},
		{{.name = "e", .flags = 1}, "Archive contains an encrypted entry: e"},
		{{.name = "e", .flags = 0x41}, "Archive contains an encrypted entry: e"},
		{{.name = "e", .flags = 0x2000}, "Archive contains an encrypted entry: e"},
		{{.name = "p", .flags = 0x20}, "Archive entry has flags that are not supported: p"},
		{{.name = "z", .method = 12},
			"Archive entry has a compression that is not supported: z"},
		{{.name = "z", .method = 99},
			"Archive entry has a compression that is not supported: z"},
		{{.name = "z", .disk = 1}, VALID ": part of a split archive: z"},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		refuses(&rows[i].item, 1, rows[i].text);
	}
}

TEST(refuses_headers_that_disagree)
{
	static const struct {
		struct zip_item item;
		const char *text;
	} rows[] = {
		{{.name = "a", .local = "b"}, VALID ": an entry's headers disagree: a"},
		{{.name = "a", .local = "aa"}, VALID ": an entry's headers disagree: a"},
		{{.name = "a", .content = "x", .local_off = 1},
			VALID ": an entry's headers disagree: a"},
		{{.name = "a", .content = "x", .has_descriptor = true, .descriptor_off = 1},
			VALID ": an entry's headers disagree: a"},
		{{.name = "a", .content = "x", .size_off = 1},
			"Archive contains invalid size metadata: a"},
		{{.name = "a", .extra = "\1\0\0\0", .extra_len = 4},
			VALID ": ZIP64 is not supported: a"},
		{{.name = "a", .extra = "\1\0\x10\0", .extra_len = 4},
			VALID ": broken extra field: a"},
		{{.name = "a", .extra = "\x75\x70\6\0\1\0\0\0\0b", .extra_len = 10},
			VALID ": an entry has two names: a"},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct zip_item item = rows[i].item;
		refuses(&item, 1, rows[i].text);
	}
	accepts(&(struct zip_item){.name = "a",
			.extra = "\x75\x70\6\0\1\0\0\0\0a\0\0\0",
			.extra_len = 13,
			.is_extra_local = true},
		1);
}

TEST(sizes_have_limits)
{
	size_t len = BOX_ARCHIVE_ENTRY_BYTES_MAX + 1;
	char *noise = malloc(len);
	for (size_t i = 0; i < len; i++) {
		noise[i] = (char)(i * i >> 8 ^ i * 7 >> 3);
	}
	struct zip_item item = {.name = "a", .content = noise, .content_len = len - 1};
	accepts(&item, 1);
	item.content_len = len;
	refuses(&item, 1, "Archive entry exceeds the uncompressed size limit: a");
	item.size_off = -1; /* 16 MiB according to the header, and one more byte */
	refuses(&item, 1, "Archive contains invalid size metadata: a");

	struct zip_item bomb = {.name = "a", .content = "", .method = 8};
	struct zip_packed nothing = zip_pack(&bomb);
	free(nothing.memory);
	bomb.size_off = (int32_t)(nothing.packed * BOX_ARCHIVE_RATIO_MAX);
	accepts(&bomb, 1);
	bomb.size_off++;
	refuses(&bomb, 1, "Archive entry exceeds the compression ratio limit: a");

	struct zip_item items[5];
	for (size_t i = 0; i < COUNT(items); i++) {
		static const char *const names[] = {"a", "b", "c", "d", "e"};
		items[i] = (struct zip_item){.name = names[i],
			.content = noise,
			.content_len = BOX_MIB / 4,
			.method = 8,
			.size_off = 13 * BOX_MIB};
	}
	accepts(items, 4);
	refuses(items, 5, "Archive exceeds the total uncompressed size limit: e");
	free(noise);
}

TEST(counts_have_limits)
{
	static struct zip_item items[BOX_ARCHIVE_ENTRIES_MAX + 1];
	static char names[BOX_ARCHIVE_ENTRIES_MAX + 1][32];
	for (size_t i = 0; i < COUNT(items); i++) {
		(void)snprintf(names[i], sizeof(names[i]), "f%zu", i);
		items[i].name = names[i];
	}
	accepts(items, BOX_ARCHIVE_ENTRIES_MAX);
	const char *const too_many = "Archive contains too many entries (maximum 512)";
	refuses(items, BOX_ARCHIVE_ENTRIES_MAX + 1, too_many);

	_zip_ buf = zip_make(items, 1, &(struct zip_end){.count_off = 65534});
	refuses_bytes(&buf, too_many);
	/* One less than there are, and one more. */
	box_buf_free(&buf);
	buf = zip_make(items, 2, &(struct zip_end){.count_off = -1});
	refuses_bytes(&buf, VALID ": the central directory has more entries than it declares");
	box_buf_free(&buf);
	buf = zip_make(items, 2, &(struct zip_end){.count_off = 1});
	refuses_bytes(&buf, VALID ": broken central directory at entry 3");

	/* Three folders for each of 400 entries. */
	for (size_t i = 0; i < 400; i++) {
		(void)snprintf(names[i], sizeof(names[i]), "%zu/b/c/f", i);
	}
	refuses(items, 400, "Archive contains too many folders (maximum 1024): 341/b/c/f");
	accepts(items, 341);
}

TEST(refuses_data_that_is_nobodys)
{
	const struct zip_item items[] = {
		{.name = "a", .content = "one"}, {.name = "b", .content = "two", .gap = 3}};
	refuses(items, 2, VALID ": data outside of entries, before: b");
	refuses(items + 1, 1, VALID ": data outside of entries, before: b");

	_zip_ buf = zip_make(items, 1, &(struct zip_end){.offset_off = 1});
	refuses_bytes(&buf, VALID ": the central directory is misplaced");
	box_buf_free(&buf);
	buf = zip_make(items, 1, &(struct zip_end){.size_off = -1});
	refuses_bytes(&buf, VALID ": the central directory is misplaced");
	box_buf_free(&buf);
	buf = zip_make(items, 1, &(struct zip_end){.disk = 1});
	refuses_bytes(&buf, VALID ": part of a split archive");
	box_buf_free(&buf);
	buf = zip_make(items, 1, &(struct zip_end){.size_off = -1, .offset_off = 1});
	refuses_bytes(&buf, VALID ": broken central directory at entry 1");
	box_buf_free(&buf);
	buf = zip_make(items, 1, NULL);
	zip_put(&buf, 0, 1);
	refuses_bytes(&buf, VALID ": data after the end record");
	box_buf_free(&buf);
	buf = zip_make(items, 1, &(struct zip_end){.comment = "abc", .comment_len = 2});
	refuses_bytes(&buf, VALID ": data after the end record");

	_zip_ plain = zip_make(items, 1, NULL);
	_zip_ late = box_buf(BOX_KIB);
	zip_put_bytes(&late, "#!/bin/sh\n", 10);
	zip_put_bytes(&late, plain.bytes, plain.len);
	refuses_bytes(&late, VALID ": the central directory is misplaced");
}

/* An end record in the comment of another: which one counts depends on the reader. */
TEST(refuses_two_ends)
{
	const struct zip_item item = {.name = "a", .content = "one"};
	_zip_ inner = zip_make(&item, 1, NULL);
	_zip_ buf = box_buf(BOX_KIB);
	zip_put(&buf, 0x06054b50, 4);
	zip_put(&buf, 0, 16);
	zip_put(&buf, inner.len, 2);
	zip_put_bytes(&buf, inner.bytes, inner.len);
	refuses_bytes(&buf, VALID ": two end records");
}

/* Two directory entries for the same data, as in overlapping bombs. */
TEST(refuses_entries_that_overlap)
{
	struct zip_item inner = {.name = "b", .content = "kernel"};
	_zip_ local = box_buf(BOX_KIB);
	struct zip_packed packed = zip_pack(&inner);
	zip_put_local(&local, &inner, &packed);
	/* The content of the first entry is the second entry. */
	struct zip_item outer = {.name = "a", .content = local.bytes, .content_len = local.len};
	_zip_ buf = box_buf(BOX_KIB);
	struct zip_packed all = zip_pack(&outer);
	zip_put_local(&buf, &outer, &all);
	packed.offset = (uint32_t)(buf.len - local.len);
	size_t directory = buf.len;
	zip_put_central(&buf, &outer, &all);
	zip_put_central(&buf, &inner, &packed);
	size_t size = buf.len - directory;
	zip_put(&buf, 0x06054b50, 4);
	zip_put(&buf, 0, 4);
	zip_put(&buf, 0x00020002, 4);
	zip_put(&buf, size, 4);
	zip_put(&buf, directory, 4);
	zip_put(&buf, 0, 2);
	refuses_bytes(&buf, "Archive contains overlapping entries: b");
}
