/* Reads and writes tar archives. The reader goes block by block, and gives data in the pieces in which it
 * comes; the writer puts a pax header before an entry that does not fit into ustar. libarchive is not used
 * because the archive of a box is untrusted: this code accepts what `box cp` needs and nothing else. */
#include "cli/copy/tar.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/macros.h"

/* --- names --- */

bool box_tar_next_part(struct box_str *path, struct box_str *ret_part)
{
	while (path->len > 0) {
		const char *slash = memchr(path->bytes, '/', path->len);
		size_t len = slash ? (size_t)(slash - path->bytes) : path->len;
		struct box_str part = {path->bytes, len};
		size_t used = slash ? len + 1 : len;
		path->bytes += used;
		path->len -= used;
		if (len > 0 && !box_str_eq(part, ".")) {
			*ret_part = part;
			return true;
		}
	}
	return false;
}

const char *box_tar_check_name(struct box_str path)
{
	struct box_str part;
	size_t depth = 0;
	if (path.len == 0) {
		return "its name is empty";
	}
	if (path.len >= PATH_MAX) {
		return "its name is too long";
	}
	if (memchr(path.bytes, '\0', path.len)) {
		return "has a NUL in its name";
	}
	if (path.bytes[0] == '/') {
		return "has an absolute name";
	}
	while (box_tar_next_part(&path, &part)) {
		if (box_str_eq(part, "..")) {
			return "has \"..\" in its name";
		}
		if (part.len > NAME_MAX) {
			return "its name is too long";
		}
		if (++depth > BOX_COPY_DEPTH_MAX) {
			return "is in too many folders";
		}
	}
	return NULL;
}

/* --- the reader --- */

enum {
	AT_HEADER,
	AT_GATHER,
	AT_DATA,
	AT_PADDING,
	AT_END,
};

enum {
	EXTRA_NONE,
	EXTRA_PAX,
	EXTRA_GLOBAL,
	EXTRA_PATH,
	EXTRA_LINK,
};

/* Offsets in a header. */
#define AT_NAME 0
#define NAME_SIZE 100
#define AT_MODE 100
#define AT_SIZE 124
#define AT_MTIME 136
#define AT_CHECKSUM 148
#define AT_TYPE 156
#define AT_LINK 157
#define AT_MAGIC 257
#define AT_PREFIX 345
#define PREFIX_SIZE 155
#define NANOSECONDS 1000000000LL

void box_tar_reader_start(struct box_tar_reader *reader)
{
	memset(reader, 0, sizeof(*reader));
	reader->gather = box_buf(BOX_TAR_EXTRA_BYTES_MAX);
	reader->path = box_buf(BOX_TAR_EXTRA_BYTES_MAX);
	reader->link = box_buf(BOX_TAR_EXTRA_BYTES_MAX);
}

void box_tar_reader_free(struct box_tar_reader *reader)
{
	box_buf_free(&reader->gather);
	box_buf_free(&reader->path);
	box_buf_free(&reader->link);
}

bool box_tar_reader_at_edge(const struct box_tar_reader *reader)
{
	bool between = reader->state == AT_HEADER ||
		(reader->state == AT_PADDING && reader->padding == 0);
	return reader->state == AT_END ||
		(between && reader->block_len == 0 && reader->extra == EXTRA_NONE);
}

/* --- numbers --- */

/* Octal digits with blanks around them; or, with the highest bit set, a binary number of up to 63 bits. -1 when
 * it is neither. */
static int64_t number(const char *field, size_t size)
{
	const unsigned char *bytes = (const unsigned char *)field;
	uint64_t value = 0;
	if (bytes[0] & 0x80) {
		/* Numbers that do not fit, or are negative, are invalid. */
		for (size_t i = 0; i < size; i++) {
			unsigned char byte = i == 0 ? bytes[0] & 0x7f : bytes[i];
			if (value >> 55) {
				return -1;
			}
			value = value << 8 | byte;
		}
		return (int64_t)value;
	}
	size_t at = 0;
	while (at < size && field[at] == ' ') {
		at++;
	}
	for (; at < size && field[at] >= '0' && field[at] <= '7'; at++) {
		value = value << 3 | (unsigned)(field[at] - '0'); /* 12 digits at most */
	}
	for (; at < size; at++) {
		if (field[at] != ' ' && field[at] != '\0') {
			return -1;
		}
	}
	return (int64_t)value;
}

static bool checksum_right(const char *block)
{
	uint32_t sum = 0;
	for (size_t i = 0; i < BOX_TAR_BLOCK; i++) {
		bool own = i >= AT_CHECKSUM && i < AT_CHECKSUM + 8;
		sum += own ? ' ' : (unsigned char)block[i];
	}
	return number(block + AT_CHECKSUM, 8) == (int64_t)sum;
}

/* Digits without a sign. -1 when it is not a number, or too large. */
static int64_t decimal(struct box_str text)
{
	int64_t value = 0;
	if (text.len == 0 || text.len > 18) {
		return -1;
	}
	for (size_t i = 0; i < text.len; i++) {
		if (text.bytes[i] < '0' || text.bytes[i] > '9') {
			return -1;
		}
		value = value * 10 + (text.bytes[i] - '0');
	}
	return value;
}

/* Seconds with any number of digits after the point. A time before 1970 becomes 1970. */
static int read_time(struct box_tar_reader *reader, struct box_str text)
{
	const char *point = text.len > 0 ? memchr(text.bytes, '.', text.len) : NULL;
	struct box_str whole = {text.bytes, point ? (size_t)(point - text.bytes) : text.len};
	if (text.len > 0 && text.bytes[0] == '-') {
		whole = box_str("0");
		point = NULL;
	}
	reader->mtime_sec = decimal(whole);
	reader->mtime_nsec = 0;
	uint32_t unit = NANOSECONDS / 10;
	for (const char *at = point ? point + 1 : NULL; at && at < text.bytes + text.len; at++) {
		if (*at < '0' || *at > '9') {
			return -EINVAL;
		}
		reader->mtime_nsec += (uint32_t)(*at - '0') * unit;
		unit /= 10;
	}
	reader->has_mtime = true;
	return reader->mtime_sec < 0 ? -EINVAL : 0;
}

/* --- extra headers --- */

static const char *pax_member(
	struct box_tar_reader *reader, struct box_str key, struct box_str value)
{
	bool nul = value.len > 0 && memchr(value.bytes, '\0', value.len);
	if (box_str_eq(key, "path") || box_str_eq(key, "linkpath")) {
		struct box_buf *to = box_str_eq(key, "path") ? &reader->path : &reader->link;
		to->len = 0;
		if (nul || value.len == 0 || box_buf_append(to, value.bytes, value.len) < 0) {
			return "a name in a pax header is empty, too long or has a NUL";
		}
	} else if (box_str_eq(key, "size")) {
		reader->size = decimal(value);
		reader->has_size = true;
		return reader->size < 0 ? "an invalid size in a pax header" : NULL;
	} else if (box_str_eq(key, "mtime")) {
		return read_time(reader, value) < 0 ? "an invalid time in a pax header" : NULL;
	} else if (key.len >= 10 && memcmp(key.bytes, "GNU.sparse", 10) == 0) {
		reader->sparse = true;
	}
	return NULL;
}

/* Records "LENGTH KEY=VALUE\n", where the length counts all of it. */
static const char *read_pax(struct box_tar_reader *reader)
{
	struct box_str left = {reader->gather.bytes, reader->gather.len};
	while (left.len > 0) {
		const char *blank = memchr(left.bytes, ' ', left.len < 20 ? left.len : 20);
		size_t digits = blank ? (size_t)(blank - left.bytes) : 0;
		int64_t len = decimal((struct box_str){left.bytes, digits});
		if (!blank || len < 0 || (size_t)len > left.len || (size_t)len < digits + 3 ||
			left.bytes[len - 1] != '\n') {
			return "a pax header is malformed";
		}
		struct box_str record = {blank + 1, (size_t)len - digits - 2};
		const char *equals = memchr(record.bytes, '=', record.len);
		if (!equals || equals == record.bytes) {
			return "a pax header is malformed";
		}
		size_t key = (size_t)(equals - record.bytes);
		const char *why = pax_member(reader, (struct box_str){record.bytes, key},
			(struct box_str){equals + 1, record.len - key - 1});
		if (why) {
			return why;
		}
		left.bytes += len;
		left.len -= (size_t)len;
	}
	return NULL;
}

/* GNU format: the name is the data, with a NUL behind it. */
static const char *read_long_name(struct box_tar_reader *reader, struct box_buf *to)
{
	size_t len = reader->gather.len;
	len = len > 0 ? strnlen(reader->gather.bytes, len) : 0;
	to->len = 0;
	if (len == 0 || box_buf_append(to, reader->gather.bytes, len) < 0) {
		return "a long name is empty";
	}
	return NULL;
}

static const char *extra_whole(struct box_tar_reader *reader)
{
	switch (reader->extra) {
	case EXTRA_PAX:
		return read_pax(reader);
	case EXTRA_PATH:
		return read_long_name(reader, &reader->path);
	case EXTRA_LINK:
		return read_long_name(reader, &reader->link);
	default:
		return NULL; /* a global header: nothing in it matters here */
	}
}

/* --- headers --- */

static struct box_str short_name(const char *field, size_t size)
{
	return (struct box_str){field, strnlen(field, size)};
}

static struct box_str entry_path(struct box_tar_reader *reader)
{
	const char *block = reader->block;
	struct box_str name = short_name(block + AT_NAME, NAME_SIZE);
	struct box_str prefix = short_name(block + AT_PREFIX, PREFIX_SIZE);
	/* The GNU format has times in place of the prefix. */
	bool ustar = memcmp(block + AT_MAGIC, "ustar\0", 6) == 0;
	if (reader->path.len > 0) {
		return (struct box_str){reader->path.bytes, reader->path.len};
	}
	char *at = reader->path_room;
	if (ustar && prefix.len > 0) {
		memcpy(at, prefix.bytes, prefix.len);
		at += prefix.len;
		*at++ = '/';
	}
	memcpy(at, name.bytes, name.len);
	return (struct box_str){reader->path_room, (size_t)(at - reader->path_room) + name.len};
}

static struct box_str entry_link(struct box_tar_reader *reader)
{
	struct box_str name = short_name(reader->block + AT_LINK, NAME_SIZE);
	if (reader->link.len > 0) {
		return (struct box_str){reader->link.bytes, reader->link.len};
	}
	memcpy(reader->link_room, name.bytes, name.len);
	return (struct box_str){reader->link_room, name.len};
}

static void set_type(struct box_tar_entry *entry, char type)
{
	static const struct {
		char letter;
		enum box_tar_type type;
		const char *what;
	} types[] = {
		{'0', BOX_TAR_FILE, "a file"},
		{'\0', BOX_TAR_FILE, "a file"},
		{'7', BOX_TAR_FILE, "a file"},
		{'1', BOX_TAR_HARD_LINK, "a hard link"},
		{'2', BOX_TAR_LINK, "a symbolic link"},
		{'3', BOX_TAR_OTHER, "a device"},
		{'4', BOX_TAR_OTHER, "a device"},
		{'5', BOX_TAR_FOLDER, "a folder"},
		{'6', BOX_TAR_OTHER, "a FIFO"},
		{'S', BOX_TAR_OTHER, "a sparse file"},
		{'M', BOX_TAR_OTHER, "a part of a multi-volume archive"},
	};
	entry->type = BOX_TAR_OTHER;
	entry->what = "of an unknown kind";
	for (size_t i = 0; i < BOX_COUNT_OF(types); i++) {
		if (types[i].letter == type) {
			entry->type = types[i].type;
			entry->what = types[i].what;
		}
	}
}

static int extra_kind(char type)
{
	return type == 'x'    ? EXTRA_PAX
		: type == 'g' ? EXTRA_GLOBAL
		: type == 'L' ? EXTRA_PATH
		: type == 'K' ? EXTRA_LINK
			      : EXTRA_NONE;
}

/* Fills the entry from its header and the extra headers before it. */
static const char *set_entry(struct box_tar_reader *reader, int64_t size)
{
	const char *block = reader->block;
	struct box_tar_entry *entry = &reader->entry;
	int64_t mode = number(block + AT_MODE, 8);
	int64_t mtime = number(block + AT_MTIME, 12);
	set_type(entry, block[AT_TYPE]);
	size = reader->has_size ? reader->size : size;
	if (mode < 0 || size < 0 || size > BOX_TAR_SIZE_MAX) {
		return "a header has invalid numbers";
	}
	entry->mode = (unsigned)mode & 07777;
	entry->mtime_sec = reader->has_mtime ? reader->mtime_sec : mtime < 0 ? 0 : mtime;
	entry->mtime_nsec = reader->has_mtime ? reader->mtime_nsec : 0;
	entry->path = entry_path(reader);
	entry->link = entry_link(reader);
	if (reader->sparse) {
		entry->type = BOX_TAR_OTHER;
		entry->what = "a sparse file";
	}
	/* In old archives only the last character shows that it is a folder. */
	if (entry->type == BOX_TAR_FILE && entry->path.len > 0 &&
		entry->path.bytes[entry->path.len - 1] == '/') {
		entry->type = BOX_TAR_FOLDER;
		entry->what = "a folder";
	}
	/* Some writers give links a size and no data, as POSIX allows for hard links. */
	bool dataless = entry->type == BOX_TAR_LINK || entry->type == BOX_TAR_FOLDER ||
		entry->type == BOX_TAR_HARD_LINK;
	reader->left = dataless ? 0 : (uint64_t)size;
	entry->size = entry->type == BOX_TAR_FILE ? size : 0;
	return NULL;
}

static const char *header_whole(struct box_tar_reader *reader, bool *ret_entry)
{
	const char *block = reader->block;
	int64_t size = number(block + AT_SIZE, 12);
	int extra = extra_kind(block[AT_TYPE]);
	*ret_entry = extra == EXTRA_NONE;
	if (!checksum_right(block)) {
		return "wrong checksum in a header: this is not a tar archive";
	}
	if (extra != EXTRA_NONE) {
		if (size < 0 || size > (int64_t)BOX_TAR_EXTRA_BYTES_MAX) {
			return "a pax header or a long name is too long";
		}
		reader->left = (uint64_t)size;
		reader->extra = extra;
		reader->gather.len = 0;
		reader->state = AT_GATHER;
	} else {
		const char *why = set_entry(reader, size);
		if (why) {
			return why;
		}
		reader->extra = EXTRA_NONE;
		reader->state = AT_DATA;
	}
	reader->padding = box_tar_padding(reader->left);
	return NULL;
}

/* Extra headers apply to one entry only. */
static void forget_extras(struct box_tar_reader *reader)
{
	reader->path.len = reader->link.len = 0;
	reader->has_size = reader->has_mtime = reader->sparse = false;
}

static bool is_zero(const char *block)
{
	return block[0] == '\0' && memcmp(block, block + 1, BOX_TAR_BLOCK - 1) == 0;
}

/* --- states --- */

static enum box_tar_event step_header(
	struct box_tar_reader *reader, struct box_str *bytes, const char **ret_why)
{
	size_t room = BOX_TAR_BLOCK - reader->block_len;
	size_t piece = BOX_MIN(bytes->len, room);
	bool entry = false;
	memcpy(reader->block + reader->block_len, bytes->bytes, piece);
	reader->block_len += piece;
	bytes->bytes += piece;
	bytes->len -= piece;
	if (reader->block_len < BOX_TAR_BLOCK) {
		return BOX_TAR_MORE;
	}
	reader->block_len = 0;
	if (is_zero(reader->block)) {
		reader->state = ++reader->zeros == 2 ? AT_END : AT_HEADER;
		return reader->state == AT_END ? BOX_TAR_END : BOX_TAR_MORE;
	}
	reader->zeros = 0;
	*ret_why = header_whole(reader, &entry);
	return *ret_why ? BOX_TAR_BROKEN : entry ? BOX_TAR_ENTRY : BOX_TAR_MORE;
}

static enum box_tar_event step_gather(
	struct box_tar_reader *reader, struct box_str *bytes, const char **ret_why)
{
	size_t piece = bytes->len < reader->left ? bytes->len : (size_t)reader->left;
	(void)box_buf_append(&reader->gather, bytes->bytes, piece);
	bytes->bytes += piece;
	bytes->len -= piece;
	reader->left -= piece;
	if (reader->left > 0) {
		return BOX_TAR_MORE;
	}
	reader->state = AT_PADDING;
	*ret_why = extra_whole(reader);
	return *ret_why ? BOX_TAR_BROKEN : BOX_TAR_MORE;
}

static enum box_tar_event step_data(
	struct box_tar_reader *reader, struct box_str *bytes, struct box_str *ret_data)
{
	if (reader->left == 0) {
		reader->state = AT_PADDING;
		forget_extras(reader);
		return BOX_TAR_DONE;
	}
	size_t piece = bytes->len < reader->left ? bytes->len : (size_t)reader->left;
	*ret_data = (struct box_str){bytes->bytes, piece};
	bytes->bytes += piece;
	bytes->len -= piece;
	reader->left -= piece;
	return BOX_TAR_DATA;
}

enum box_tar_event box_tar_reader_feed(struct box_tar_reader *reader, struct box_str bytes,
	size_t *ret_used, struct box_str *ret_data, const char **ret_why)
{
	enum box_tar_event event = BOX_TAR_MORE;
	size_t all = bytes.len;
	/* The end of an entry without data is an event without a byte. */
	while (event == BOX_TAR_MORE &&
		(bytes.len > 0 || (reader->state == AT_DATA && reader->left == 0) ||
			(reader->state == AT_GATHER && reader->left == 0))) {
		if (reader->state == AT_HEADER) {
			event = step_header(reader, &bytes, ret_why);
		} else if (reader->state == AT_GATHER) {
			event = step_gather(reader, &bytes, ret_why);
		} else if (reader->state == AT_DATA) {
			event = step_data(reader, &bytes, ret_data);
		} else if (reader->state == AT_PADDING) {
			size_t piece = bytes.len < reader->padding ? bytes.len
								   : (size_t)reader->padding;
			bytes.bytes += piece;
			bytes.len -= piece;
			reader->padding -= piece;
			reader->state = reader->padding > 0 ? AT_PADDING : AT_HEADER;
		} else {
			bytes.len = 0;
		}
	}
	*ret_used = all - bytes.len;
	return event;
}

/* --- the writer --- */

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
	if (r < 0) {
		return r;
	}
	r = box_buf_append(out, value.bytes, value.len);
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
		if (r == 0) {
			r = box_buf_append(out, records.bytes, records.len);
		}
		if (r == 0) {
			r = append_zeros(out, box_tar_padding(records.len));
		}
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
