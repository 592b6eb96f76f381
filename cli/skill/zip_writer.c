/* Writes a ZIP without times and owners, so that the same files give the same bytes. */
#include "cli/skill/zip_writer.h"

#include <errno.h>
#include <libdeflate.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/limits.h"

#define LOCAL_MAGIC 0x04034b50
#define CENTRAL_MAGIC 0x02014b50
#define END_MAGIC 0x06054b50
#define VERSION 20
#define MADE_BY_UNIX (3 << 8 | VERSION)
#define FLAG_UTF8 0x0800
#define DEFLATED 8
#define DATE_FIRST 0x0021 /* 1980-01-01 */
#define DOS_FOLDER 0x10u
#define LEVEL 6

struct box_zip_writer {
	struct box_buf entries;
	struct box_buf directory;
	uint16_t count;
	struct libdeflate_compressor *deflater;
};

struct packed {
	const void *bytes;
	size_t len;
	bool is_deflated;
	void *memory;
};

struct box_zip_writer *box_zip_writer_new(size_t limit)
{
	struct box_zip_writer *writer = box_alloc(sizeof(*writer));
	*writer = (struct box_zip_writer){.entries = box_buf(limit), .directory = box_buf(limit)};
	writer->deflater = libdeflate_alloc_compressor(LEVEL);
	if (!writer->deflater) {
		abort();
	}
	return writer;
}

void box_zip_writer_free(struct box_zip_writer *writer)
{
	if (writer) {
		box_buf_free(&writer->entries);
		box_buf_free(&writer->directory);
		libdeflate_free_compressor(writer->deflater);
		free(writer);
	}
}

static void put(struct box_buf *buf, uint32_t value, size_t len)
{
	unsigned char bytes[4];
	for (size_t i = 0; i < len; i++) {
		bytes[i] = (unsigned char)(value >> (8 * i));
	}
	(void)box_buf_append(buf, bytes, len); /* an overflow is reported at the end */
}

/* Data with a very high compression ratio is stored: the skill store would reject it as a ZIP bomb. */
static struct packed pack(struct box_zip_writer *writer, const void *bytes, size_t len)
{
	struct packed packed = {.bytes = bytes, .len = len};
	size_t room = libdeflate_deflate_compress_bound(writer->deflater, len);
	packed.memory = box_alloc(room);
	size_t less = libdeflate_deflate_compress(
		writer->deflater, bytes, len, packed.memory, room);
	if (less > 0 && less < len && len <= (uint64_t)less * BOX_ARCHIVE_RATIO_MAX) {
		packed.bytes = packed.memory;
		packed.len = less;
		packed.is_deflated = true;
	}
	return packed;
}

/* The part that both headers share, from the flags to the length of the name. */
static void put_common(struct box_buf *buf, const struct packed *packed, uint32_t crc, size_t len,
	const char *name)
{
	put(buf, FLAG_UTF8, 2);
	put(buf, packed->is_deflated ? DEFLATED : 0, 2);
	put(buf, 0, 2);
	put(buf, DATE_FIRST, 2);
	put(buf, crc, 4);
	put(buf, (uint32_t)packed->len, 4);
	put(buf, (uint32_t)len, 4);
	put(buf, (uint32_t)strlen(name), 2);
}

int box_zip_writer_add(struct box_zip_writer *writer, const char *name, const void *bytes,
	size_t len, bool is_executable)
{
	size_t name_len = strlen(name);
	if (len > UINT32_MAX || name_len > UINT16_MAX || writer->count == UINT16_MAX) {
		return -EMSGSIZE;
	}
	bool is_folder = name_len > 0 && name[name_len - 1] == '/';
	uint32_t mode = is_folder ? S_IFDIR | 0755 : S_IFREG | (is_executable ? 0755 : 0644);
	uint32_t crc = libdeflate_crc32(0, len > 0 ? bytes : NULL, len);
	struct packed packed = len > 0 ? pack(writer, bytes, len) : (struct packed){0};
	uint32_t offset = (uint32_t)writer->entries.len;

	put(&writer->entries, LOCAL_MAGIC, 4);
	put(&writer->entries, VERSION, 2);
	put_common(&writer->entries, &packed, crc, len, name);
	put(&writer->entries, 0, 2);
	(void)box_buf_append(&writer->entries, name, name_len);
	(void)(packed.len > 0 ? box_buf_append(&writer->entries, packed.bytes, packed.len) : 0);
	free(packed.memory);

	put(&writer->directory, CENTRAL_MAGIC, 4);
	put(&writer->directory, MADE_BY_UNIX, 2);
	put(&writer->directory, VERSION, 2);
	put_common(&writer->directory, &packed, crc, len, name);
	put(&writer->directory, 0, 4); /* extra, comment */
	put(&writer->directory, 0, 4); /* disk, inner attributes */
	put(&writer->directory, mode << 16 | (is_folder ? DOS_FOLDER : 0), 4);
	put(&writer->directory, offset, 4);
	(void)box_buf_append(&writer->directory, name, name_len);
	writer->count++;
	return writer->entries.overflowed || writer->directory.overflowed ? -EMSGSIZE : 0;
}

int box_zip_writer_end(struct box_zip_writer *writer, struct box_buf *ret_zip)
{
	struct box_buf *whole = &writer->entries;
	uint32_t offset = (uint32_t)whole->len;
	uint32_t size = (uint32_t)writer->directory.len;
	(void)(size > 0 ? box_buf_append(whole, writer->directory.bytes, size) : 0);
	put(whole, END_MAGIC, 4);
	put(whole, 0, 4); /* disks */
	put(whole, writer->count, 2);
	put(whole, writer->count, 2);
	put(whole, size, 4);
	put(whole, offset, 4);
	put(whole, 0, 2);
	if (whole->overflowed || writer->directory.overflowed) {
		return -EMSGSIZE;
	}
	*ret_zip = *whole;
	*whole = box_buf(whole->limit);
	return 0;
}
