/* tar archives: what is written can be read again, and hostile archives are refused with the
 * reason. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/limits.h"
#include "cli/copy/pack.h"
#include "cli/copy/tar.h"
#include "tests/unit/lib/test.h"

#define TEXT_MAX (64 * 1024)

/* One header, with a correct checksum. */
static void put_header(struct box_buf *out, const char *name, char type, const char *size,
	const char *link, const char *magic)
{
	char block[BOX_TAR_BLOCK] = {0};
	(void)strncpy(block, name, 100);
	memcpy(block + 100, "0000644", 8);
	(void)strncpy(block + 124, size, 12);
	memcpy(block + 136, "00000000017", 12);
	block[156] = type;
	(void)strncpy(block + 157, link, 100);
	(void)strncpy(block + 257, magic, 8);
	memset(block + 148, ' ', 8);
	unsigned sum = 0;
	for (size_t i = 0; i < sizeof(block); i++) {
		sum += (unsigned char)block[i];
	}
	(void)snprintf(block + 148, 8, "%06o", sum);
	ASSERT_INT(box_buf_append(out, block, sizeof(block)), 0);
}

static void put_data(struct box_buf *out, const void *bytes, size_t len)
{
	static const char zeros[BOX_TAR_BLOCK];
	ASSERT_INT(box_buf_append(out, bytes, len), 0);
	ASSERT_INT(box_buf_append(out, zeros, box_tar_padding(len)), 0);
}

static void put_extra(struct box_buf *out, char type, const void *bytes, size_t len)
{
	char size[13];
	(void)snprintf(size, sizeof(size), "%011zo", len);
	put_header(out, "extra", type, size, "", "ustar\00000");
	put_data(out, bytes, len);
}

/* The whole archive as text: "T mode size mtime.nsec path -> link data|", or "! reason". In pieces
 * of `step`. */
static const char *story(struct box_str bytes, size_t step)
{
	static char text[TEXT_MAX];
	struct box_tar_reader reader;
	size_t at = 0;
	box_tar_reader_start(&reader);
	text[0] = '\0';
	for (size_t done = 0; done <= bytes.len;) {
		struct box_str piece = {
			bytes.bytes + done, step < bytes.len - done ? step : bytes.len - done};
		size_t used;
		struct box_str data;
		const char *why;
		enum box_tar_event event = box_tar_reader_feed(&reader, piece, &used, &data, &why);
		const struct box_tar_entry *entry = &reader.entry;
		done += used;
		if (event == BOX_TAR_ENTRY) {
			at += (size_t)snprintf(text + at, sizeof(text) - at,
				"%d %o %lld %lld.%u %.*s -> %.*s ", entry->type, entry->mode,
				(long long)entry->size, (long long)entry->mtime_sec,
				entry->mtime_nsec, (int)entry->path.len, entry->path.bytes,
				(int)entry->link.len, entry->link.bytes);
		} else if (event == BOX_TAR_DATA) {
			at += (size_t)snprintf(
				text + at, sizeof(text) - at, "%.*s", (int)data.len, data.bytes);
		} else if (event == BOX_TAR_DONE) {
			at += (size_t)snprintf(text + at, sizeof(text) - at, "|");
		} else if (event == BOX_TAR_END) {
			at += (size_t)snprintf(text + at, sizeof(text) - at, ".");
		} else if (event == BOX_TAR_BROKEN) {
			(void)snprintf(text + at, sizeof(text) - at, "! %s", why);
			break;
		} else if (done == bytes.len) {
			if (!box_tar_reader_at_edge(&reader)) {
				(void)snprintf(text + at, sizeof(text) - at, "?");
			}
			break;
		}
		ASSERT(at < sizeof(text));
	}
	box_tar_reader_free(&reader);
	return text;
}

static void expect(struct box_buf *archive, const char *wanted)
{
	static const size_t steps[] = {SIZE_MAX, 1, 7, 511, 512, 513, 1000};
	for (size_t i = 0; i < COUNT(steps); i++) {
		struct box_str bytes = {archive->bytes, archive->len};
		ASSERT_STR(story(bytes, steps[i]), wanted);
	}
	box_buf_free(archive);
}

static void write_file(struct box_buf *out, struct box_tar_entry entry, const char *data)
{
	entry.size = (int64_t)strlen(data);
	ASSERT_INT(box_tar_write_entry(out, &entry), 0);
	put_data(out, data, strlen(data));
}

TEST(written_and_read)
{
	struct box_buf out = box_buf(BOX_MIB);
	char name[300];
	char wanted[2048];
	memset(name, 'n', sizeof(name));
	name[100] = '/';
	name[sizeof(name) - 1] = '\0';
	const struct box_tar_entry folder = {
		.type = BOX_TAR_FOLDER, .mode = 0751, .mtime_sec = 7, .path = box_str("d")};
	const struct box_tar_entry link = {
		.type = BOX_TAR_LINK, .mode = 0777, .path = box_str("d/l"), .link = box_str(name)};
	const struct box_tar_entry file = {.mode = 04755, .mtime_sec = 9, .mtime_nsec = 5000};
	struct box_tar_entry named = file;
	named.path = box_str(name);
	ASSERT_INT(box_tar_write_entry(&out, &folder), 0);
	ASSERT_INT(box_tar_write_entry(&out, &link), 0);
	write_file(&out, named, "some data");
	named.path = box_str("empty");
	named.mtime_sec = -5;
	write_file(&out, named, "");
	ASSERT_INT(box_tar_write_end(&out), 0);
	(void)snprintf(wanted, sizeof(wanted),
		"1 751 0 7.0 d ->  |2 777 0 0.0 d/l -> %s |0 4755 9 9.5000 %s ->  some data|"
		"0 4755 0 0.0 empty ->  |.",
		name, name);
	expect(&out, wanted);
}

TEST(large_sizes)
{
	static const int64_t sizes[] = {077777777777LL, 077777777777LL + 1, 1LL << 40};
	for (size_t i = 0; i < COUNT(sizes); i++) {
		struct box_buf out = box_buf(BOX_MIB);
		char wanted[128];
		const struct box_tar_entry file = {.size = sizes[i], .path = box_str("f")};
		ASSERT_INT(box_tar_write_entry(&out, &file), 0);
		/* Longer than a header's field: needs a pax header. */
		ASSERT_INT(out.len, i == 0 ? 512 : 1536);
		(void)snprintf(wanted, sizeof(wanted), "0 0 %lld 0.0 f ->  ?", (long long)sizes[i]);
		expect(&out, wanted);
	}
	/* GNU's form: a binary number. */
	struct box_buf out = box_buf(BOX_MIB);
	char binary[12] = {(char)0x80, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1};
	put_header(&out, "f", '0', "", "", "ustar  ");
	memcpy(out.bytes + 124, binary, 12);
	memset(out.bytes + 148, ' ', 8);
	unsigned sum = 0;
	for (size_t i = 0; i < 512; i++) {
		sum += (unsigned char)out.bytes[i];
	}
	(void)snprintf(out.bytes + 148, 8, "%06o", sum);
	expect(&out, "0 644 1103823438081 15.0 f ->  ?");
}

/* pax lengths include their own digits, also where that adds a digit. */
TEST(records_of_every_length)
{
	char name[1200];
	for (size_t len = 80; len < sizeof(name); len++) {
		struct box_buf out = box_buf(BOX_MIB);
		memset(name, 'a', len);
		const struct box_tar_entry file = {.path = {name, len}};
		ASSERT_INT(box_tar_write_entry(&out, &file), 0);
		const char *told = story((struct box_str){out.bytes, out.len}, SIZE_MAX);
		ASSERT_INT(strlen(told), strlen("0 0 0 0.0  ->  |") + len);
		box_buf_free(&out);
	}
}

TEST(long_names_of_gnu)
{
	struct box_buf out = box_buf(BOX_MIB);
	put_extra(&out, 'L', "../../a long name", 18);
	put_extra(&out, 'K', "/a target", 10);
	put_header(&out, "short", '2', "", "", "ustar  ");
	put_header(&out, "next", '0', "", "", "ustar  ");
	expect(&out, "2 644 0 15.0 ../../a long name -> /a target |0 644 0 15.0 next ->  |");
}

TEST(prefix_and_times_of_gnu)
{
	struct box_buf out = box_buf(BOX_MIB);
	put_header(&out, "name", '0', "", "", "ustar\00000");
	memcpy(out.bytes + 345, "pre", 3);
	out.bytes[148 + 5]++; /* "pre" adds 327: 0507 */
	char sum[8];
	memset(out.bytes + 148, ' ', 8);
	unsigned total = 0;
	for (size_t i = 0; i < 512; i++) {
		total += (unsigned char)out.bytes[i];
	}
	(void)snprintf(sum, sizeof(sum), "%06o", total);
	memcpy(out.bytes + 148, sum, 7);
	expect(&out, "0 644 0 15.0 pre/name ->  |");
}

TEST(what_is_refused)
{
	static const struct {
		char type;
		const char *what;
	} rows[] = {{'3', "a device"}, {'4', "a device"}, {'6', "a FIFO"}, {'S', "a sparse file"},
		{'M', "a part of a multi-volume archive"}, {'Z', "of an unknown kind"}};
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct box_buf out = box_buf(BOX_MIB);
		struct box_tar_reader reader;
		size_t used;
		struct box_str data;
		const char *why;
		put_header(&out, "x", rows[i].type, "00000000001", "", "ustar\00000");
		box_tar_reader_start(&reader);
		struct box_str bytes = {out.bytes, out.len};
		ASSERT_INT(box_tar_reader_feed(&reader, bytes, &used, &data, &why), BOX_TAR_ENTRY);
		ASSERT_INT(reader.entry.type, BOX_TAR_OTHER);
		ASSERT_STR(reader.entry.what, rows[i].what);
		box_tar_reader_free(&reader);
		box_buf_free(&out);
	}
	/* The other form of a sparse file. */
	struct box_buf out = box_buf(BOX_MIB);
	put_extra(&out, 'x', "22 GNU.sparse.major=1\n", 22);
	put_header(&out, "x", '0', "", "", "ustar\00000");
	put_header(&out, "y", '0', "", "", "ustar\00000");
	expect(&out, "4 644 0 15.0 x ->  |0 644 0 15.0 y ->  |");
}

#define BROKEN(name, type, bytes, wanted)                          \
	do {                                                       \
		struct box_buf out = box_buf(BOX_MIB);             \
		put_extra(&out, type, bytes, sizeof(bytes) - 1);   \
		put_header(&out, "f", '0', "", "", "ustar\00000"); \
		expect(&out, wanted);                              \
	} while (0)

TEST(malformed)
{
	static const char pax[] = "! a pax header is malformed";
	static const char name[] = "! a name in a pax header is empty, too long or has a NUL";
	BROKEN("no blank", 'x', "12path=a\n", pax);
	BROKEN("too long", 'x', "99 path=a\n", pax);
	BROKEN("too short", 'x', "2 path=a\n", pax);
	BROKEN("no end", 'x', "10 path=ab", pax);
	BROKEN("no key", 'x', "5 =a\n", pax);
	BROKEN("no equals", 'x', "7 path\n", pax);
	BROKEN("negative", 'x', "-9 path=a\n", pax);
	BROKEN("huge", 'x', "99999999999999999999 path=a\n", pax);
	BROKEN("zero", 'x', "0 path=a\n", pax);
	BROKEN("NUL", 'x', "11 path=a\0\n", name);
	BROKEN("empty", 'x', "8 path=\n", name);
	BROKEN("size", 'x', "11 size=-1\n", "! an invalid size in a pax header");
	BROKEN("size", 'x', "29 size=99999999999999999999\n", "! an invalid size in a pax header");
	BROKEN("size", 'x', "27 size=999999999999999999\n", "! a header has invalid numbers");
	BROKEN("mtime", 'x', "11 mtime=x\n", "! an invalid time in a pax header");
	BROKEN("mtime", 'x', "13 mtime=1.x\n", "! an invalid time in a pax header");
	BROKEN("long", 'L', "\0", "! a long name is empty");
	/* A global header is ignored. */
	BROKEN("global", 'g', "14 path=/evil\n", "0 644 0 15.0 f ->  |");
	struct box_buf out = box_buf(BOX_MIB);
	put_header(&out, "x", 'x', "77777777777", "", "ustar\00000");
	expect(&out, "! a pax header or a long name is too long");
	put_header(&out, "x", '0', "0000000009", "", "ustar\00000");
	expect(&out, "! a header has invalid numbers");
	put_header(&out, "x", '0', "", "", "ustar\00000");
	out.bytes[0] = 'y';
	expect(&out, "! wrong checksum in a header: this is not a tar archive");
}

TEST(ends)
{
	struct box_buf out = box_buf(BOX_MIB);
	char zeros[1024] = {0};
	expect(&out, "");
	put_header(&out, "f", '0', "00000000005", "", "ustar\00000");
	(void)box_buf_append(&out, "abc", 3);
	expect(&out, "0 644 5 15.0 f ->  abc?");
	put_extra(&out, 'x', "10 path=ab\n", 11);
	expect(&out, "! a pax header is malformed");
	put_extra(&out, 'x', "11 path=ab\n", 11);
	expect(&out, "?");
	/* One empty block is not the end; whatever follows two is ignored. */
	(void)box_buf_append(&out, zeros, 512);
	put_header(&out, "f", '0', "", "", "ustar\00000");
	(void)box_buf_append(&out, zeros, 1024);
	put_header(&out, "g", '0', "", "", "ustar\00000");
	expect(&out, "0 644 0 15.0 f ->  |.");
}

TEST(names)
{
	char deep[2 * BOX_COPY_DEPTH_MAX + 3] = "";
	char wide[NAME_MAX + 2];
	for (size_t i = 0; i <= BOX_COPY_DEPTH_MAX; i++) {
		memcpy(deep + 2 * i, "a/", 2);
	}
	memset(wide, 'w', sizeof(wide));
	static const char *const good[] = {"a", "a/b", "./a", ".", "a/", "a//b/./c", "...", "..a"};
	for (size_t i = 0; i < COUNT(good); i++) {
		ASSERT(box_tar_check_name(box_str(good[i])) == NULL);
	}
	ASSERT_STR(box_tar_check_name(box_str("")), "its name is empty");
	ASSERT_STR(box_tar_check_name(box_str("/a")), "has an absolute name");
	static const char *const up[] = {"..", "../a", "a/..", "a/../b", "./..", "a//..//b"};
	for (size_t i = 0; i < COUNT(up); i++) {
		ASSERT_STR(box_tar_check_name(box_str(up[i])), "has \"..\" in its name");
	}
	ASSERT_STR(box_tar_check_name((struct box_str){"a\0b", 3}), "has a NUL in its name");
	ASSERT_STR(
		box_tar_check_name((struct box_str){wide, NAME_MAX + 1}), "its name is too long");
	ASSERT(box_tar_check_name((struct box_str){wide, NAME_MAX}) == NULL);
	ASSERT_STR(box_tar_check_name(box_str(deep)), "is in too many folders");
	deep[2 * BOX_COPY_DEPTH_MAX] = '\0';
	ASSERT(box_tar_check_name(box_str(deep)) == NULL);
}

static void hear(void *arg, const char *line)
{
	(void)snprintf(arg, PATH_MAX, "%s", line);
}

TEST(a_file_that_shrinks_is_told)
{
	char path[] = "/tmp/box-test-shrinks.XXXXXX";
	char said[PATH_MAX] = "";
	char bytes[4 * BOX_TAR_BLOCK];
	struct box_pack *pack;
	struct box_err err;
	ssize_t got;
	int fd = mkstemp(path);
	ASSERT(fd >= 0);
	ASSERT_INT(ftruncate(fd, 100 * BOX_TAR_BLOCK), 0);
	ASSERT_INT(box_pack_open(path, "f", false, hear, said, &pack, &err), 0);
	size_t all = 0;
	do {
		got = box_pack_read(pack, bytes, sizeof(bytes), &err);
		ASSERT(got >= 0);
		all += (size_t)got;
		ASSERT_INT(ftruncate(fd, 2 * BOX_TAR_BLOCK), 0);
	} while (got > 0);
	ASSERT_STR(said, "f: padded with zeros: shrank while it was read");
	ASSERT_INT((int)box_pack_refused(pack), 1);
	/* The archive has the length that its header says. */
	ASSERT(all >= 100 * BOX_TAR_BLOCK);
	box_pack_close(pack);
	(void)close(fd);
	(void)unlink(path);
}
