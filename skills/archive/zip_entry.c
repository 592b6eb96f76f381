/* Checks one entry's central and local headers: that both contain only what is allowed, and agree. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "skills/archive/zip_internal.h"

#define DESCRIPTOR_MAGIC 0x08074b50

#define FLAG_DESCRIPTOR 0x0008u /* sizes and checksum follow the data */
#define FLAGS_KNOWN 0x080eu     /* FLAG_DESCRIPTOR, two hints of the packer, and UTF-8 */
#define DOS_FOLDER 0x10u
#define EXTRA_OTHER_NAME 0x7075u
#define OTHER_NAME_HEAD 5 /* version and checksum before the name */

static int refuse(struct box_err *err, const struct box_zip_header *header, const char *what)
{
	return box_err_set(err, BOX_ERR_VALIDATION, EINVAL, "%s: %s", what, header->shown);
}

int box_zip_header_read(struct box_zip_run *rest, struct box_zip_header *ret_header)
{
	const uint8_t *at = rest->bytes;
	if (rest->len < BOX_ZIP_CENTRAL_BYTES || box_zip_u32(at) != BOX_ZIP_CENTRAL_MAGIC) {
		return -EINVAL;
	}
	size_t name_len = box_zip_u16(at + 28);
	size_t extra_len = box_zip_u16(at + 30);
	size_t whole = BOX_ZIP_CENTRAL_BYTES + name_len + extra_len + box_zip_u16(at + 32);
	if (rest->len < whole) {
		return -EINVAL;
	}
	*ret_header = (struct box_zip_header){
		.flags = box_zip_u16(at + 8),
		.method = box_zip_u16(at + 10),
		.crc = box_zip_u32(at + 16),
		.packed_size = box_zip_u32(at + 20),
		.size = box_zip_u32(at + 24),
		.disk = box_zip_u16(at + 34),
		.attributes = box_zip_u32(at + 38),
		.offset = box_zip_u32(at + 42),
		.name = {at + BOX_ZIP_CENTRAL_BYTES, name_len},
		.extra = {at + BOX_ZIP_CENTRAL_BYTES + name_len, extra_len},
	};
	*rest = (struct box_zip_run){at + whole, rest->len - whole};
	return 0;
}

/* --- what a header may say --- */

static int check_kind(const struct box_zip_header *header, bool is_folder, struct box_err *err)
{
	/* Whatever system the header names: unpackers look only at these bits. */
	uint32_t type = header->attributes >> 16 & S_IFMT;
	if (type == S_IFLNK) {
		return refuse(err, header, "Archive contains a symbolic link");
	}
	bool says_folder = type == S_IFDIR || (header->attributes & DOS_FOLDER);
	if ((type != 0 && type != S_IFREG && type != S_IFDIR) || (says_folder && !is_folder)) {
		return refuse(err, header, "Archive contains a non-regular entry");
	}
	if (is_folder && header->size != 0) {
		return refuse(err, header, "Archive directory has unexpected content");
	}
	return 0;
}

static int check_method(const struct box_zip_header *header, struct box_err *err)
{
	if (header->flags & BOX_ZIP_FLAGS_ENCRYPTED) {
		return refuse(err, header, "Archive contains an encrypted entry");
	}
	if (header->flags & ~FLAGS_KNOWN) {
		return refuse(err, header, "Archive entry has flags that are not supported");
	}
	if (header->method != BOX_ZIP_STORED && header->method != BOX_ZIP_DEFLATED) {
		return refuse(err, header, "Archive entry has a compression that is not supported");
	}
	return 0;
}

static int check_sizes(const struct box_zip_header *header, struct box_err *err)
{
	if (header->size > BOX_ARCHIVE_ENTRY_BYTES_MAX) {
		return refuse(err, header, "Archive entry exceeds the uncompressed size limit");
	}
	if (header->size > (uint64_t)header->packed_size * BOX_ARCHIVE_RATIO_MAX) {
		return refuse(err, header, "Archive entry exceeds the compression ratio limit");
	}
	if (header->method == BOX_ZIP_STORED && header->packed_size != header->size) {
		return refuse(err, header, "Archive contains invalid size metadata");
	}
	return 0;
}

/* Both headers have extra fields. Two kinds of them could give the entry another size or another name. */
static int check_extra(
	const struct box_zip_header *header, struct box_zip_run extra, struct box_err *err)
{
	/* Some packers align with one to three bytes that are not a field. */
	while (extra.len >= 4) {
		unsigned int id = box_zip_u16(extra.bytes);
		struct box_zip_run field = {extra.bytes + 4, box_zip_u16(extra.bytes + 2)};
		if (field.len > extra.len - 4) {
			return refuse(err, header, BOX_ZIP_REFUSED ": broken extra field");
		}
		if (id == BOX_ZIP_EXTRA_ZIP64) {
			return refuse(err, header, BOX_ZIP_REFUSED ": ZIP64 is not supported");
		}
		if (id == EXTRA_OTHER_NAME &&
			(field.len != header->name.len + OTHER_NAME_HEAD ||
				memcmp(field.bytes + OTHER_NAME_HEAD, header->name.bytes,
					header->name.len) != 0)) {
			return refuse(err, header, BOX_ZIP_REFUSED ": an entry has two names");
		}
		extra.bytes += 4 + field.len;
		extra.len -= 4 + field.len;
	}
	return 0;
}

int box_zip_header_check(const struct box_zip_header *header, bool is_folder, struct box_err *err)
{
	int r = check_kind(header, is_folder, err);
	if (r == 0) {
		r = check_method(header, err);
	}
	if (r == 0 &&
		(header->size == UINT32_MAX || header->packed_size == UINT32_MAX ||
			header->offset == UINT32_MAX)) {
		r = refuse(err, header, BOX_ZIP_REFUSED ": ZIP64 is not supported");
	}
	if (r == 0) {
		r = check_sizes(header, err);
	}
	if (r == 0 && header->disk != 0) {
		r = refuse(err, header, BOX_ZIP_REFUSED ": part of a split archive");
	}
	return r < 0 ? r : check_extra(header, header->extra, err);
}

/* --- the local header --- */

static bool same_name(const struct box_zip_header *header, const uint8_t *local)
{
	return box_zip_u16(local + 26) == header->name.len &&
		memcmp(local + BOX_ZIP_LOCAL_BYTES, header->name.bytes, header->name.len) == 0;
}

/* Compares three numbers at `at`. If a descriptor follows, the local header may have 0 for each. */
static bool same_numbers(const struct box_zip_header *header, const uint8_t *at, bool or_zero)
{
	const uint32_t expected[] = {header->crc, header->packed_size, header->size};
	for (size_t i = 0; i < 3; i++) {
		uint32_t number = box_zip_u32(at + 4 * i);
		if (number != expected[i] && !(or_zero && number == 0)) {
			return false;
		}
	}
	return true;
}

/* The length of the descriptor at `at`, with or without its signature; 0 if it is wrong. */
static size_t match_descriptor(const struct box_zip_header *header, const uint8_t *at, size_t left)
{
	if (left >= 16 && box_zip_u32(at) == DESCRIPTOR_MAGIC &&
		same_numbers(header, at + 4, false)) {
		return 16;
	}
	return left >= 12 && same_numbers(header, at, false) ? 12 : 0;
}

int box_zip_header_match(const struct box_zip_header *header, struct box_zip_run space,
	size_t *ret_data, size_t *ret_end, struct box_err *err)
{
	const char *const disagree = BOX_ZIP_REFUSED ": an entry's headers disagree";
	size_t left = header->offset < space.len ? space.len - header->offset : 0;
	const uint8_t *local = space.bytes + (left > 0 ? header->offset : 0);
	if (left < BOX_ZIP_LOCAL_BYTES || box_zip_u32(local) != BOX_ZIP_LOCAL_MAGIC) {
		return refuse(err, header, BOX_ZIP_REFUSED ": an entry is misplaced");
	}
	size_t name_len = box_zip_u16(local + 26);
	size_t extra_len = box_zip_u16(local + 28);
	if (left - BOX_ZIP_LOCAL_BYTES < name_len + extra_len) {
		return refuse(err, header, BOX_ZIP_REFUSED ": an entry is cut off");
	}
	bool has_descriptor = header->flags & FLAG_DESCRIPTOR;
	struct box_zip_run extra = {local + BOX_ZIP_LOCAL_BYTES + name_len, extra_len};
	if (!same_name(header, local) || box_zip_u16(local + 6) != header->flags ||
		box_zip_u16(local + 8) != header->method) {
		return refuse(err, header, disagree);
	}
	int r = check_extra(header, extra, err);
	if (r < 0) {
		return r;
	}
	if (!same_numbers(header, local + 14, has_descriptor)) {
		return refuse(err, header, disagree);
	}
	left -= BOX_ZIP_LOCAL_BYTES + name_len + extra_len;
	if (left < header->packed_size) {
		return refuse(err, header, BOX_ZIP_REFUSED ": an entry is cut off");
	}
	size_t data = header->offset + BOX_ZIP_LOCAL_BYTES + name_len + extra_len;
	size_t end = data + header->packed_size;
	if (has_descriptor) {
		size_t descriptor = match_descriptor(
			header, space.bytes + end, left - header->packed_size);
		if (descriptor == 0) {
			return refuse(err, header, disagree);
		}
		end += descriptor;
	}
	*ret_data = data;
	*ret_end = end;
	return 0;
}
