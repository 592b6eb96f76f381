/* Private to zip*.c: what the parts of the check share. */
#pragma once

#include "base/arena.h"
#include "base/limits.h"
#include "base/table.h"
#include "skills/archive/zip.h"

#define BOX_ZIP_REFUSED "Uploaded file must be a valid .zip archive"

/* A range of the archive's bytes. */
struct box_zip_run {
	const uint8_t *bytes;
	size_t len;
};

static inline uint16_t box_zip_u16(const uint8_t *at)
{
	return (uint16_t)(at[0] | at[1] << 8);
}
static inline uint32_t box_zip_u32(const uint8_t *at)
{
	return box_zip_u16(at) | (uint32_t)box_zip_u16(at + 2) << 16;
}

static inline uint64_t box_zip_u64(const uint8_t *at)
{
	return box_zip_u32(at) | (uint64_t)box_zip_u32(at + 4) << 32;
}

#define BOX_ZIP_END_MAGIC 0x06054b50
#define BOX_ZIP_END_BYTES 22
#define BOX_ZIP_COMMENT_MAX 65535
#define BOX_ZIP_LOCATOR_MAGIC 0x07064b50 /* of ZIP64 */
#define BOX_ZIP_LOCATOR_BYTES 20

/* --- headers: zip_entry.c --- */

#define BOX_ZIP_CENTRAL_MAGIC 0x02014b50
#define BOX_ZIP_CENTRAL_BYTES 46
#define BOX_ZIP_LOCAL_MAGIC 0x04034b50
#define BOX_ZIP_LOCAL_BYTES 30
#define BOX_ZIP_FLAGS_ENCRYPTED 0x2041u /* encrypted, strongly so, or with hidden headers */
#define BOX_ZIP_STORED 0
#define BOX_ZIP_DEFLATED 8
#define BOX_ZIP_EXTRA_ZIP64 0x0001u

/* One entry as in the central directory. */
struct box_zip_header {
	uint16_t flags;
	uint16_t method;
	uint32_t crc;
	uint32_t packed_size;
	uint32_t size;
	uint32_t attributes; /* the upper half is a Unix mode */
	uint32_t offset;     /* of the local header */
	uint16_t disk;
	struct box_zip_run name;
	struct box_zip_run extra;
	const char *shown; /* the name for errors */
};

/* Reads the header at the start of `rest` and advances `rest` past it. */
int box_zip_header_read(struct box_zip_run *rest, struct box_zip_header *ret_header);

/* Checks the header by itself: kind, method, sizes. `is_folder` is what its name says. */
int box_zip_header_check(const struct box_zip_header *header, bool is_folder, struct box_err *err);

/* Compares it with the local header in `space`, the bytes before the central directory. Returns where the
 * data begin, and the end of the entry with its descriptor. */
int box_zip_header_match(const struct box_zip_header *header, struct box_zip_run space,
	size_t *ret_data, size_t *ret_end, struct box_err *err);

/* --- names: zip_names.c --- */

struct box_zip_names {
	struct box_arena *arena;
	struct box_table seen; /* folded path -> the entry that has it */
	const char **folders;
	size_t folder_count;
};

void box_zip_names_open(struct box_zip_names *names, struct box_arena *arena);
void box_zip_names_close(struct box_zip_names *names);

/* A name as an error may show it: no control characters, valid UTF-8, not too long. */
const char *box_zip_names_show(struct box_arena *arena, struct box_zip_run name, size_t number);

/* The path that a name means, and whether it is a folder's. */
int box_zip_names_check(struct box_arena *arena, const struct box_zip_header *header,
	const char **ret_path, bool *ret_is_folder, struct box_err *err);

/* Adds an entry, and the folders that its path implies. Refuses a path that exists already, in any spelling
 * that some file system treats as the same. */
int box_zip_names_add(
	struct box_zip_names *names, const struct box_zip_entry *entry, struct box_err *err);

/* --- nested archives: zip_find.c --- */

/* Where a nested archive's directory is. */
struct box_zip_nested_found {
	struct box_zip_run headers;
	size_t start; /* of the directory */
	size_t shift; /* added to offsets: the number of bytes before the archive */
};

/* Searches for an archive as the more tolerant readers do: with bytes before or after it, with gaps, with
 * ZIP64. 1 if found; 0 if these bytes are not an archive; -EINVAL and the reason if readers would disagree
 * on its content. */
int box_zip_nested_find(
	struct box_zip_run all, struct box_zip_nested_found *ret_found, const char **ret_why);
