/* Puts the entries of an archive into a folder. A stack has the opened folders on the path of the last entry:
 * archives are depth first, so most entries need one step. A folder that was created here gets its mode and
 * time when the archive leaves it. */
#include "cli/copy/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/limits.h"
#include "base/write.h"
#include "cli/copy/tar.h"

/* --- one file --- */

int box_unpack_file_begin(struct box_unpack_file *file, int folder)
{
	uint64_t number;
	if (getrandom(&number, sizeof(number), 0) != sizeof(number)) {
		abort();
	}
	(void)snprintf(file->temporary, sizeof(file->temporary), ".box-cp.%016llx",
		(unsigned long long)number);
	file->folder = folder;
	file->fd = openat(folder, file->temporary,
		O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	return file->fd < 0 ? -errno : 0;
}

int box_unpack_file_finish(struct box_unpack_file *file, const char *name, unsigned mode,
	int64_t mtime_sec, uint32_t mtime_nsec)
{
	const struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, {mtime_sec, mtime_nsec}};
	int r = fchmod(file->fd, mode & 0777) < 0 ? -errno : 0;
	/* A time that the file system does not support is not an error. */
	(void)futimens(file->fd, times);
	/* Some file systems report a full disk only now. */
	r = close(file->fd) < 0 && r == 0 ? -errno : r;
	file->fd = -1;
	if (r == 0 && renameat(file->folder, file->temporary, file->folder, name) < 0) {
		r = -errno;
	}
	if (r < 0) {
		(void)unlinkat(file->folder, file->temporary, 0);
	}
	return r;
}

void box_unpack_file_drop(struct box_unpack_file *file)
{
	if (file->fd >= 0) {
		(void)close(file->fd);
		(void)unlinkat(file->folder, file->temporary, 0);
		file->fd = -1;
	}
}

/* --- the archive --- */

struct folder {
	char *name;
	int fd;
	bool made; /* created by this archive: its mode and time are set at the end */
	unsigned mode;
	struct timespec mtime;
};

struct box_unpack {
	int root;
	const char *name;
	void (*complain)(void *arg, const char *line);
	void *arg;
	struct box_tar_reader reader;
	struct folder stack[BOX_COPY_DEPTH_MAX];
	size_t depth;
	struct box_unpack_file file;
	char final[NAME_MAX + 1]; /* of the file that is written */
	bool skipping;            /* the data of an entry that was refused */
	bool ended;
	uint64_t refused;
	uint64_t bytes;
};

struct box_unpack *box_unpack_new(
	int folder, const char *name, void (*complain)(void *arg, const char *line), void *arg)
{
	struct box_unpack *unpack = box_alloc(sizeof(*unpack));
	unpack->root = folder;
	unpack->name = name;
	unpack->complain = complain;
	unpack->arg = arg;
	unpack->file.fd = -1;
	box_tar_reader_start(&unpack->reader);
	return unpack;
}

uint64_t box_unpack_refused(const struct box_unpack *unpack)
{
	return unpack->refused;
}

uint64_t box_unpack_bytes(const struct box_unpack *unpack)
{
	return unpack->bytes;
}

/* Reports one line; the caller makes the name printable. */
static void refuse(struct box_unpack *unpack, const char *why)
{
	char line[PATH_MAX + 256];
	struct box_str path = unpack->reader.entry.path;
	unpack->skipping = true;
	if (unpack->refused++ < BOX_COPY_ERRORS_MAX) {
		(void)snprintf(line, sizeof(line), "%.*s: not copied: %s",
			(int)(path.len < PATH_MAX ? path.len : PATH_MAX), path.bytes, why);
		unpack->complain(unpack->arg, line);
	}
}

/* --- folders --- */

static void leave_folder(struct box_unpack *unpack)
{
	struct folder *folder = &unpack->stack[--unpack->depth];
	if (folder->made) {
		const struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, folder->mtime};
		(void)fchmod(folder->fd, folder->mode & 0777);
		(void)futimens(folder->fd, times);
	}
	(void)close(folder->fd);
	free(folder->name);
}

static int top(const struct box_unpack *unpack)
{
	return unpack->depth > 0 ? unpack->stack[unpack->depth - 1].fd : unpack->root;
}

/* Enters a subfolder, which is created if it is missing. Never through a link. */
static int enter_folder(struct box_unpack *unpack, const char *name)
{
	int made = mkdirat(top(unpack), name, 0700);
	if (made < 0 && errno != EEXIST) {
		return -errno;
	}
	int fd = openat(top(unpack), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) {
		return -errno;
	}
	/* The archive has no entry for it, so far. */
	unpack->stack[unpack->depth++] = (struct folder){
		.name = box_strdup(name),
		.fd = fd,
		.made = made == 0,
		.mode = 0755,
		.mtime = {.tv_nsec = UTIME_NOW},
	};
	return 0;
}

static const char *why_not(int errnum)
{
	switch (errnum) {
	case ENOTDIR:
	case ELOOP:
		return "a link or a file is in place of one of its folders";
	case EISDIR:
	case ENOTEMPTY:
		return "a folder of this name exists";
	case EEXIST:
		return "something of this name exists";
	default:
		return box_err_strerror(errnum);
	}
}

/* The next part of the path, with a NUL. The first one may be replaced by `name`. */
static bool next_part(
	const struct box_unpack *unpack, struct box_str *path, bool first, char out[NAME_MAX + 1])
{
	struct box_str part;
	if (!box_tar_next_part(path, &part)) {
		return false;
	}
	if (first && unpack->name) {
		part = box_str(unpack->name);
	}
	memcpy(out, part.bytes, part.len);
	out[part.len] = '\0';
	return true;
}

/* Opens the folders of a path except its last part, which is copied to `last`. 1; 0: the path is the root
 * itself; or a negative errno. */
static int walk(struct box_unpack *unpack, struct box_str path, char last[NAME_MAX + 1])
{
	char part[NAME_MAX + 1];
	size_t depth = 0;
	if (!next_part(unpack, &path, true, last)) {
		return 0;
	}
	while (next_part(unpack, &path, false, part)) {
		if (depth < unpack->depth && strcmp(unpack->stack[depth].name, last) != 0) {
			while (unpack->depth > depth) {
				leave_folder(unpack);
			}
		}
		int r = depth == unpack->depth ? enter_folder(unpack, last) : 0;
		if (r < 0) {
			return r;
		}
		depth++;
		memcpy(last, part, sizeof(part));
	}
	bool same = unpack->depth > depth && strcmp(unpack->stack[depth].name, last) == 0;
	while (unpack->depth > depth + same) {
		leave_folder(unpack);
	}
	return 1;
}

/* --- entries --- */

/* The root itself exists and stays as it is. */
static int put_folder(struct box_unpack *unpack, const struct box_tar_entry *entry)
{
	char name[NAME_MAX + 1];
	int r = walk(unpack, entry->path, name);
	if (r <= 0) {
		return r;
	}
	size_t depth = unpack->depth;
	bool inside = depth > 0 && strcmp(unpack->stack[depth - 1].name, name) == 0;
	struct box_str rest = entry->path;
	struct box_str part;
	size_t parts = 0;
	while (box_tar_next_part(&rest, &part)) {
		parts++;
	}
	r = inside && parts == depth ? 0 : enter_folder(unpack, name);
	if (r < 0) {
		return r;
	}
	struct folder *folder = &unpack->stack[unpack->depth - 1];
	folder->mode = entry->mode;
	folder->mtime = (struct timespec){entry->mtime_sec, entry->mtime_nsec};
	return 0;
}

/* Opens the folder of an entry, and gives the name of the entry in it. */
static int open_parent(struct box_unpack *unpack, struct box_str path, char name[NAME_MAX + 1])
{
	struct box_str rest = path;
	struct box_str part;
	size_t parts = 0;
	int r = walk(unpack, path, name);
	while (box_tar_next_part(&rest, &part)) {
		parts++;
	}
	while (r == 1 && unpack->depth >= parts) {
		leave_folder(unpack);
	}
	return r == 0 ? -EISDIR : r;
}

static int put_file(struct box_unpack *unpack, const struct box_tar_entry *entry)
{
	int r = open_parent(unpack, entry->path, unpack->final);
	return r < 0 ? r : box_unpack_file_begin(&unpack->file, top(unpack));
}

/* A link is created under another name first: what is in its place is replaced only by a complete one. */
static int put_link(struct box_unpack *unpack, const struct box_tar_entry *entry)
{
	char name[NAME_MAX + 1];
	char target[PATH_MAX];
	struct box_unpack_file file = {.fd = -1};
	if (entry->link.len == 0 || entry->link.len >= sizeof(target)) {
		return -ENAMETOOLONG;
	}
	memcpy(target, entry->link.bytes, entry->link.len);
	target[entry->link.len] = '\0';
	int r = open_parent(unpack, entry->path, name);
	if (r >= 0) {
		r = box_unpack_file_begin(&file, top(unpack));
	}
	if (r < 0) {
		return r;
	}
	box_unpack_file_drop(&file);
	if (symlinkat(target, file.folder, file.temporary) < 0) {
		return -errno;
	}
	if (renameat(file.folder, file.temporary, file.folder, name) < 0) {
		r = -errno;
		(void)unlinkat(file.folder, file.temporary, 0);
		return r;
	}
	return 0;
}

/* Opens the folder of an existing file, and gives the file's name. It does not use the stack, which belongs to
 * the entry: leaving a folder of it would set its mode too early. Creates nothing, and follows no link. */
static int open_target(
	const struct box_unpack *unpack, struct box_str path, char last[NAME_MAX + 1])
{
	char part[NAME_MAX + 1];
	if (!next_part(unpack, &path, true, last)) {
		return -EISDIR;
	}
	int fd = fcntl(unpack->root, F_DUPFD_CLOEXEC, 3);
	while (fd >= 0 && next_part(unpack, &path, false, part)) {
		int next = openat(fd, last, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		int errnum = errno;
		(void)close(fd);
		fd = next;
		errno = errnum;
		memcpy(last, part, sizeof(part));
	}
	return fd < 0 ? -errno : fd;
}

/* The second name is created under another name first, as for a link. */
static int link_to(struct box_unpack *unpack, int from, const char *other, struct box_str path)
{
	char name[NAME_MAX + 1];
	struct stat status;
	struct box_unpack_file file = {.fd = -1};
	if (fstatat(from, other, &status, AT_SYMLINK_NOFOLLOW) < 0) {
		return -errno;
	}
	if (!S_ISREG(status.st_mode)) {
		return -EPERM;
	}
	int r = open_parent(unpack, path, name);
	if (r >= 0) {
		r = box_unpack_file_begin(&file, top(unpack));
	}
	if (r < 0) {
		return r;
	}
	box_unpack_file_drop(&file);
	if (linkat(from, other, file.folder, file.temporary, 0) < 0) {
		return -errno;
	}
	r = renameat(file.folder, file.temporary, file.folder, name) < 0 ? -errno : 0;
	/* rename(2) does nothing when both are names of one file. */
	(void)unlinkat(file.folder, file.temporary, 0);
	return r;
}

/* A hard link to a file below the root: never to a link, and never through one. */
static int put_hard_link(struct box_unpack *unpack, const struct box_tar_entry *entry)
{
	char other[NAME_MAX + 1];
	int from = open_target(unpack, entry->link, other);
	if (from < 0) {
		return from;
	}
	int r = link_to(unpack, from, other, entry->path);
	(void)close(from);
	return r;
}

static int begin_entry(struct box_unpack *unpack)
{
	const struct box_tar_entry *entry = &unpack->reader.entry;
	const char *why = box_tar_check_name(entry->path);
	if (!why && entry->type == BOX_TAR_HARD_LINK) {
		why = box_tar_check_name(entry->link) ? "is a hard link to something outside"
						      : NULL;
	}
	unpack->skipping = entry->type != BOX_TAR_FILE;
	if (why || entry->type == BOX_TAR_OTHER) {
		refuse(unpack, why ? why : entry->what);
		return 0;
	}
	int r = entry->type == BOX_TAR_FILE     ? put_file(unpack, entry)
		: entry->type == BOX_TAR_FOLDER ? put_folder(unpack, entry)
		: entry->type == BOX_TAR_LINK   ? put_link(unpack, entry)
						: put_hard_link(unpack, entry);
	if (r < 0) {
		refuse(unpack, why_not(-r));
	}
	return r == -ENOSPC || r == -EDQUOT ? r : 0;
}

static int write_data(struct box_unpack *unpack, struct box_str data)
{
	int r = box_write_all(unpack->file.fd, data.bytes, data.len);
	unpack->bytes += r < 0 ? 0 : data.len;
	return r;
}

static int end_entry(struct box_unpack *unpack)
{
	const struct box_tar_entry *entry = &unpack->reader.entry;
	if (unpack->skipping) {
		return 0;
	}
	int r = box_unpack_file_finish(
		&unpack->file, unpack->final, entry->mode, entry->mtime_sec, entry->mtime_nsec);
	if (r < 0) {
		refuse(unpack, why_not(-r));
	}
	return r == -ENOSPC || r == -EDQUOT ? r : 0;
}

static int take_event(struct box_unpack *unpack, enum box_tar_event event, struct box_str data)
{
	switch (event) {
	case BOX_TAR_ENTRY:
		return begin_entry(unpack);
	case BOX_TAR_DATA:
		return unpack->skipping ? 0 : write_data(unpack, data);
	case BOX_TAR_DONE:
		return end_entry(unpack);
	case BOX_TAR_END:
		unpack->ended = true;
		return 0;
	default:
		return 0;
	}
}

int box_unpack_feed(struct box_unpack *unpack, struct box_str bytes, struct box_err *err)
{
	enum box_tar_event event;
	do {
		size_t used;
		struct box_str data = {NULL, 0};
		const char *why = NULL;
		event = box_tar_reader_feed(&unpack->reader, bytes, &used, &data, &why);
		bytes.bytes += used;
		bytes.len -= used;
		if (event == BOX_TAR_BROKEN) {
			return box_err_set(err, BOX_ERR_BOX, EBADMSG, "%s", why);
		}
		int r = take_event(unpack, event, data);
		if (r < 0) {
			return box_err_set(err, BOX_ERR_OS, -r, "%s", box_err_strerror(-r));
		}
	} while (event != BOX_TAR_MORE && !unpack->ended);
	return 0;
}

int box_unpack_end(struct box_unpack *unpack, struct box_err *err)
{
	if (!unpack->ended && !box_tar_reader_at_edge(&unpack->reader)) {
		return box_err_set(err, BOX_ERR_BOX, EBADMSG, "the archive is truncated");
	}
	while (unpack->depth > 0) {
		leave_folder(unpack);
	}
	return 0;
}

void box_unpack_free(struct box_unpack *unpack)
{
	if (!unpack) {
		return;
	}
	box_unpack_file_drop(&unpack->file);
	while (unpack->depth > 0) {
		leave_folder(unpack);
	}
	box_tar_reader_free(&unpack->reader);
	free(unpack);
}
