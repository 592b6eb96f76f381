/* Walks a tree by opened folders, depth first. A file that shrinks meanwhile is padded with zeros, because its
 * header was sent already, and reported. */
#include "cli/copy/pack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/limits.h"
#include "base/macros.h"
#include "cli/copy/tar.h"

struct box_pack {
	void (*complain)(void *arg, const char *line);
	void *arg;
	DIR *folders[BOX_COPY_DEPTH_MAX + 1];
	size_t name_lens[BOX_COPY_DEPTH_MAX + 1]; /* of `name`, in each of them */
	size_t depth;
	struct box_buf name; /* in the archive, of what comes next */
	struct box_buf head; /* headers and padding that go out first */
	size_t head_sent;
	int fd; /* of the file that is read, or -1 */
	uint64_t left;
	bool shrank; /* it is shorter than before, which was reported */
	size_t padding;
	bool ended;
	uint64_t refused;
	uint64_t bytes;
};

uint64_t box_pack_refused(const struct box_pack *pack)
{
	return pack->refused;
}

uint64_t box_pack_bytes(const struct box_pack *pack)
{
	return pack->bytes;
}

static void report(struct box_pack *pack, const char *what, const char *why)
{
	char line[PATH_MAX + 256];
	if (pack->refused++ < BOX_COPY_ERRORS_MAX) {
		(void)snprintf(line, sizeof(line), "%.*s: %s: %s",
			(int)(pack->name.len < PATH_MAX ? pack->name.len : PATH_MAX),
			pack->name.bytes, what, why);
		pack->complain(pack->arg, line);
	}
}

static void skip(struct box_pack *pack, const char *why)
{
	report(pack, "not copied", why);
}

/* --- entries --- */

static int append_entry(struct box_pack *pack, enum box_tar_type type, const struct stat *status,
	struct box_str link)
{
	const struct box_tar_entry entry = {
		.type = type,
		.mode = (unsigned)status->st_mode & 0777,
		.size = type == BOX_TAR_FILE ? status->st_size : 0,
		.mtime_sec = status->st_mtim.tv_sec,
		.mtime_nsec = (uint32_t)status->st_mtim.tv_nsec,
		.path = {pack->name.bytes, pack->name.len},
		.link = link,
	};
	return box_tar_write_entry(&pack->head, &entry);
}

static int add_link(struct box_pack *pack, int folder, const char *name, const struct stat *status)
{
	char target[PATH_MAX];
	ssize_t len = readlinkat(folder, name, target, sizeof(target));
	if (len < 0 || len == sizeof(target)) {
		return len < 0 ? -errno : -ENAMETOOLONG;
	}
	return append_entry(pack, BOX_TAR_LINK, status, (struct box_str){target, (size_t)len});
}

/* A folder or a file that is open already; the fd is taken. */
static int add_opened(struct box_pack *pack, int fd, const struct stat *status)
{
	if (S_ISREG(status->st_mode)) {
		pack->fd = fd;
		pack->shrank = false;
		pack->left = (uint64_t)status->st_size;
		pack->padding = box_tar_padding(pack->left);
		(void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
		return append_entry(pack, BOX_TAR_FILE, status, box_str(""));
	}
	DIR *folder = pack->depth > BOX_COPY_DEPTH_MAX ? NULL : fdopendir(fd);
	if (!folder) {
		int r = pack->depth > BOX_COPY_DEPTH_MAX ? -ELOOP : -errno;
		(void)close(fd);
		return r;
	}
	pack->folders[pack->depth] = folder;
	pack->name_lens[pack->depth++] = pack->name.len;
	return pack->name.len > 0 ? append_entry(pack, BOX_TAR_FOLDER, status, box_str("")) : 0;
}

static const char *what_is(mode_t mode)
{
	return S_ISFIFO(mode)                    ? "a FIFO"
		: S_ISSOCK(mode)                 ? "a socket"
		: S_ISBLK(mode) || S_ISCHR(mode) ? "a device"
						 : "of an unknown kind";
}

/* What cannot be read is skipped, and reported. */
static void add(struct box_pack *pack, int folder, const char *name)
{
	struct stat status;
	if (fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) < 0) {
		skip(pack, box_err_strerror(errno));
		return;
	}
	if (S_ISLNK(status.st_mode)) {
		int r = add_link(pack, folder, name, &status);
		if (r < 0) {
			skip(pack, box_err_strerror(-r));
		}
		return;
	}
	if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) {
		skip(pack, what_is(status.st_mode));
		return;
	}
	/* It may have been replaced meanwhile: opened without blocking, and checked again. */
	int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &status) < 0) {
		skip(pack, box_err_strerror(errno));
		(void)(fd < 0 ? 0 : close(fd));
		return;
	}
	if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) {
		skip(pack, what_is(status.st_mode));
		(void)close(fd);
		return;
	}
	int r = add_opened(pack, fd, &status);
	if (r < 0) {
		skip(pack, box_err_strerror(-r));
	}
}

/* The next name of the innermost folder, or out of it. */
static void advance(struct box_pack *pack)
{
	if (pack->depth == 0) {
		pack->ended = true;
		(void)box_tar_write_end(&pack->head);
		return;
	}
	DIR *folder = pack->folders[pack->depth - 1];
	pack->name.len = pack->name_lens[pack->depth - 1];
	const struct dirent *found = readdir(folder);
	if (!found) {
		(void)closedir(folder);
		pack->depth--;
		return;
	}
	if (strcmp(found->d_name, ".") == 0 || strcmp(found->d_name, "..") == 0) {
		return;
	}
	int r = pack->name.len > 0 ? box_buf_append(&pack->name, "/", 1) : 0;
	if (r < 0 || box_buf_append_str(&pack->name, found->d_name) < 0) {
		skip(pack, "its name is too long");
		return;
	}
	add(pack, dirfd(folder), found->d_name);
}

/* --- bytes --- */

static size_t take_head(struct box_pack *pack, char *to, size_t max)
{
	size_t left = pack->head.len - pack->head_sent;
	size_t piece = BOX_MIN(left, max);
	memcpy(to, pack->head.bytes + pack->head_sent, piece);
	pack->head_sent += piece;
	if (pack->head_sent == pack->head.len) {
		pack->head.len = pack->head_sent = 0;
	}
	return piece;
}

static ssize_t take_data(struct box_pack *pack, char *to, size_t max)
{
	size_t piece = pack->left < max ? (size_t)pack->left : max;
	ssize_t got = piece > 0 ? read(pack->fd, to, piece) : 0;
	if (got < 0) {
		return errno == EINTR ? 0 : -errno;
	}
	if (got == 0 && piece > 0) {
		if (!pack->shrank) {
			pack->shrank = true;
			report(pack, "padded with zeros", "shrank while it was read");
		}
		memset(to, 0, piece);
		got = (ssize_t)piece;
	}
	pack->left -= (uint64_t)got;
	pack->bytes += (uint64_t)got;
	if (pack->left == 0) {
		static const char zeros[BOX_TAR_BLOCK];
		(void)close(pack->fd);
		pack->fd = -1;
		(void)box_buf_append(&pack->head, zeros, pack->padding);
	}
	return got;
}

ssize_t box_pack_read(struct box_pack *pack, char *to, size_t max, struct box_err *err)
{
	size_t done = 0;
	while (done < max) {
		if (pack->head.len > 0) {
			done += take_head(pack, to + done, max - done);
		} else if (pack->fd >= 0) {
			ssize_t got = take_data(pack, to + done, max - done);
			if (got < 0) {
				return box_err_set(err, BOX_ERR_OS, (int)-got, "%.*s: %s",
					(int)pack->name.len, pack->name.bytes,
					box_err_strerror((int)-got));
			}
			done += (size_t)got;
		} else if (!pack->ended) {
			advance(pack);
		} else {
			break;
		}
	}
	return (ssize_t)done;
}

/* --- begin and end --- */

/* Adds the file or folder at the path; links are followed. */
static int add_path(struct box_pack *pack, const char *path)
{
	struct stat status;
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0) {
		return -errno;
	}
	if (fstat(fd, &status) < 0) {
		int r = -errno;
		(void)close(fd);
		return r;
	}
	if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) {
		(void)close(fd);
		return -EINVAL;
	}
	return add_opened(pack, fd, &status);
}

int box_pack_open(const char *path, const char *name, bool follow,
	void (*complain)(void *arg, const char *line), void *arg, struct box_pack **ret_pack,
	struct box_err *err)
{
	struct box_pack *pack = box_alloc(sizeof(*pack));
	struct stat status;
	int r = 0;
	pack->complain = complain;
	pack->arg = arg;
	pack->fd = -1;
	pack->name = box_buf(PATH_MAX - 1);
	pack->head = box_buf(BOX_TAR_EXTRA_BYTES_MAX);
	if (name) {
		r = box_buf_append_str(&pack->name, name);
	}
	if (!follow && r == 0 && lstat(path, &status) == 0 && S_ISLNK(status.st_mode)) {
		r = add_link(pack, AT_FDCWD, path, &status);
	} else if (r == 0) {
		r = add_path(pack, path);
	}
	if (r < 0) {
		box_pack_close(pack);
		return box_err_set(err, BOX_ERR_OS, -r, "%s: %s", path,
			r == -EINVAL ? "not a file, folder or link" : box_err_strerror(-r));
	}
	*ret_pack = pack;
	return 0;
}

void box_pack_close(struct box_pack *pack)
{
	if (!pack) {
		return;
	}
	while (pack->depth > 0) {
		(void)closedir(pack->folders[--pack->depth]);
	}
	if (pack->fd >= 0) {
		(void)close(pack->fd);
	}
	box_buf_free(&pack->name);
	box_buf_free(&pack->head);
	free(pack);
}
