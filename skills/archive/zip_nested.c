/* Counts what archives within an archive would unpack to, each by its own directory.
 *
 * Within one archive no two entries share a byte and each holds what it declares, so on every level the sum
 * of the declared sizes is the real size; nothing is inflated beyond the limits. The recursion of an archive
 * that contains itself ends at the depth limit. Names do not matter here, nor do bytes between the entries.
 */
#include "skills/archive/zip_nested.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "skills/archive/inflater.h"
#include "skills/archive/zip_internal.h"

/* An entry of a nested archive. */
struct part {
	size_t start; /* of its header */
	size_t end;   /* of its data */
	const uint8_t *packed;
	size_t packed_size;
	size_t size;
	bool is_deflated;
};

/* One entry of the uploaded archive, and everything in it. */
struct nest {
	struct box_zip_nested *all;
	const struct box_zip_entry *entry;
	uint64_t bytes;
};

static int refuse(const struct nest *nest, struct box_err *err, const char *what)
{
	return box_err_set(err, BOX_ERR_VALIDATION, EINVAL, "%s: %s (an archive in the archive)",
		what, nest->entry->name);
}

/* --- one header --- */

/* Takes the number from the ZIP64 field if the header has no room for it. */
static int widen(struct box_zip_run *field, uint64_t *number)
{
	if (*number != UINT32_MAX) {
		return 0;
	}
	if (field->len < 8) {
		return -EINVAL;
	}
	*number = box_zip_u64(field->bytes);
	field->bytes += 8;
	field->len -= 8;
	return 0;
}

static struct box_zip_run find_zip64(struct box_zip_run extra)
{
	while (extra.len >= 4) {
		size_t len = box_zip_u16(extra.bytes + 2);
		if (len > extra.len - 4) {
			break;
		}
		if (box_zip_u16(extra.bytes) == BOX_ZIP_EXTRA_ZIP64) {
			return (struct box_zip_run){extra.bytes + 4, len};
		}
		extra.bytes += 4 + len;
		extra.len -= 4 + len;
	}
	return (struct box_zip_run){0};
}

/* Where the entry is: all of it before the directory, which is at the end of `space`. */
static int locate(const struct box_zip_header *header, struct box_zip_run space, size_t shift,
	struct part *ret_part)
{
	struct box_zip_run field = find_zip64(header->extra);
	uint64_t size = header->size;
	uint64_t packed_size = header->packed_size;
	uint64_t offset = header->offset;
	if (widen(&field, &size) < 0 || widen(&field, &packed_size) < 0 ||
		widen(&field, &offset) < 0 || offset > space.len || shift > space.len - offset) {
		return -EINVAL;
	}
	size_t start = offset + shift;
	size_t left = space.len - start;
	const uint8_t *local = space.bytes + start;
	if (left < BOX_ZIP_LOCAL_BYTES || box_zip_u32(local) != BOX_ZIP_LOCAL_MAGIC ||
		box_zip_u16(local + 8) != header->method) {
		return -EINVAL;
	}
	size_t head = BOX_ZIP_LOCAL_BYTES + (size_t)box_zip_u16(local + 26) +
		box_zip_u16(local + 28);
	if (left < head || left - head < packed_size) {
		return -EINVAL;
	}
	*ret_part = (struct part){
		.start = start,
		.end = start + head + packed_size,
		.packed = local + head,
		.packed_size = packed_size,
		.size = size,
		.is_deflated = header->method == BOX_ZIP_DEFLATED,
	};
	return 0;
}

static int check_part(const struct nest *nest, const struct box_zip_header *header,
	const struct part *part, struct box_err *err)
{
	/* Entries that cannot be examined could contain anything. */
	if (header->flags & BOX_ZIP_FLAGS_ENCRYPTED) {
		return refuse(nest, err, "Archive contains an encrypted entry");
	}
	if (header->method != BOX_ZIP_STORED && header->method != BOX_ZIP_DEFLATED) {
		return refuse(nest, err, "Archive entry has a compression that is not supported");
	}
	if (!part->is_deflated && part->packed_size != part->size) {
		return refuse(nest, err, "Archive contains invalid size metadata");
	}
	return 0;
}

/* --- one archive --- */

static int count_entry(struct nest *nest, size_t size, struct box_err *err)
{
	if (++nest->all->entries > BOX_ARCHIVE_NESTED_ENTRIES_MAX) {
		return refuse(nest, err, "Archive contains too many entries");
	}
	/* Each size is compared with the limit first, so no sum wraps. */
	if (size > BOX_ARCHIVE_TOTAL_BYTES_MAX ||
		nest->all->bytes + size > BOX_ARCHIVE_TOTAL_BYTES_MAX) {
		return refuse(nest, err, "Archive exceeds the total uncompressed size limit");
	}
	nest->all->bytes += size;
	nest->bytes += size;
	if (nest->bytes > (uint64_t)nest->entry->packed_size * BOX_ARCHIVE_RATIO_MAX) {
		return refuse(nest, err, "Archive entry exceeds the compression ratio limit");
	}
	return 0;
}

static int by_start(const void *a, const void *b)
{
	const struct part *left = a;
	const struct part *right = b;
	return (left->start > right->start) - (left->start < right->start);
}

/* Entries that share data make a bomb of a small archive. */
static int check_overlap(
	const struct nest *nest, struct part *parts, size_t count, struct box_err *err)
{
	qsort(parts, count, sizeof(parts[0]), by_start);
	for (size_t i = 1; i < count; i++) {
		if (parts[i].start < parts[i - 1].end) {
			return refuse(nest, err, "Archive contains overlapping entries");
		}
	}
	return 0;
}

/* Checks and counts all entries of one directory. The caller frees the array. */
static int read_parts(struct nest *nest, struct box_zip_run all,
	const struct box_zip_nested_found *found, struct part **ret_parts, size_t *ret_count,
	struct box_err *err)
{
	size_t room = found->headers.len / BOX_ZIP_CENTRAL_BYTES;
	room = BOX_MIN(room, BOX_ARCHIVE_NESTED_ENTRIES_MAX);
	_cleanup_(box_free_p) struct part *parts = box_alloc((room + 1) * sizeof(*parts));
	struct box_zip_run space = {all.bytes, found->start};
	struct box_zip_run rest = found->headers;
	size_t count = 0;
	while (rest.len > 0) {
		struct box_zip_header header;
		struct part part;
		if (box_zip_header_read(&rest, &header) < 0 ||
			locate(&header, space, found->shift, &part) < 0) {
			return refuse(nest, err, BOX_ZIP_REFUSED ": an entry is misplaced");
		}
		int r = check_part(nest, &header, &part, err);
		if (r == 0) {
			r = count_entry(nest, part.size, err);
		}
		if (r < 0) {
			return r;
		}
		parts[count++] = part;
	}
	*ret_count = count;
	int r = check_overlap(nest, parts, count, err);
	if (r == 0) {
		*ret_parts = parts;
		parts = NULL;
	}
	return r;
}

static int look_into(struct nest *nest, struct box_zip_run all, size_t depth, struct box_err *err);

/* Unpacks one entry and checks whether it is itself an archive. */
static int look_at(struct nest *nest, const struct part *part, size_t depth, struct box_err *err)
{
	if (!part->is_deflated) {
		return look_into(nest, (struct box_zip_run){part->packed, part->size}, depth, err);
	}
	_cleanup_(box_free_p) uint8_t *content = box_alloc(part->size + 1);
	int r = box_inflater_inflate(
		nest->all->inflater, part->packed, part->packed_size, content, part->size);
	if (r == -EMSGSIZE) {
		return refuse(nest, err, "Archive contains invalid size metadata");
	}
	/* Some unpackers keep what came before the fault, which could be an archive too. */
	return r < 0 ? refuse(nest, err, BOX_ZIP_REFUSED ": broken data")
		     : look_into(nest, (struct box_zip_run){content, part->size}, depth, err);
}

/* depth: how many archives these bytes are in, not counting the uploaded one. */
static int look_into(struct nest *nest, struct box_zip_run all, size_t depth, struct box_err *err)
{
	struct box_zip_nested_found found;
	const char *why = NULL;
	int r = box_zip_nested_find(all, &found, &why);
	if (r <= 0) {
		return r < 0 ? refuse(nest, err, why) : 0;
	}
	if (depth >= BOX_ARCHIVE_NESTING_MAX) {
		return refuse(nest, err, "Archive contains archives that are nested too deep");
	}
	_cleanup_(box_free_p) struct part *parts = NULL;
	size_t count = 0;
	r = read_parts(nest, all, &found, &parts, &count, err);
	for (size_t i = 0; r == 0 && i < count; i++) {
		r = look_at(nest, &parts[i], depth + 1, err);
	}
	return r;
}

int box_zip_nested_add(struct box_zip_nested *nested, const struct box_zip_entry *entry,
	const uint8_t *content, struct box_err *err)
{
	struct nest nest = {.all = nested, .entry = entry, .bytes = entry->size};
	return look_into(&nest, (struct box_zip_run){content, entry->size}, 0, err);
}
