/* The writer: ustar, with a pax header before it for what does not fit. */
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "cli/copy/tar.h"

#define NAME_SIZE 100
#define OCTAL_SIZE_MAX 077777777777LL /* 11 digits: 8 GiB less one */

struct header {
	char name[NAME_SIZE];
	char mode[8];
	char uid[8];
	char gid[8];
	char size[12];
	char mtime[12];
	char checksum[8];
	char type;
	char link[NAME_SIZE];
	char magic[8];
	char user[32];
	char group[32];
	char major[8];
	char minor[8];
	char prefix[155];
	char rest[12];
};
_Static_assert(sizeof(struct header) == BOX_TAR_BLOCK, "a header is a block");

size_t box_tar_padding(uint64_t size)
{
	return (size_t)(-size % BOX_TAR_BLOCK);
}

static int append_zeros(struct box_buf *out, size_t len)
{
	static const char zeros[BOX_TAR_BLOCK];
	return box_buf_append(out, zeros, len);
}

int box_tar_write_end(struct box_buf *out)
{
	int r = append_zeros(out, BOX_TAR_BLOCK);
	return r < 0 ? r : append_zeros(out, BOX_TAR_BLOCK);
}

static void put_octal(char *field, size_t size, int64_t value)
{
	char digits[24];
	(void)snprintf(digits, sizeof(digits), "%0*llo", (int)size - 1, (unsigned long long)value);
	memcpy(field, digits, size - 1);
}

static int append_header(struct box_buf *out, char type, struct box_str name, struct box_str link,
	const struct box_tar_entry *entry, int64_t size)
{
	struct header header = {.type = type, .magic = "ustar"};
	memcpy(header.magic + 6, "00", 2);
	memcpy(header.name, name.bytes, BOX_MIN(name.len, NAME_SIZE));
	if (link.len > 0) {
		memcpy(header.link, link.bytes, BOX_MIN(link.len, NAME_SIZE));
	}
	int64_t mtime = entry->mtime_sec;
	put_octal(header.mode, sizeof(header.mode), entry->mode & 07777);
	put_octal(header.uid, sizeof(header.uid), 0);
	put_octal(header.gid, sizeof(header.gid), 0);
	put_octal(header.size, sizeof(header.size), size <= OCTAL_SIZE_MAX ? size : 0);
	put_octal(header.mtime, sizeof(header.mtime),
		mtime >= 0 && mtime <= OCTAL_SIZE_MAX ? mtime : 0);
	memset(header.checksum, ' ', sizeof(header.checksum));
	unsigned sum = 0;
	for (size_t i = 0; i < sizeof(header); i++) {
		sum += ((const unsigned char *)&header)[i];
	}
	put_octal(header.checksum, 7, sum);
	header.checksum[6] = '\0';
	return box_buf_append(out, &header, sizeof(header));
}

/* "LENGTH KEY=VALUE\n", where the length counts itself. */
static int append_record(struct box_buf *out, const char *key, struct box_str value)
{
	size_t rest = strlen(key) + value.len + 3;
	size_t digits = 1;
	for (size_t most = 10; rest + digits >= most; most *= 10) {
		digits++;
	}
	int r = box_buf_printf(out, "%zu %s=", rest + digits, key);
	r = r < 0 ? r : box_buf_append(out, value.bytes, value.len);
	return r < 0 ? r : box_buf_append(out, "\n", 1);
}

static int append_pax(struct box_buf *out, const struct box_tar_entry *entry)
{
	struct box_buf records = box_buf(out->limit);
	char text[64];
	int r = 0;
	if (entry->path.len > NAME_SIZE) {
		r = append_record(&records, "path", entry->path);
	}
	if (r == 0 && entry->link.len > NAME_SIZE) {
		r = append_record(&records, "linkpath", entry->link);
	}
	if (r == 0 && entry->size > OCTAL_SIZE_MAX) {
		(void)snprintf(text, sizeof(text), "%lld", (long long)entry->size);
		r = append_record(&records, "size", box_str(text));
	}
	bool beyond = entry->mtime_sec < 0 || entry->mtime_sec > OCTAL_SIZE_MAX;
	if (r == 0 && (entry->mtime_nsec > 0 || beyond)) {
		(void)snprintf(text, sizeof(text), "%lld.%09u",
			(long long)(entry->mtime_sec < 0 ? 0 : entry->mtime_sec),
			entry->mtime_sec < 0 ? 0 : entry->mtime_nsec);
		r = append_record(&records, "mtime", box_str(text));
	}
	if (r == 0 && records.len > 0) {
		static const struct box_tar_entry plain = {.mode = 0644};
		r = append_header(
			out, 'x', box_str("pax"), box_str(""), &plain, (int64_t)records.len);
		r = r < 0 ? r : box_buf_append(out, records.bytes, records.len);
		r = r < 0 ? r : append_zeros(out, box_tar_padding(records.len));
	}
	box_buf_free(&records);
	return r;
}

int box_tar_write_entry(struct box_buf *out, const struct box_tar_entry *entry)
{
	char type = entry->type == BOX_TAR_FOLDER ? '5' : entry->type == BOX_TAR_LINK ? '2' : '0';
	int r = append_pax(out, entry);
	return r < 0 ? r
		     : append_header(out, type, entry->path, entry->link, entry,
			       entry->type == BOX_TAR_FILE ? entry->size : 0);
}
