/* Validates requests for file operations and their answers. box-init checks what box-rpc sent, and
 * box-rpc what a box answered. Pure: no allocation, no system calls. */
#include "protocol/init_file.h"

#include <errno.h>
#include <string.h>

#include "base/macros.h"

#define ERRNO_MAX 4095
#define NSEC_MAX 999999999U
#define PERMISSIONS_MAX 0777U
#define MODE_MAX 07777U
#define TEXTS 4

static bool text_fits(const char *bytes, uint32_t size)
{
	return size >= 1 && size <= BOX_INIT_FILE_TEXT_MAX &&
		memchr(bytes, '\0', size) == bytes + size - 1;
}

static bool flags_fit(const struct box_init_file *file)
{
	uint32_t write = BOX_INIT_FILE_AT_OFFSET | BOX_INIT_FILE_APPEND;
	uint32_t make = BOX_INIT_FILE_PARENTS | BOX_INIT_FILE_MODE;
	uint32_t allowed = 0;
	switch (file->kind) {
	case BOX_INIT_FILE_WRITE:
		allowed = write | make;
		break;
	case BOX_INIT_FILE_MKDIR:
		allowed = make;
		break;
	case BOX_INIT_FILE_REMOVE:
	case BOX_INIT_FILE_WATCH:
		allowed = BOX_INIT_FILE_RECURSIVE;
		break;
	case BOX_INIT_FILE_MOVE:
		allowed = BOX_INIT_FILE_REPLACE;
		break;
	default:
		break;
	}
	return (file->flags & ~allowed) == 0 && (file->flags & write) != write;
}

int box_init_file_check(const char *bytes, size_t size, struct box_init_file *ret_file,
	const char *ret_texts[TEXTS])
{
	struct box_init_file file;
	if (size < sizeof(file)) {
		return -EBADMSG;
	}
	memcpy(&file, bytes, sizeof(file));
	if (file.kind == 0 || file.kind >= BOX_INIT_FILE_KINDS_ || !flags_fit(&file) ||
		file.mode > PERMISSIONS_MAX || file.offset > INT64_MAX ||
		file.size > INT64_MAX - file.offset) {
		return -EBADMSG;
	}
	size_t at = sizeof(file);
	for (int i = 0; i < TEXTS; i++) {
		if (file.sizes[i] > size - at || !text_fits(bytes + at, file.sizes[i])) {
			return -EBADMSG;
		}
		ret_texts[i] = bytes + at;
		at += file.sizes[i];
	}
	bool moves = file.kind == BOX_INIT_FILE_MOVE;
	if (at != size || ret_texts[0][0] != '/' || moves != (ret_texts[2][0] == '/')) {
		return -EBADMSG;
	}
	*ret_file = file;
	return 0;
}

/* --- answers --- */

static bool facts_fit(const struct box_init_file_facts *facts)
{
	bool link = facts->type == BOX_INIT_FILE_TYPE_LINK;
	return facts->type < BOX_INIT_FILE_TYPES_ && facts->mode <= MODE_MAX &&
		facts->size <= INT64_MAX && facts->mtime_nsec <= NSEC_MAX &&
		facts->target_size < BOX_INIT_FILE_TEXT_MAX && (link || facts->target_size == 0);
}

/* How many bytes the answer may have on stdout. */
static uint64_t data_bytes_max(const struct box_init_file *file)
{
	switch (file->kind) {
	case BOX_INIT_FILE_READ:
	case BOX_INIT_FILE_LIST:
		return file->size;
	case BOX_INIT_FILE_STAT:
		return BOX_INIT_FILE_TEXT_MAX - 1;
	case BOX_INIT_FILE_MEASURE:
		return sizeof(struct box_init_file_measured);
	default:
		return 0;
	}
}

int box_init_file_read_answer(const struct box_init_file *file, struct box_str err,
	size_t data_size, struct box_init_file_answer *ret_answer)
{
	struct box_init_file_answer answer;
	if (err.len != sizeof(answer)) {
		return -EBADMSG;
	}
	memcpy(&answer, err.bytes, sizeof(answer));
	bool failed = answer.errnum != 0;
	if (answer.errnum < 0 || answer.errnum > ERRNO_MAX || answer.of_to > 1 || answer.more > 1 ||
		answer.why >= BOX_INIT_FILE_WHYS_ ||
		(answer.why != BOX_INIT_FILE_WHY_NONE && !failed) || !facts_fit(&answer.facts)) {
		return -EBADMSG;
	}
	/* Bytes that were read before a failure are not returned. */
	if (failed ? answer.data_size != 0 : answer.data_size != data_size) {
		return -EBADMSG;
	}
	uint64_t written_max = file->kind == BOX_INIT_FILE_WRITE ? file->size : 0;
	if (data_size > data_bytes_max(file) || answer.written > written_max) {
		return -EBADMSG;
	}
	bool has_facts = file->kind == BOX_INIT_FILE_STAT && !failed;
	if (has_facts &&
		(answer.facts.type == BOX_INIT_FILE_TYPE_NONE ||
			answer.facts.target_size != data_size)) {
		return -EBADMSG;
	}
	*ret_answer = answer;
	return 0;
}

static bool part_fits(const struct box_init_file_part *part)
{
	return part->exists <= 1 && part->size_bytes <= INT64_MAX && part->file_count <= INT64_MAX;
}

int box_init_file_read_measured(struct box_str data, struct box_init_file_measured *ret_measured)
{
	struct box_init_file_measured measured;
	if (data.len != sizeof(measured)) {
		return -EBADMSG;
	}
	memcpy(&measured, data.bytes, sizeof(measured));
	if (!part_fits(&measured.workspace) || !part_fits(&measured.cache) ||
		!part_fits(&measured.temp)) {
		return -EBADMSG;
	}
	*ret_measured = measured;
	return 0;
}

/* Removes `size` bytes from the front. */
static struct box_str take(struct box_str *left, size_t size)
{
	struct box_str taken = {left->bytes, size};
	left->bytes += size;
	left->len -= size;
	return taken;
}

static bool has(struct box_str bytes, char c)
{
	return bytes.len > 0 && memchr(bytes.bytes, c, bytes.len) != NULL;
}

static bool is_name(struct box_str name)
{
	return name.len > 0 && name.len <= BOX_INIT_FILE_NAME_MAX && !has(name, '/') &&
		!has(name, '\0') && !box_str_eq(name, ".") && !box_str_eq(name, "..");
}

static int compare(struct box_str a, struct box_str b)
{
	size_t len = BOX_MIN(a.len, b.len);
	int order = len > 0 ? memcmp(a.bytes, b.bytes, len) : 0;
	return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

int box_init_file_next_entry(
	struct box_str *left, struct box_str after, struct box_init_file_entry_read *ret_named)
{
	struct box_init_file_entry entry;
	struct box_init_file_entry_read named;
	if (left->len == 0) {
		return 0;
	}
	if (left->len < sizeof(entry)) {
		return -EBADMSG;
	}
	memcpy(&entry, take(left, sizeof(entry)).bytes, sizeof(entry));
	named.facts = entry.facts;
	if (!facts_fit(&entry.facts) || entry.facts.type == BOX_INIT_FILE_TYPE_NONE ||
		entry.reserved != 0 || entry.name_size > left->len ||
		entry.facts.target_size > left->len - entry.name_size) {
		return -EBADMSG;
	}
	named.name = take(left, entry.name_size);
	named.target = take(left, entry.facts.target_size);
	if (!is_name(named.name) || has(named.target, '\0') || compare(named.name, after) <= 0) {
		return -EBADMSG;
	}
	*ret_named = named;
	return 1;
}

/* --- events --- */

bool box_init_file_is_below(struct box_str path)
{
	while (path.len > 0) {
		const char *slash = memchr(path.bytes, '/', path.len);
		size_t len = slash ? (size_t)(slash - path.bytes) : path.len;
		if (!is_name((struct box_str){path.bytes, len})) {
			return false;
		}
		if (!slash) {
			return true;
		}
		(void)take(&path, len + 1);
	}
	return false;
}

static bool event_fits(const struct box_init_file_event *event)
{
	if (event->change == 0 || event->change >= BOX_INIT_FILE_CHANGES_ || event->is_folder > 1 ||
		event->path_size >= BOX_INIT_FILE_TEXT_MAX ||
		event->from_size >= BOX_INIT_FILE_TEXT_MAX) {
		return false;
	}
	bool moved = event->change == BOX_INIT_FILE_MOVED;
	bool plain = event->change == BOX_INIT_FILE_STARTED ||
		event->change == BOX_INIT_FILE_OVERFLOW;
	return moved == (event->from_size > 0) && !(plain && event->path_size > 0) &&
		!(moved && event->path_size == 0);
}

int box_init_file_next_event(struct box_str *left, struct box_init_file_event_read *ret_changed)
{
	struct box_init_file_event event;
	if (left->len < sizeof(event)) {
		return 0;
	}
	memcpy(&event, left->bytes, sizeof(event));
	if (!event_fits(&event)) {
		return -EBADMSG;
	}
	if (left->len - sizeof(event) < event.path_size + event.from_size) {
		return 0;
	}
	(void)take(left, sizeof(event));
	*ret_changed = (struct box_init_file_event_read){
		.change = event.change,
		.is_folder = event.is_folder != 0,
		.path = take(left, event.path_size),
		.from = take(left, event.from_size),
	};
	bool below = (event.path_size == 0 || box_init_file_is_below(ret_changed->path)) &&
		(event.from_size == 0 || box_init_file_is_below(ret_changed->from));
	return below ? 1 : -EBADMSG;
}
