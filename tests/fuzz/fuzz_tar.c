/* Archives from boxes. Wherever they are split, the reader reports the same; what it reports keeps
 * to its own rules; and what box_tar_check_name accepts stays below a folder. */
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "cli/copy/tar.h"
#include "tests/fuzz/common.h"

#define STORY_MAX (1 << 20)

static size_t tell(char *story, size_t at, const void *bytes, size_t len)
{
	if (len > STORY_MAX - at) {
		len = STORY_MAX - at;
	}
	if (len > 0) {
		memcpy(story + at, bytes, len);
	}
	return at + len;
}

static void check_path(struct box_str path)
{
	struct box_str part;
	MUST(path.len == 0 || !memchr(path.bytes, '\0', path.len));
	if (box_tar_check_name(path)) {
		return;
	}
	MUST(path.len > 0 && path.bytes[0] != '/');
	while (box_tar_next_part(&path, &part)) {
		MUST(part.len > 0 && !memchr(part.bytes, '/', part.len));
		MUST(!box_str_eq(part, "..") && !box_str_eq(part, "."));
	}
}

/* What was reported, independent of the split, and its length. */
static size_t run(const char *bytes, size_t len, size_t step, char *story)
{
	struct box_tar_reader reader;
	size_t at = 0;
	uint64_t data_left = 0;
	box_tar_reader_start(&reader);
	for (size_t done = 0;;) {
		struct box_str piece = {bytes + done, step < len - done ? step : len - done};
		size_t used = 0;
		struct box_str data = {NULL, 0};
		const char *why = NULL;
		enum box_tar_event event = box_tar_reader_feed(&reader, piece, &used, &data, &why);
		MUST(used <= piece.len);
		done += used;
		if (event == BOX_TAR_ENTRY) {
			const struct box_tar_entry *entry = &reader.entry;
			MUST(entry->mode <= 07777 && entry->what);
			MUST(entry->size >= 0 && entry->size <= BOX_TAR_SIZE_MAX);
			MUST(entry->mtime_sec >= 0 && entry->mtime_nsec < 1000000000);
			MUST(entry->type == BOX_TAR_FILE || entry->size == 0);
			check_path(entry->path);
			check_path(entry->link);
			data_left = (uint64_t)entry->size;
			at = tell(story, at, entry->path.bytes, entry->path.len);
			at = tell(story, at, entry->link.bytes, entry->link.len);
		} else if (event == BOX_TAR_DATA) {
			MUST(data.len > 0 && data.bytes >= piece.bytes &&
				data.bytes + data.len <= piece.bytes + piece.len);
			if (reader.entry.type == BOX_TAR_FILE) {
				MUST(data.len <= data_left);
				data_left -= data.len;
			}
			at = tell(story, at, data.bytes, data.len);
		} else if (event == BOX_TAR_DONE) {
			MUST(data_left == 0);
			at = tell(story, at, "|", 1);
		} else if (event == BOX_TAR_BROKEN) {
			MUST(why);
			at = tell(story, at, why, strlen(why));
			break;
		} else if (event == BOX_TAR_END) {
			at = tell(story, at, ".", 1);
		} else if (done == len) {
			at = tell(story, at, box_tar_reader_at_edge(&reader) ? "e" : "?", 1);
			break;
		}
	}
	box_tar_reader_free(&reader);
	return at;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char whole[STORY_MAX];
	static char cut[STORY_MAX];
	size_t step = size > 0 ? data[size - 1] % 600 + 1U : 1;
	size_t first = run((const char *)data, size, SIZE_MAX, whole);
	size_t second = run((const char *)data, size, step, cut);
	MUST(first == second && memcmp(whole, cut, first) == 0);
	return 0;
}
