/* Archives inside archives: what counts toward the limits, and the text of each refusal. */
#include <errno.h>

#include "base/arena.h"
#include "base/limits.h"
#include "skills/archive/inflater.h"
#include "skills/archive/zip.h"
#include "skills/archive/zip_nested.h"
#include "tests/unit/lib/zip_maker.h"

#define VALID "Uploaded file must be a valid .zip archive"
#define HERE ": x (an archive in the archive)"

static struct box_err err;
static struct box_zip_nested sums;

/* Like a stored entry: packed and unpacked have the same size. */
static int add(const struct box_buf *buf)
{
	/* A copy of exactly this size, so that the sanitizer detects a read past it. */
	_cleanup_(box_free_p) uint8_t *copy = box_alloc(buf->len);
	memcpy(copy, buf->len ? buf->bytes : "", buf->len);
	struct box_zip_entry entry = {
		.name = "x",
		.packed_size = (uint32_t)buf->len,
		.size = (uint32_t)buf->len,
	};
	err = (struct box_err){0};
	sums = (struct box_zip_nested){.inflater = box_inflater_new(), .bytes = buf->len};
	int r = box_zip_nested_add(&sums, &entry, copy, &err);
	box_inflater_free(sums.inflater);
	sums.bytes -= buf->len;
	return r;
}

static void counts(const struct box_buf *buf, uint64_t bytes, size_t entries)
{
	if (add(buf) < 0) {
		TEST_FAIL("refused: %s", err.text);
	}
	ASSERT_INT(sums.bytes, bytes);
	ASSERT_INT(sums.entries, entries);
}

static void refuses(const struct box_buf *buf, const char *text)
{
	ASSERT_INT(add(buf), -EINVAL);
	ASSERT_INT(err.code, BOX_ERR_VALIDATION);
	ASSERT_STR(err.text, text);
}

static struct zip_item item_of(const struct box_buf *content, uint16_t method)
{
	return (struct zip_item){.name = "inner",
		.content = content->bytes,
		.content_len = content->len,
		.method = method};
}

static struct box_buf text_of(const char *text)
{
	struct box_buf buf = box_buf(BOX_MIB);
	zip_put_bytes(&buf, text, strlen(text));
	return buf;
}

static const struct zip_item honest[] = {
	{.name = "[Content_Types].xml", .content = "<Types> <Types> <Types>", .method = 8},
	{.name = "docs/", .mode = 040755},
	{.name = "../any name", .content = "stored", .has_descriptor = true},
};

TEST(plain_bytes_count_nothing)
{
	static const char *const texts[] = {"", "PK", "hello", "PK\5\6", "a PK\1\2 and a PK\5\6"};
	for (size_t i = 0; i < COUNT(texts); i++) {
		_zip_ buf = text_of(texts[i]);
		counts(&buf, 0, 0);
		zip_put(&buf, 0, 64);
		counts(&buf, 0, 0);
	}
	_zip_ empty = zip_make(NULL, 0, NULL);
	counts(&empty, 0, 0);
}

TEST(entries_of_an_archive_count)
{
	_zip_ buf = zip_make(honest, COUNT(honest), &(struct zip_end){.comment = "a comment"});
	counts(&buf, 23 + 6, 3);
}

/* A prefix that makes the archive a program, or a signature, hides nothing. */
TEST(something_may_stand_before_between_and_behind)
{
	_zip_ plain = zip_make(honest, COUNT(honest), NULL);
	_zip_ buf = text_of("#!/usr/bin/env python3\n");
	zip_put_bytes(&buf, plain.bytes, plain.len);
	counts(&buf, 29, 3);
	zip_put(&buf, 0, 1000);
	counts(&buf, 29, 3);

	struct zip_item gapped[COUNT(honest)];
	memcpy(gapped, honest, sizeof(gapped));
	gapped[1].gap = 100;
	_zip_ signed_one = zip_make(gapped, COUNT(gapped), NULL);
	counts(&signed_one, 29, 3);
}

TEST(archives_in_archives_count_at_every_depth)
{
	_zip_ buf = zip_make(honest, COUNT(honest), NULL);
	uint64_t bytes = 29;
	for (size_t depth = 1; depth < BOX_ARCHIVE_NESTING_MAX; depth++) {
		struct zip_item item = item_of(&buf, depth % 2 ? 8 : 0);
		struct box_buf outer = zip_make(&item, 1, NULL);
		bytes += buf.len;
		box_buf_free(&buf);
		buf = outer;
		counts(&buf, bytes, 3 + depth);
	}
	struct zip_item item = item_of(&buf, 8);
	_zip_ deep = zip_make(&item, 1, NULL);
	refuses(&deep, "Archive contains archives that are nested too deep" HERE);
}

TEST(the_ratio_is_that_of_all_in_it)
{
	size_t len = 100000;
	_cleanup_(box_free_p) char *zeros = calloc(1, len);
	const struct zip_item item = {
		.name = "zeros", .content = zeros, .content_len = len, .method = 8};
	_zip_ buf = zip_make(&item, 1, NULL);
	refuses(&buf, "Archive entry exceeds the compression ratio limit" HERE);
	/* So many extra bytes that it does not count as an archive. */
	_zip_ wide = box_buf(BOX_MIB);
	zip_put(&wide, 0, 1000);
	zip_put_bytes(&wide, buf.bytes, buf.len);
	counts(&wide, len, 1);
}

TEST(the_total_is_that_of_all_in_it)
{
	_zip_ buf = zip_make(honest, COUNT(honest), NULL);
	struct box_zip_entry entry = {
		.name = "x", .packed_size = (uint32_t)buf.len, .size = (uint32_t)buf.len};
	for (uint64_t over = 0; over < 2; over++) {
		sums = (struct box_zip_nested){.inflater = box_inflater_new(),
			.bytes = BOX_ARCHIVE_TOTAL_BYTES_MAX - 29 + over};
		int r = box_zip_nested_add(&sums, &entry, (const uint8_t *)buf.bytes, &err);
		ASSERT_INT(r, over ? -EINVAL : 0);
		box_inflater_free(sums.inflater);
	}
	ASSERT_STR(err.text, "Archive exceeds the total uncompressed size limit" HERE);

	/* 4 GiB according to the header, without any byte inflated. */
	_zip_ lie = zip_make(&(struct zip_item){.name = "a", .method = 8, .size_off = -2}, 1, NULL);
	refuses(&lie, "Archive exceeds the total uncompressed size limit" HERE);
}

TEST(entries_have_a_limit)
{
	static struct zip_item items[BOX_ARCHIVE_NESTED_ENTRIES_MAX / 4 + 1];
	for (size_t i = 0; i < COUNT(items); i++) {
		items[i].name = "same";
	}
	_zip_ inner = zip_make(items, COUNT(items) - 2, NULL);
	struct zip_item outer[4];
	for (size_t i = 0; i < COUNT(outer); i++) {
		outer[i] = item_of(&inner, 8);
	}
	_zip_ most = zip_make(outer, 4, NULL);
	counts(&most, 4 * (uint64_t)inner.len, BOX_ARCHIVE_NESTED_ENTRIES_MAX);
	box_buf_free(&inner);
	inner = zip_make(items, COUNT(items) - 1, NULL);
	outer[0] = item_of(&inner, 8);
	for (size_t i = 1; i < COUNT(outer); i++) {
		outer[i] = outer[0];
	}
	_zip_ more = zip_make(outer, 4, NULL);
	refuses(&more, "Archive contains too many entries" HERE);
}

TEST(what_cannot_be_told_is_refused)
{
	static const struct {
		struct zip_item item;
		const char *text;
	} rows[] = {
		{{.name = "a", .flags = 1}, "Archive contains an encrypted entry" HERE},
		{{.name = "a", .method = 14},
			"Archive entry has a compression that is not supported" HERE},
		{{.name = "a", .content = "aaaa", .size_off = -1},
			"Archive contains invalid size metadata" HERE},
		{{.name = "a", .content = "aaaa", .method = 8, .size_off = -1},
			"Archive contains invalid size metadata" HERE},
		{{.name = "a", .content = "aaaa", .method = 8, .size_off = 1},
			"Archive contains invalid size metadata" HERE},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		_zip_ buf = zip_make(&rows[i].item, 1, NULL);
		refuses(&buf, rows[i].text);
	}
}

TEST(broken_data_are_refused)
{
	const struct zip_item item = {.name = "a", .content = "aaaabbbbaaaabbbb", .method = 8};
	_zip_ buf = zip_make(&item, 1, NULL);
	buf.bytes[31] = (char)0xff; /* an invalid block type */
	refuses(&buf, VALID ": broken data" HERE);
}

TEST(directories_that_lead_astray_are_refused)
{
	const char *const lost = VALID ": the central directory is misplaced" HERE;
	const char *const misplaced = VALID ": an entry is misplaced" HERE;
	_zip_ buf = zip_make(honest, 1, &(struct zip_end){.size_off = -1, .offset_off = 0});
	refuses(&buf, misplaced);
	box_buf_free(&buf);
	/* A reader that counts offsets from the start finds it, one that counts from the end does
	 * not. */
	buf = zip_make(honest, 1, &(struct zip_end){.offset_off = 1});
	refuses(&buf, lost);
	box_buf_free(&buf);
	buf = zip_make(honest, 1, &(struct zip_end){.offset_off = -1});
	refuses(&buf, misplaced);
	/* It starts like an archive and has no end record: some readers follow the local headers.
	 */
	buf.len -= 22;
	refuses(&buf, lost);
}

TEST(headers_that_disagree_are_refused)
{
	const char *const misplaced = VALID ": an entry is misplaced" HERE;
	_zip_ buf = zip_make(honest, 1, NULL);
	buf.bytes[8] = 0; /* the method in the local header */
	refuses(&buf, misplaced);
	buf.bytes[8] = 8;
	counts(&buf, 23, 1);
	/* The packed size in the directory, which precedes the end record: larger than the archive.
	 */
	buf.bytes[buf.len - 22 - 65 + 21] = 1;
	refuses(&buf, misplaced);
}

/* One reader counts offsets from the start, the other from the end, and both find something. */
TEST(two_directories_are_refused)
{
	const char *const lost = VALID ": the central directory is misplaced" HERE;
	_zip_ plain = zip_make(honest, 1, NULL);
	size_t directory = plain.len - 22 - 65;
	_zip_ buf = box_buf(BOX_MIB);
	zip_put(&buf, 0, directory);
	zip_put(&buf, 0x02014b50, 4);
	zip_put_bytes(&buf, plain.bytes, plain.len);
	refuses(&buf, lost);
	buf.bytes[directory] = 'X';
	counts(&buf, 23, 1);

	/* The end record says that there is one entry, and another one follows. */
	_zip_ two = zip_make(honest, 2, NULL);
	_zip_ end = box_buf(BOX_MIB);
	zip_put_bytes(&end, two.bytes + two.len - 22, 22);
	two.len -= 22;
	zip_put(&two, 0, 1);
	end.bytes[12] = 65;
	zip_put_bytes(&two, end.bytes, end.len);
	refuses(&two, lost);
}

TEST(two_ends_are_refused)
{
	_zip_ inner = zip_make(honest, 1, NULL);
	_zip_ buf = zip_make(honest, 2, NULL);
	buf.bytes[buf.len - 2] = (char)inner.len;
	buf.bytes[buf.len - 1] = (char)(inner.len >> 8);
	zip_put_bytes(&buf, inner.bytes, inner.len);
	refuses(&buf, VALID ": two end records" HERE);
}

/* An archive that is stored last has its end record before the outer one. */
TEST(the_end_of_an_entry_is_no_second_one)
{
	_zip_ inner = zip_make(honest, COUNT(honest), NULL);
	struct zip_item item = item_of(&inner, 0);
	_zip_ buf = zip_make(&item, 1, NULL);
	counts(&buf, inner.len + 29, 4);
}

/* Directory entries from `from` on claim the offset of the first one. */
TEST(entries_that_share_their_data_are_refused)
{
	struct zip_item items[] = {{.name = "a", .content = "kernel"}, {.name = "a"}};
	struct box_buf buf = box_buf(BOX_MIB);
	struct zip_packed packed = zip_pack(&items[0]);
	zip_put_local(&buf, &items[0], &packed);
	size_t directory = buf.len;
	zip_put_central(&buf, &items[0], &packed);
	zip_put_central(&buf, &items[0], &packed);
	size_t size = buf.len - directory;
	zip_put(&buf, 0x06054b50, 4);
	zip_put(&buf, 0, 4);
	zip_put(&buf, 0x00020002, 4);
	zip_put(&buf, size, 4);
	zip_put(&buf, directory, 4);
	zip_put(&buf, 0, 2);
	refuses(&buf, "Archive contains overlapping entries" HERE);
	box_buf_free(&buf);
}

/* --- ZIP64 --- */

/* An archive with one entry whose numbers are all in the ZIP64 fields. */
static struct box_buf zip64_make(uint64_t size, uint64_t size_off)
{
	uint8_t extra[28] = {1, 0, 24, 0, (uint8_t)size, 0, 0, 0, 0, 0, 0, 0, 5};
	struct zip_item item = {
		.name = "a", .content = "hello", .extra = extra, .extra_len = sizeof(extra)};
	struct box_buf buf = box_buf(BOX_MIB);
	struct zip_packed packed = zip_pack(&item);
	zip_put_local(&buf, &item, &packed);
	size_t directory = buf.len;
	packed.size = packed.packed = packed.offset = UINT32_MAX;
	zip_put_central(&buf, &item, &packed);
	size_t len = buf.len - directory;
	size_t record = buf.len;
	zip_put(&buf, 0x06064b50, 4);
	zip_put(&buf, 44, 8);
	zip_put(&buf, 45, 2);
	zip_put(&buf, 45, 2);
	zip_put(&buf, 0, 8);
	zip_put(&buf, 1, 8);
	zip_put(&buf, 1, 8);
	zip_put(&buf, len, 8);
	zip_put(&buf, directory, 8);
	zip_put(&buf, 0x07064b50, 4);
	zip_put(&buf, 0, 4);
	zip_put(&buf, record, 8);
	zip_put(&buf, 1, 4);
	zip_put(&buf, 0x06054b50, 4);
	zip_put(&buf, 0, 4);
	zip_put(&buf, 0x00010001, 4);
	zip_put(&buf, len + size_off, 4);
	zip_put(&buf, UINT32_MAX, 4);
	zip_put(&buf, 0, 2);
	return buf;
}

TEST(large_numbers_are_read)
{
	_zip_ buf = zip64_make(5, 0);
	counts(&buf, 5, 1);
	_zip_ lie = zip64_make(6, 0);
	refuses(&lie, "Archive contains invalid size metadata" HERE);
	_zip_ two = zip64_make(5, 1);
	refuses(&two, VALID ": the central directory is misplaced" HERE);
	/* The first byte of the new end. */
	buf.bytes[buf.len - 22 - 20 - 56] = 'X';
	refuses(&buf, VALID ": the central directory is misplaced" HERE);
}
