/* Checks the archive as a whole: its end record, its central directory, its totals, and that every byte
 * belongs to exactly one part.
 *
 * Where the Python reference refuses an archive too, the text is the reference's.
 */
#include "skills/archive/zip.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "skills/archive/zip_internal.h"

struct directory {
	struct box_zip_run space; /* the bytes before it: the entries */
	struct box_zip_run headers;
	size_t count;
};

/* The bytes that an entry occupies. */
struct span {
	size_t start;
	size_t end;
	const char *name;
};

struct sums {
	uint64_t packed;
	uint64_t unpacked;
};

static int refuse(struct box_err *err, const char *why)
{
	return box_err_set(err, BOX_ERR_VALIDATION, EINVAL, "%s%s", BOX_ZIP_REFUSED, why);
}

/* --- the end record --- */

static bool is_end(const uint8_t *bytes, size_t len, size_t at)
{
	return box_zip_u32(bytes + at) == BOX_ZIP_END_MAGIC &&
		at + BOX_ZIP_END_BYTES + box_zip_u16(bytes + at + 20) == len;
}

/* Readers search for the end record from the back, but not all of them check that its comment fits. So the
 * last signature must be the end record, and no other may look like one. */
static int find_end(const uint8_t *bytes, size_t len, size_t *ret_at, struct box_err *err)
{
	if (len < BOX_ZIP_END_BYTES) {
		return refuse(err, "");
	}
	size_t at = len - BOX_ZIP_END_BYTES;
	size_t first = at > BOX_ZIP_COMMENT_MAX ? at - BOX_ZIP_COMMENT_MAX : 0;
	while (at > first && box_zip_u32(bytes + at) != BOX_ZIP_END_MAGIC) {
		at--;
	}
	if (box_zip_u32(bytes + at) != BOX_ZIP_END_MAGIC) {
		return refuse(err, "");
	}
	if (!is_end(bytes, len, at)) {
		return refuse(err, ": data after the end record");
	}
	for (size_t other = first; other < at; other++) {
		if (is_end(bytes, len, other)) {
			return refuse(err, ": two end records");
		}
	}
	*ret_at = at;
	return 0;
}

static int read_end(
	const uint8_t *bytes, size_t len, struct directory *ret_directory, struct box_err *err)
{
	size_t at = 0;
	int r = find_end(bytes, len, &at, err);
	if (r < 0) {
		return r;
	}
	const uint8_t *end = bytes + at;
	size_t count = box_zip_u16(end + 10);
	uint32_t size = box_zip_u32(end + 12);
	uint32_t offset = box_zip_u32(end + 16);
	if (count > BOX_ARCHIVE_ENTRIES_MAX) {
		return box_err_set(err, BOX_ERR_VALIDATION, EINVAL,
			"Archive contains too many entries (maximum %d)", BOX_ARCHIVE_ENTRIES_MAX);
	}
	if (box_zip_u16(end + 4) != 0 || box_zip_u16(end + 6) != 0 ||
		box_zip_u16(end + 8) != count) {
		return refuse(err, ": part of a split archive");
	}
	if (size == UINT32_MAX || offset == UINT32_MAX ||
		(at >= BOX_ZIP_LOCATOR_BYTES &&
			box_zip_u32(end - BOX_ZIP_LOCATOR_BYTES) == BOX_ZIP_LOCATOR_MAGIC)) {
		return refuse(err, ": ZIP64 is not supported");
	}
	if ((uint64_t)offset + size != at) {
		return refuse(err, ": the central directory is misplaced");
	}
	*ret_directory = (struct directory){
		.space = {bytes, offset},
		.headers = {bytes + offset, size},
		.count = count,
	};
	return 0;
}

/* --- the entries --- */

static int add_sizes(struct sums *sums, const struct box_zip_header *header, struct box_err *err)
{
	sums->packed += header->packed_size;
	sums->unpacked += header->size;
	if (sums->packed > BOX_ARCHIVE_BYTES_MAX) {
		return box_err_set(err, BOX_ERR_VALIDATION, EINVAL,
			"Archive exceeds the compressed size limit: %s", header->shown);
	}
	if (sums->unpacked > BOX_ARCHIVE_TOTAL_BYTES_MAX) {
		return box_err_set(err, BOX_ERR_VALIDATION, EINVAL,
			"Archive exceeds the total uncompressed size limit: %s", header->shown);
	}
	return 0;
}

/* Checks one header and fills in its entry and its span. */
static int check_entry(struct box_zip_names *names, const struct box_zip_header *header,
	struct box_zip_run space, struct box_zip_entry *entry, struct span *span,
	struct box_err *err)
{
	entry->name = header->shown;
	int r = box_zip_names_check(names->arena, header, &entry->path, &entry->is_folder, err);
	if (r == 0) {
		r = box_zip_names_add(names, entry, err);
	}
	if (r == 0) {
		r = box_zip_header_check(header, entry->is_folder, err);
	}
	size_t data = 0;
	if (r == 0) {
		r = box_zip_header_match(header, space, &data, &span->end, err);
	}
	if (r < 0) {
		return r;
	}
	span->start = header->offset;
	span->name = header->shown;
	entry->packed = space.bytes + data;
	entry->packed_size = header->packed_size;
	entry->size = header->size;
	entry->crc = header->crc;
	entry->is_executable = header->attributes >> 16 & 0111;
	entry->is_deflated = header->method != 0;
	return 0;
}

static int by_start(const void *a, const void *b)
{
	const struct span *left = a;
	const struct span *right = b;
	return (left->start > right->start) - (left->start < right->start);
}

/* Entries must follow one another from the first byte to the directory: otherwise they share data, which
 * makes a bomb of a small archive, or something is hidden between them. */
static int check_spans(struct span *spans, size_t count, size_t space, struct box_err *err)
{
	size_t at = 0;
	qsort(spans, count, sizeof(spans[0]), by_start);
	for (size_t i = 0; i < count; i++) {
		if (spans[i].start < at) {
			return box_err_set(err, BOX_ERR_VALIDATION, EINVAL,
				"Archive contains overlapping entries: %s", spans[i].name);
		}
		if (spans[i].start > at) {
			return box_err_set(err, BOX_ERR_VALIDATION, EINVAL,
				BOX_ZIP_REFUSED ": data outside of entries, before: %s",
				spans[i].name);
		}
		at = spans[i].end;
	}
	return at == space ? 0 : refuse(err, ": data between entries and central directory");
}

static int check_entries(struct box_zip_names *names, struct directory directory,
	struct box_zip *zip, struct box_err *err)
{
	struct span *spans = box_arena_alloc(names->arena, directory.count * sizeof(*spans));
	struct box_zip_run rest = directory.headers;
	struct sums sums = {0};
	for (size_t i = 0; i < directory.count; i++) {
		struct box_zip_header header;
		if (box_zip_header_read(&rest, &header) < 0) {
			return box_err_set(err, BOX_ERR_VALIDATION, EINVAL,
				BOX_ZIP_REFUSED ": broken central directory at entry %zu", i + 1);
		}
		header.shown = box_zip_names_show(names->arena, header.name, i + 1);
		int r = check_entry(
			names, &header, directory.space, &zip->entries[i], &spans[i], err);
		if (r == 0) {
			r = add_sizes(&sums, &header, err);
		}
		if (r < 0) {
			return r;
		}
	}
	if (rest.len > 0) {
		return refuse(err, ": the central directory has more entries than it declares");
	}
	/* The total ratio needs no check: no single entry exceeds the limit. */
	return check_spans(spans, directory.count, directory.space.len, err);
}

int box_zip_check(const uint8_t *bytes, size_t len, struct box_arena *arena,
	struct box_zip *ret_zip, struct box_err *err)
{
	struct directory directory = {0};
	int r = read_end(bytes, len, &directory, err);
	if (r < 0) {
		return r;
	}
	struct box_zip zip = {.count = directory.count};
	zip.entries = box_arena_alloc(arena, directory.count * sizeof(zip.entries[0]));
	struct box_zip_names names;
	box_zip_names_open(&names, arena);
	r = check_entries(&names, directory, &zip, err);
	box_zip_names_close(&names);
	if (r < 0) {
		return r;
	}
	zip.folders = names.folders;
	zip.folder_count = names.folder_count;
	*ret_zip = zip;
	return 0;
}
