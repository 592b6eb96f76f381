/* Uploaded ZIPs. What the check accepts keeps to every limit and leads nowhere outside; entries
 * share no byte and none is outside of the archive; and it is either unpacked, or refused with a
 * reason and nothing written. The same bytes as an archive inside an archive: what is counted keeps
 * to the limits. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/utf8.h"
#include "skills/archive/archive_write.h"
#include "skills/archive/inflater.h"
#include "skills/archive/zip.h"
#include "skills/archive/zip_nested.h"
#include "tests/fuzz/common.h"

static void check_path(const char *path)
{
	size_t depth = 0;
	MUST(box_utf8_valid(path, strlen(path)) && strlen(path) < BOX_PATH_MAX);
	MUST(path[0] != '\0' && !strchr(path, '\\'));
	for (const char *part = path; part; depth++) {
		const char *slash = strchr(part, '/');
		size_t len = slash ? (size_t)(slash - part) : strlen(part);
		MUST(len > 0 && len <= BOX_ARCHIVE_PART_BYTES_MAX);
		MUST(!(len == 1 && part[0] == '.') && !(len == 2 && memcmp(part, "..", 2) == 0));
		part = slash ? slash + 1 : NULL;
	}
	MUST(depth <= BOX_ARCHIVE_DEPTH_MAX);
}

static void check_zip(const struct box_zip *zip, const uint8_t *bytes, size_t size)
{
	uint64_t total = 0;
	uint64_t packed = 0;
	MUST(zip->count <= BOX_ARCHIVE_ENTRIES_MAX);
	MUST(zip->folder_count <= BOX_ARCHIVE_FOLDERS_MAX);
	for (size_t i = 0; i < zip->folder_count; i++) {
		check_path(zip->folders[i]);
	}
	for (size_t i = 0; i < zip->count; i++) {
		const struct box_zip_entry *entry = &zip->entries[i];
		check_path(entry->path);
		MUST(entry->name && entry->size <= BOX_ARCHIVE_ENTRY_BYTES_MAX);
		MUST(entry->size <= (uint64_t)entry->packed_size * BOX_ARCHIVE_RATIO_MAX);
		MUST(entry->packed >= bytes && entry->packed_size <= size);
		MUST(entry->packed + entry->packed_size <= bytes + size);
		MUST(!entry->is_folder || entry->size == 0);
		total += entry->size;
		packed += entry->packed_size;
		for (size_t k = 0; k < i; k++) {
			MUST(strcmp(zip->entries[k].path, entry->path) != 0);
		}
	}
	/* No byte is counted twice. */
	MUST(packed <= size && total <= BOX_ARCHIVE_TOTAL_BYTES_MAX);
}

/* The files on disk are those that the check reported, and can be removed by their names. */
static void unpack(const struct box_zip *zip, struct box_err *err)
{
	char folder[] = "/dev/shm/box-fuzz-XXXXXX";
	if (!mkdtemp(folder)) {
		return;
	}
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	MUST(fd >= 0);
	int r = box_archive_write(zip, fd, err);
	MUST(r == 0 || (r < 0 && err->text[0] != '\0'));
	for (size_t i = 0; i < zip->count; i++) {
		const struct box_zip_entry *entry = &zip->entries[i];
		struct stat st;
		bool is_there = fstatat(fd, entry->path, &st, AT_SYMLINK_NOFOLLOW) == 0;
		MUST(is_there || r < 0);
		MUST(!is_there || r == 0 || err->code != BOX_ERR_VALIDATION);
		if (is_there && !entry->is_folder) {
			MUST(S_ISREG(st.st_mode) && (uint64_t)st.st_size == entry->size);
			MUST(unlinkat(fd, entry->path, 0) == 0);
		}
	}
	for (size_t i = zip->folder_count; i-- > 0;) {
		MUST(unlinkat(fd, zip->folders[i], AT_REMOVEDIR) == 0 || r < 0);
	}
	(void)close(fd);
	MUST(rmdir(folder) == 0);
}

static void check_nested(const uint8_t *data, size_t size, struct box_err *err)
{
	struct box_zip_entry entry = {
		.name = "x", .packed_size = (uint32_t)size, .size = (uint32_t)size};
	struct box_zip_nested nested = {.inflater = box_inflater_new(), .bytes = size};
	MUST(nested.inflater);
	err->text[0] = '\0';
	int r = box_zip_nested_add(&nested, &entry, data, err);
	MUST(r == 0 || (r == -EINVAL && err->code == BOX_ERR_VALIDATION && err->text[0] != '\0'));
	MUST(nested.bytes <= BOX_ARCHIVE_TOTAL_BYTES_MAX);
	if (r == 0) {
		MUST(nested.entries <= BOX_ARCHIVE_NESTED_ENTRIES_MAX);
		MUST(nested.bytes <= (uint64_t)size * BOX_ARCHIVE_RATIO_MAX || size == 0);
	}
	box_inflater_free(nested.inflater);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct box_err err;
	struct box_zip zip;
	struct box_arena *arena = box_arena_new();
	err.text[0] = '\0';
	int r = box_zip_check(data, size, arena, &zip, &err);
	if (r < 0) {
		MUST(r == -EINVAL && err.code == BOX_ERR_VALIDATION && err.text[0] != '\0');
		MUST(box_utf8_valid(err.text, strlen(err.text)));
	} else {
		check_zip(&zip, data, size);
		unpack(&zip, &err);
	}
	box_arena_free(arena);
	if (size <= BOX_ARCHIVE_ENTRY_BYTES_MAX) {
		check_nested(data, size, &err);
	}
	return 0;
}
