/* Opens, resolves and creates paths below an opened folder, with openat2; links are resolved by hand. */
#include "skills/store/subtree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/macros.h"

#define READ_BYTES 65536
#define TRIES 8 /* openat2 with RESOLVE_BENEATH may fail with EAGAIN while others rename */

static int open_beneath(int base_fd, const char *path, int flags, mode_t mode, uint64_t resolve)
{
	struct open_how how = {
		.flags = (uint64_t)(flags | O_CLOEXEC),
		.mode = mode,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | resolve,
	};
	long fd = -1;
	for (int i = 0; i < TRIES; i++) {
		fd = syscall(SYS_openat2, base_fd, *path ? path : ".", &how, sizeof(how));
		if (fd >= 0 || (errno != EAGAIN && errno != EINTR)) {
			break;
		}
	}
	return fd < 0 ? -errno : (int)fd;
}

int box_subtree_open(int base_fd, const char *path, int flags, mode_t mode)
{
	return open_beneath(base_fd, path, flags | O_NOFOLLOW, mode, RESOLVE_NO_SYMLINKS);
}

int box_subtree_open_linked(int base_fd, const char *path, int flags)
{
	return open_beneath(base_fd, path, flags, 0, 0);
}

/* -- links ------------------------------------------------------------------------------------ */

struct walk {
	int base_fd;
	const char *base_path;
	char *done; /* without links */
	size_t done_len;
	char left[2 * BOX_PATH_MAX]; /* still to be resolved */
	unsigned links;
};

/* Puts a link's target in front of the remaining path. */
static int follow_link(struct walk *walk, const char *target)
{
	char rest[BOX_PATH_MAX];
	size_t base_len = strlen(walk->base_path);
	if (++walk->links > BOX_SKILL_LINKS_MAX) {
		return -ELOOP;
	}
	if (target[0] == '/') {
		if (strncmp(target, walk->base_path, base_len) != 0 ||
			(target[base_len] != '/' && target[base_len] != '\0')) {
			return -EXDEV;
		}
		target += base_len;
		walk->done_len = 0;
		walk->done[0] = '\0';
	}
	size_t left = strlen(walk->left);
	if (left >= sizeof(rest)) {
		return -ENAMETOOLONG;
	}
	memcpy(rest, walk->left, left + 1);
	(void)snprintf(walk->left, sizeof(walk->left), "%s/%s", target, rest);
	return 0;
}

/* Reads the link at `path`: 1, or 0 if it is not a link. */
static int read_link(const struct walk *walk, const char *path, char target[BOX_PATH_MAX])
{
	_cleanup_(box_close_p) int fd = box_subtree_open(walk->base_fd, path, O_PATH, 0);
	if (fd < 0) {
		/* A component that was not a link a moment ago has become one. */
		return fd == -ELOOP ? -ELOOP : 0;
	}
	ssize_t len = readlinkat(fd, "", target, BOX_PATH_MAX - 1);
	if (len < 0) {
		return 0;
	}
	target[len] = '\0';
	return 1;
}

static int step(struct walk *walk, const char *part, size_t len)
{
	char target[BOX_PATH_MAX];
	size_t before = walk->done_len;
	if (len == 1 && part[0] == '.') {
		return 0;
	}
	if (len == 2 && memcmp(part, "..", 2) == 0) {
		if (before == 0) {
			return -EXDEV;
		}
		char *slash = strrchr(walk->done, '/');
		walk->done_len = slash ? (size_t)(slash - walk->done) : 0;
		walk->done[walk->done_len] = '\0';
		return 0;
	}
	if (before + len + 2 > BOX_PATH_MAX) {
		return -ENAMETOOLONG;
	}
	if (before > 0) {
		walk->done[walk->done_len++] = '/';
	}
	memcpy(walk->done + walk->done_len, part, len);
	walk->done_len += len;
	walk->done[walk->done_len] = '\0';
	int r = read_link(walk, walk->done, target);
	if (r <= 0) {
		return r;
	}
	walk->done_len = before;
	walk->done[before] = '\0';
	return follow_link(walk, target);
}

int box_subtree_resolve(
	int base_fd, const char *base_path, const char *path, char ret_path[BOX_PATH_MAX])
{
	struct walk walk = {.base_fd = base_fd, .base_path = base_path, .done = ret_path};
	size_t path_len = strlen(path);
	if (path_len >= BOX_PATH_MAX) {
		return -ENAMETOOLONG;
	}
	memcpy(walk.left, path, path_len + 1);
	ret_path[0] = '\0';
	for (;;) {
		size_t slashes = strspn(walk.left, "/");
		size_t len = strcspn(walk.left + slashes, "/");
		char part[BOX_PATH_MAX];
		if (len == 0) {
			return 0;
		}
		if (len >= sizeof(part)) {
			return -ENAMETOOLONG;
		}
		memcpy(part, walk.left + slashes, len);
		memmove(walk.left, walk.left + slashes + len,
			strlen(walk.left + slashes + len) + 1);
		int r = step(&walk, part, len);
		if (r < 0) {
			return r;
		}
	}
}

/* -- folders ---------------------------------------------------------------------------------- */

int box_subtree_make_folders(int base_fd, const char *path, size_t *ret_good)
{
	_cleanup_(box_close_p) int fd = box_subtree_open(base_fd, "", O_PATH | O_DIRECTORY, 0);
	const char *at = path;
	*ret_good = 0;
	while (fd >= 0 && *at) {
		char part[NAME_MAX + 1];
		size_t len = strcspn(at, "/");
		if (len > NAME_MAX) {
			return -ENAMETOOLONG;
		}
		memcpy(part, at, len);
		part[len] = '\0';
		if (mkdirat(fd, part, 0777) < 0 && errno != EEXIST) {
			return -errno;
		}
		int next = box_subtree_open(fd, part, O_PATH | O_DIRECTORY, 0);
		if (next < 0) {
			return next;
		}
		(void)close(fd);
		fd = next;
		at += len;
		*ret_good = (size_t)(at - path);
		at += *at == '/';
	}
	return TAKE_FD(fd);
}

/* -- content ---------------------------------------------------------------------------------- */

int box_subtree_read(int fd, struct box_buf *out)
{
	for (;;) {
		size_t left = out->limit - out->len;
		size_t room = left < READ_BYTES ? left + 1 : READ_BYTES;
		char *place = left > 0 ? box_buf_reserve(out, BOX_MIN(room, left)) : NULL;
		char more = 0;
		ssize_t len = place ? read(fd, place, BOX_MIN(room, left)) : read(fd, &more, 1);
		if (len < 0 && errno == EINTR) {
			continue;
		}
		if (len <= 0) {
			return len < 0 ? -errno : 0;
		}
		if (!place) {
			return -EFBIG;
		}
		out->len += (size_t)len;
	}
}

int box_subtree_sync(int dir_fd)
{
	_cleanup_(box_close_p) int fd = box_subtree_open(dir_fd, "", O_RDONLY | O_DIRECTORY, 0);
	if (fd < 0) {
		return fd;
	}
	/* Some file systems have no fsync of folders. */
	return fsync(fd) < 0 && errno != EINVAL ? -errno : 0;
}

static int type_of(int dir_fd, const char *name)
{
	struct stat st;
	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		return DT_UNKNOWN;
	}
	return IFTODT(st.st_mode);
}

int box_subtree_each(
	int dir_fd, int (*each)(void *context, const char *name, int d_type), void *context)
{
	int fd = box_subtree_open(dir_fd, "", O_RDONLY | O_DIRECTORY, 0);
	DIR *folder = fd < 0 ? NULL : fdopendir(fd);
	int r = 0;
	if (!folder) {
		r = fd < 0 ? fd : -errno;
		if (fd >= 0) {
			(void)close(fd);
		}
		return r;
	}
	while (r == 0) {
		errno = 0;
		const struct dirent *entry = readdir(folder);
		if (!entry) {
			r = -errno;
			break;
		}
		const char *name = entry->d_name;
		if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
			continue;
		}
		int type = entry->d_type == DT_UNKNOWN ? type_of(fd, name) : entry->d_type;
		r = each(context, name, type);
	}
	(void)closedir(folder);
	return r;
}
