/* Walks a folder by opened fds, in the order of names. Everything goes into the archive, except the folders of
 * version control; what cannot be packed is an error, and nothing is sent. */
#include "cli/skill/skill_pack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/limits.h"
#include "base/macros.h"
#include "cli/skill/zip_writer.h"
#include "skills/archive/zip.h"

#define READ_BYTES (64 * BOX_KIB)

struct packing {
	struct box_zip_writer *zip;
	struct box_arena *arena;
	struct box_err *err;
	size_t entries;
	uint64_t total;
	struct box_buf content; /* of one file; reused */
};

static int refuse(struct packing *packing, const char *name, const char *why)
{
	return box_err_set(packing->err, BOX_ERR_VALIDATION, EINVAL, "%s: %s", name, why);
}

static int fail(struct packing *packing, const char *name, int errnum)
{
	return box_err_set(
		packing->err, BOX_ERR_OS, errnum, "%s: %s", name, box_err_strerror(errnum));
}

/* Reads all of an opened file; the limit of the buffer is one byte more than allowed. */
static int read_all(int fd, struct box_buf *content)
{
	for (;;) {
		size_t room = content->limit - content->len;
		if (room == 0) {
			return -EMSGSIZE;
		}
		room = BOX_MIN(room, READ_BYTES);
		ssize_t got = read(fd, box_buf_reserve(content, room), room);
		if (got == 0 || (got < 0 && errno != EINTR)) {
			return got < 0 ? -errno : 0;
		}
		content->len += got > 0 ? (size_t)got : 0;
	}
}

static int add_entry(struct packing *packing, const char *name, const struct stat *status)
{
	const struct box_buf *content = &packing->content;
	if (++packing->entries > BOX_ARCHIVE_ENTRIES_MAX) {
		return refuse(packing, name, "exceeds the limit of 512 entries of a skill");
	}
	packing->total += content->len;
	if (packing->total > BOX_ARCHIVE_TOTAL_BYTES_MAX) {
		return refuse(packing, name, "makes the skill larger than 64 MiB");
	}
	bool executable = S_ISREG(status->st_mode) && (status->st_mode & 0111);
	return box_zip_writer_add(packing->zip, name, content->bytes, content->len, executable) < 0
		? refuse(packing, name, "makes the archive larger than 20 MiB")
		: 0;
}

static int add_file(struct packing *packing, int fd, const char *name, const struct stat *status)
{
	packing->content.len = 0;
	int r = read_all(fd, &packing->content);
	if (r < 0) {
		return r == -EMSGSIZE ? refuse(packing, name, "is larger than 16 MiB")
				      : fail(packing, name, -r);
	}
	return add_entry(packing, name, status);
}

static const char *why_not(mode_t mode)
{
	return S_ISREG(mode) || S_ISDIR(mode) ? NULL
		: S_ISLNK(mode)  ? "is a symbolic link, which is not allowed in a skill"
		: S_ISFIFO(mode) ? "is a FIFO, which is not allowed in a skill"
		: S_ISSOCK(mode) ? "is a socket, which is not allowed in a skill"
				 : "is a device, which is not allowed in a skill";
}

static int add_folder(struct packing *packing, int fd, const char *path, const struct stat *status,
	unsigned depth);

static int add(
	struct packing *packing, int folder_fd, const char *leaf, const char *path, unsigned depth)
{
	struct stat status;
	if (fstatat(folder_fd, leaf, &status, AT_SYMLINK_NOFOLLOW) < 0) {
		return fail(packing, path, errno);
	}
	if (why_not(status.st_mode)) {
		return refuse(packing, path, why_not(status.st_mode));
	}
	/* It may have been replaced meanwhile: opened without blocking, and checked again. */
	_cleanup_(box_close_p) int fd = openat(
		folder_fd, leaf, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &status) < 0) {
		return fail(packing, path, errno);
	}
	if (why_not(status.st_mode)) {
		return refuse(packing, path, why_not(status.st_mode));
	}
	return S_ISDIR(status.st_mode) ? add_folder(packing, fd, path, &status, depth + 1)
				       : add_file(packing, fd, path, &status);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool is_skipped(const char *name)
{
	static const char *const names[] = {".", "..", ".git", ".hg", ".svn"};
	for (size_t i = 0; i < BOX_COUNT_OF(names); i++) {
		if (strcmp(name, names[i]) == 0) {
			return true;
		}
	}
	return false;
}

/* The names in it, sorted; stops at the limit. */
static int read_names(struct packing *packing, int fd, const char *path, const char ***ret_names,
	size_t *ret_count)
{
	int again = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	DIR *folder = again < 0 ? NULL : fdopendir(again);
	if (!folder) {
		int errnum = errno;
		(void)(again < 0 ? 0 : close(again));
		return fail(packing, path, errnum);
	}
	const char **names = box_arena_alloc(
		packing->arena, BOX_ARCHIVE_ENTRIES_MAX * sizeof(*names));
	size_t count = 0;
	int r = 0;
	for (const struct dirent *found; r == 0 && (found = readdir(folder));) {
		if (is_skipped(found->d_name)) {
			continue;
		}
		if (count == BOX_ARCHIVE_ENTRIES_MAX) {
			r = refuse(
				packing, path, "has more than 512 entries, the limit of a skill");
		} else {
			names[count++] = box_arena_strndup(
				packing->arena, found->d_name, strlen(found->d_name));
		}
	}
	(void)closedir(folder);
	qsort(names, count, sizeof(*names), by_text);
	*ret_names = names;
	*ret_count = count;
	return r;
}

static int add_folder(struct packing *packing, int fd, const char *path, const struct stat *status,
	unsigned depth)
{
	const char **names = NULL;
	size_t count = 0;
	if (depth > BOX_ARCHIVE_DEPTH_MAX) {
		return refuse(packing, path, "is more than 32 folders deep");
	}
	int r = read_names(packing, fd, path, &names, &count);
	if (r == 0 && count == 0) {
		packing->content.len = 0;
		r = add_entry(packing, box_arena_printf(packing->arena, "%s/", path), status);
	}
	for (size_t i = 0; r == 0 && i < count; i++) {
		char *below = box_arena_printf(packing->arena, "%s/%s", path, names[i]);
		r = add(packing, fd, names[i], below, depth);
	}
	return r;
}

/* Everything is below one folder, named like the packed folder, as in archives of projects. */
static int pack_folder(int fd, const char *stem, const struct stat *status, struct box_arena *arena,
	struct box_buf *ret_zip, struct box_err *err)
{
	struct packing packing = {
		.zip = box_zip_writer_new(BOX_ARCHIVE_BYTES_MAX),
		.arena = arena,
		.err = err,
		.content = box_buf(BOX_ARCHIVE_ENTRY_BYTES_MAX + 1),
	};
	int r = add_folder(&packing, fd, stem, status, 1);
	if (r == 0 && box_zip_writer_end(packing.zip, ret_zip) < 0) {
		r = refuse(&packing, stem, "makes an archive larger than 20 MiB");
	}
	box_buf_free(&packing.content);
	box_zip_writer_free(packing.zip);
	return r;
}

static int read_zip(int fd, const char *path, struct box_buf *ret_zip, struct box_err *err)
{
	struct box_buf zip = box_buf(BOX_ARCHIVE_BYTES_MAX + 1);
	int r = read_all(fd, &zip);
	if (r == 0 && zip.len > 0) {
		*ret_zip = zip;
		return 0;
	}
	box_buf_free(&zip);
	return r == -EMSGSIZE
		? box_err_set(err, BOX_ERR_VALIDATION, EINVAL, "%s: is larger than 20 MiB", path)
		: r < 0 ? box_err_set(err, BOX_ERR_OS, -r, "%s: %s", path, box_err_strerror(-r))
			: box_err_set(err, BOX_ERR_VALIDATION, EINVAL, "%s: is empty", path);
}

/* The name of the last part of the path, with "." and links resolved. */
static const char *stem_of(struct box_arena *arena, const char *path, bool is_folder)
{
	_cleanup_(box_free_p) char *whole = is_folder ? realpath(path, NULL) : NULL;
	const char *slash = strrchr(whole ? whole : path, '/');
	const char *leaf = slash ? slash + 1 : whole ? whole : path;
	size_t len = strlen(leaf);
	bool is_zip = !is_folder && len > 4 && strcasecmp(leaf + len - 4, ".zip") == 0;
	return box_arena_strndup(arena, leaf, is_zip ? len - 4 : len);
}

int box_skill_pack(const char *path, struct box_arena *arena, struct box_buf *ret_zip,
	const char **ret_stem, struct box_err *err)
{
	struct box_zip checked;
	struct stat status;
	struct box_buf zip = {0};
	_cleanup_(box_close_p) int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &status) < 0) {
		return box_err_set(err, BOX_ERR_OS, errno, "%s: %s", path, box_err_strerror(errno));
	}
	if (!S_ISDIR(status.st_mode) && !S_ISREG(status.st_mode)) {
		return box_err_set(
			err, BOX_ERR_VALUE, EINVAL, "%s: is neither a folder nor a ZIP", path);
	}
	const char *stem = stem_of(arena, path, S_ISDIR(status.st_mode));
	if (!*stem) {
		return box_err_set(err, BOX_ERR_VALUE, EINVAL, "%s: has no name", path);
	}
	int r = S_ISDIR(status.st_mode) ? pack_folder(fd, stem, &status, arena, &zip, err)
					: read_zip(fd, path, &zip, err);
	/* The store checks it too; checking here saves the upload. */
	if (r == 0) {
		r = box_zip_check((const uint8_t *)zip.bytes, zip.len, arena, &checked, err);
	}
	if (r < 0) {
		box_buf_free(&zip);
		return r;
	}
	*ret_zip = zip;
	*ret_stem = stem;
	return 0;
}
