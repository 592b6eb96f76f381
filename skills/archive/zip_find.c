/* Finds the central directory of an archive that is embedded in other bytes, as tolerant readers do.
 *
 * Strict readers find less than tolerant ones, so everything that they can reach is found too. Where two
 * tolerant readers would find different directories, the archive is refused. Only looks at bytes, counts
 * nothing.
 */
#include <errno.h>
#include <string.h>

#include "skills/archive/zip_internal.h"

#define RECORD_MAGIC 0x06064b50 /* ZIP64's end record */
#define RECORD_BYTES 56

/* What an end record says about its directory. */
struct end {
	size_t at; /* where the directory should end */
	uint64_t size;
	uint64_t offset;
};

static bool has_magic(struct box_zip_run all, uint64_t at, uint32_t magic)
{
	return all.len >= 4 && at <= all.len - 4 && box_zip_u32(all.bytes + at) == magic;
}

/* Numbers that the old end record cannot hold are all ones there; the others must be equal. */
static bool agrees(uint32_t old, uint64_t number)
{
	return old == UINT32_MAX || old == number;
}

static int read_end(struct box_zip_run all, size_t at, struct end *ret_end)
{
	const uint8_t *end = all.bytes + at;
	*ret_end = (struct end){at, box_zip_u32(end + 12), box_zip_u32(end + 16)};
	if (at < BOX_ZIP_LOCATOR_BYTES ||
		!has_magic(all, at - BOX_ZIP_LOCATOR_BYTES, BOX_ZIP_LOCATOR_MAGIC)) {
		return 0;
	}
	/* Packers write this record right before the old one; elsewhere not all readers find it. */
	if (at < BOX_ZIP_LOCATOR_BYTES + RECORD_BYTES ||
		!has_magic(all, at - BOX_ZIP_LOCATOR_BYTES - RECORD_BYTES, RECORD_MAGIC)) {
		return -EINVAL;
	}
	const uint8_t *record = end - BOX_ZIP_LOCATOR_BYTES - RECORD_BYTES;
	uint64_t size = box_zip_u64(record + 40);
	uint64_t offset = box_zip_u64(record + 48);
	if (!agrees((uint32_t)ret_end->size, size) || !agrees((uint32_t)ret_end->offset, offset)) {
		return -EINVAL;
	}
	*ret_end = (struct end){at - BOX_ZIP_LOCATOR_BYTES - RECORD_BYTES, size, offset};
	return 0;
}

/* 1 if there is a directory where the end record says. Some readers count from the archive's start, others
 * back from its end: with bytes before the archive these are two different places. */
static int follow_end(struct box_zip_run all, size_t at, struct box_zip_nested_found *ret_found)
{
	struct end end;
	int r = read_end(all, at, &end);
	if (r < 0) {
		return r;
	}
	uint64_t back = end.size <= end.at ? end.at - end.size : UINT64_MAX;
	bool is_back = back != UINT64_MAX && has_magic(all, back, BOX_ZIP_CENTRAL_MAGIC);
	bool is_forward = end.offset < end.at && has_magic(all, end.offset, BOX_ZIP_CENTRAL_MAGIC);
	if (!is_back && !is_forward) {
		return 0;
	}
	uint64_t start = is_back ? back : end.offset;
	if ((is_back && is_forward && back != end.offset) || start < end.offset ||
		end.size > end.at - start) {
		return -EINVAL;
	}
	*ret_found = (struct box_zip_nested_found){
		.headers = {all.bytes + start, end.size},
		.start = start,
		.shift = start - end.offset,
	};
	/* Not all readers check the size: some would read on past it. */
	return has_magic(all, start + end.size, BOX_ZIP_CENTRAL_MAGIC) ? -EINVAL : 1;
}

/* The next end signature from `at` on, or SIZE_MAX. Its last byte does not occur in texts, so search for that. */
static size_t next_end(struct box_zip_run all, size_t at)
{
	while (at < all.len && all.len - at >= BOX_ZIP_END_BYTES) {
		const uint8_t *last = memchr(all.bytes + at + 3, BOX_ZIP_END_MAGIC >> 24,
			all.len - at - (BOX_ZIP_END_BYTES - 1));
		if (!last) {
			break;
		}
		if (box_zip_u32(last - 3) == BOX_ZIP_END_MAGIC) {
			return (size_t)(last - 3 - all.bytes);
		}
		at = (size_t)(last - all.bytes) - 2;
	}
	return SIZE_MAX;
}

int box_zip_nested_find(
	struct box_zip_run all, struct box_zip_nested_found *ret_found, const char **ret_why)
{
	size_t tail = BOX_ZIP_END_BYTES + BOX_ZIP_COMMENT_MAX;
	size_t at = all.len > tail ? all.len - tail : 0;
	bool is_fitting = false;
	int found = 0;
	/* It is the last record that leads to a directory, or one whose comment reaches to the end of all
	 * bytes: which of them counts depends on the reader. */
	for (at = next_end(all, at); at != SIZE_MAX; at = next_end(all, at + 1)) {
		int r = follow_end(all, at, ret_found);
		if (r == 0) {
			continue;
		}
		if (is_fitting) {
			*ret_why = BOX_ZIP_REFUSED ": two end records";
			return -EINVAL;
		}
		found = r;
		is_fitting = at + BOX_ZIP_END_BYTES + box_zip_u16(all.bytes + at + 20) == all.len;
	}
	if (found < 0 || (found == 0 && has_magic(all, 0, BOX_ZIP_LOCAL_MAGIC))) {
		*ret_why = BOX_ZIP_REFUSED ": the central directory is misplaced";
		return -EINVAL;
	}
	return found;
}
