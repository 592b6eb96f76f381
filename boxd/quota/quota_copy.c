/* Walks two folders at once, by fds, following no symbolic link. Other processes may write to the
 * folder meanwhile: a name whose type changes is an error, and nothing outside of the two folders is
 * touched. */
#include "boxd/quota/quota_copy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/limits.h"
#include "base/macros.h"

#define PIECE (1U << 30)
#define TEMPORARY ".box-quota-copy" /* the name of a copy until it is complete */

struct walk {
	bool sweep;
	dev_t device; /* of the folder: a mount in it has another */
	unsigned depth;
	struct box_err *err;
};

static int fail(const struct walk *walk, const char *name, int errnum)
{
	if (errnum == ENOSPC || errnum == EDQUOT) {
		return box_err_set(walk->err, BOX_ERR_VALIDATION, ENOSPC,
			"the content of host_path does not fit into workspace_quota_mb");
	}
	return box_err_set(walk->err, BOX_ERR_BOX, errnum,
		"the quota of host_path cannot be enforced: %s cannot be moved: %s", name,
		errnum == EXDEV ? "something is mounted there" : box_err_strerror(errnum));
}

/* --- one file --- */

static bool is_newer(const struct stat *a, const struct stat *b)
{
	return a->st_mtim.tv_sec != b->st_mtim.tv_sec ? a->st_mtim.tv_sec > b->st_mtim.tv_sec
						      : a->st_mtim.tv_nsec > b->st_mtim.tv_nsec;
}

/* Attributes that the image's file system does not support, such as a label, are left behind. */
static int copy_attributes(int from, int to)
{
	ssize_t size = flistxattr(from, NULL, 0);
	if (size <= 0) {
		return size < 0 && errno != ENOTSUP ? -errno : 0;
	}
	_cleanup_(box_free_p) char *names = box_alloc((size_t)size);
	_cleanup_(box_free_p) char *value = box_alloc(XATTR_SIZE_MAX);
	size = flistxattr(from, names, (size_t)size);
	for (const char *name = names; size > 0 && name < names + size; name += strlen(name) + 1) {
		ssize_t len = fgetxattr(from, name, value, XATTR_SIZE_MAX);
		if (len >= 0 && fsetxattr(to, name, value, (size_t)len, 0) < 0 &&
			(errno == ENOSPC || errno == EDQUOT)) {
			return -errno;
		}
	}
	return 0;
}

static int copy_attributes_and_times(int from, int to, const struct stat *status)
{
	const struct timespec times[2] = {status->st_atim, status->st_mtim};
	int r = copy_attributes(from, to);
	if (r < 0) {
		return r;
	}
	/* The mode after the owner: changing the owner clears bits of the mode. */
	return fchown(to, status->st_uid, status->st_gid) < 0 ||
			fchmod(to, status->st_mode & 07777) < 0 || futimens(to, times) < 0
		? -errno
		: 0;
}

/* Holes stay holes: they take no space in the quota. */
static int copy_bytes(int from, int to, off_t size)
{
	off_t at = 0;
	while (at < size) {
		off_t data = lseek(from, at, SEEK_DATA);
		off_t hole = data < 0 ? -1 : lseek(from, data, SEEK_HOLE);
		if (data < 0 && errno == ENXIO) {
			break;
		}
		if (hole < 0 || lseek(to, data, SEEK_SET) < 0) {
			return -errno;
		}
		for (at = data; at < hole;) {
			size_t left = (size_t)(hole - at);
			ssize_t sent = sendfile(to, from, &at, BOX_MIN(left, PIECE));
			if (sent <= 0) {
				return sent < 0 ? -errno : -EAGAIN;
			}
		}
	}
	return ftruncate(to, size) < 0 ? -errno : 0;
}

static int copy_file(int from, int to, const char *name)
{
	struct stat status;
	_cleanup_(box_close_p) int source = openat(
		from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (source < 0 || fstat(source, &status) < 0) {
		return -errno;
	}
	if (!S_ISREG(status.st_mode)) {
		return -EAGAIN;
	}
	if (unlinkat(to, TEMPORARY, 0) < 0 && errno != ENOENT) {
		return -errno;
	}
	_cleanup_(box_close_p) int copy = openat(
		to, TEMPORARY, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	int r = copy < 0 ? -errno : copy_bytes(source, copy, status.st_size);
	if (r == 0) {
		r = copy_attributes_and_times(source, copy, &status);
	}
	if (r == 0 && renameat(to, TEMPORARY, to, name) < 0) {
		r = -errno;
	}
	if (r < 0) {
		(void)unlinkat(to, TEMPORARY, 0);
	}
	return r;
}

static int copy_link(int from, int to, const char *name, const struct stat *status)
{
	char target[PATH_MAX];
	ssize_t len = readlinkat(from, name, target, sizeof(target) - 1);
	if (len < 0) {
		return -errno;
	}
	target[len] = '\0';
	if (unlinkat(to, name, 0) < 0 && errno != ENOENT) {
		return -errno;
	}
	const struct timespec times[2] = {status->st_atim, status->st_mtim};
	return symlinkat(target, to, name) < 0 ||
			fchownat(to, name, status->st_uid, status->st_gid, AT_SYMLINK_NOFOLLOW) <
				0 ||
			utimensat(to, name, times, AT_SYMLINK_NOFOLLOW) < 0
		? -errno
		: 0;
}

/* A FIFO or a device. A socket is useless without the process that made it. */
static int copy_node(int to, const char *name, const struct stat *status)
{
	const struct timespec times[2] = {status->st_atim, status->st_mtim};
	if (S_ISSOCK(status->st_mode)) {
		return 0;
	}
	if (mknodat(to, name, status->st_mode, status->st_rdev) < 0 && errno != EEXIST) {
		return -errno;
	}
	return fchownat(to, name, status->st_uid, status->st_gid, AT_SYMLINK_NOFOLLOW) < 0 ||
			utimensat(to, name, times, AT_SYMLINK_NOFOLLOW) < 0
		? -errno
		: 0;
}

/* Everything but folders. */
static int take_file(int from, int to, const char *name, const struct stat *status)
{
	struct stat there;
	bool is_there = fstatat(to, name, &there, AT_SYMLINK_NOFOLLOW) == 0;
	if (is_there && (there.st_mode & S_IFMT) != (status->st_mode & S_IFMT)) {
		return -EEXIST;
	}
	/* A clock may be too coarse to tell two writes apart. */
	bool changed = S_ISREG(status->st_mode) && status->st_size != there.st_size &&
		!is_newer(&there, status);
	if (is_there && !changed && !is_newer(status, &there)) {
		return 0;
	}
	return S_ISREG(status->st_mode)    ? copy_file(from, to, name)
		: S_ISLNK(status->st_mode) ? copy_link(from, to, name, status)
					   : copy_node(to, name, status);
}

/* --- folders --- */

static int walk_folder(struct walk *walk, int from, int to, bool fresh);

static int open_folder(int parent, const char *name, int *ret_fd)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0) {
		return -errno;
	}
	*ret_fd = fd;
	return 0;
}

static int take_folder(struct walk *walk, int from, int to, const char *name)
{
	_cleanup_(box_close_p) int source = -1;
	_cleanup_(box_close_p) int copy = -1;
	if (walk->depth >= BOX_MEASURE_DEPTH_MAX) {
		return fail(walk, name, ENAMETOOLONG);
	}
	bool fresh = mkdirat(to, name, 0700) == 0;
	if (!fresh && errno != EEXIST) {
		return fail(walk, name, errno);
	}
	int r = open_folder(from, name, &source);
	if (r < 0) {
		return fail(walk, name, -r);
	}
	r = open_folder(to, name, &copy);
	if (r < 0) {
		return fail(walk, name, -r);
	}
	walk->depth++;
	r = walk_folder(walk, source, copy, fresh);
	walk->depth--;
	return r;
}

/* Also detects a bind mount of the same file system: removing files from it would remove them
 * elsewhere. */
static bool is_mount(int folder, const char *name)
{
	struct statx facts;
	return statx(folder, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, 0, &facts) == 0 &&
		(facts.stx_attributes & STATX_ATTR_MOUNT_ROOT);
}

static int take_entry(struct walk *walk, int from, int to, const char *name)
{
	struct stat status;
	if (fstatat(from, name, &status, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0) {
		return errno == ENOENT ? 0 : fail(walk, name, errno);
	}
	if (status.st_dev != walk->device || is_mount(from, name)) {
		return fail(walk, name, EXDEV);
	}
	bool folder = S_ISDIR(status.st_mode);
	int r;
	if (folder) {
		r = take_folder(walk, from, to, name);
	} else {
		r = take_file(from, to, name, &status);
		r = r < 0 && r != -ENOENT ? fail(walk, name, -r) : 0;
	}
	if (r == 0 && walk->sweep && unlinkat(from, name, folder ? AT_REMOVEDIR : 0) < 0 &&
		errno != ENOENT) {
		return fail(walk, name, errno);
	}
	return r;
}

static int each_entry(struct walk *walk, int from, int to)
{
	int again = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *folder = again < 0 ? NULL : fdopendir(again);
	if (!folder) {
		int errnum = errno;
		box_close_p(&again);
		return fail(walk, "a folder", errnum);
	}
	int r = 0;
	const struct dirent *entry;
	while (r == 0 && (entry = readdir(folder))) {
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
			r = take_entry(walk, from, to, entry->d_name);
		}
	}
	(void)closedir(folder);
	return r;
}

/* The attributes of a new folder are set twice: first, because the walk may be interrupted, and last,
 * because making its entries has changed its times. */
static int walk_folder(struct walk *walk, int from, int to, bool fresh)
{
	struct stat status;
	if (fstat(from, &status) < 0) {
		return fail(walk, "a folder", errno);
	}
	int r = fresh ? copy_attributes_and_times(from, to, &status) : 0;
	if (r < 0) {
		return fail(walk, "a folder", -r);
	}
	r = each_entry(walk, from, to);
	if (r < 0 || !fresh) {
		return r;
	}
	r = copy_attributes_and_times(from, to, &status);
	return r < 0 ? fail(walk, "a folder", -r) : 0;
}

static int begin(struct walk *walk, int from, int to, bool fresh)
{
	struct stat status = {0};
	_cleanup_(box_close_p) int source = -1;
	_cleanup_(box_close_p) int copy = -1;
	int r = open_folder(from, ".", &source);
	if (r < 0) {
		return fail(walk, "the folder", -r);
	}
	r = open_folder(to, ".", &copy);
	if (r < 0) {
		return fail(walk, "the folder", -r);
	}
	if (fstat(source, &status) < 0) {
		return fail(walk, "the folder", errno);
	}
	walk->device = status.st_dev;
	return walk_folder(walk, source, copy, fresh);
}

int box_quota_copy(int from, int to, bool fresh, struct box_err *err)
{
	struct walk walk = {.err = err};
	return begin(&walk, from, to, fresh);
}

int box_quota_copy_sweep(int from, int to, struct box_err *err)
{
	struct walk walk = {.sweep = true, .err = err};
	return begin(&walk, from, to, false);
}
