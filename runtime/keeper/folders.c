/* Walks a path by opened fds, makes what is missing, and refuses the folders of the system.
 *
 * Where a walk has arrived is judged by device and inode on the way up from the opened fd, never by
 * the text of the path: links, bind mounts and races cannot lead past that. */
#include "runtime/keeper/folders.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/limits.h"

/* In two parts, so that making a missing one can be seen too. */
static const struct {
	const char *parent;
	const char *name;
	const char *path;
} refused[] = {
	{"/", "etc", "/etc"},
	{"/", "proc", "/proc"},
	{"/", "sys", "/sys"},
	{"/", "dev", "/dev"},
	{"/", "root", "/root"},
	{"/", "boot", "/boot"},
	{"/", "run", "/run"},
	{"/var", "run", "/var/run"},
};
#define REFUSED_COUNT (sizeof(refused) / sizeof(refused[0]))

/* The mount tells a folder from a bind mount of itself inside itself. */
struct place {
	unsigned major;
	unsigned minor;
	uint64_t inode;
	uint64_t mount;
};

/* Absolute, without ".", "..", empty components or a slash at the end; "/" itself is normal. */
static bool is_normal(const char *path)
{
	if (path[0] != '/') {
		return false;
	}
	if (path[1] == '\0') {
		return true;
	}
	for (const char *at = path; *at;) {
		at++;
		size_t len = strcspn(at, "/");
		if (len == 0 || (len == 1 && at[0] == '.') ||
			(len == 2 && at[0] == '.' && at[1] == '.')) {
			return false;
		}
		at += len;
	}
	return true;
}

/* Follows links, but not those of /proc that are no paths. */
static int open_folder(int parent, const char *name, int *ret_fd)
{
	struct open_how how = {
		.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
		.resolve = RESOLVE_NO_MAGICLINKS,
	};
	long fd = syscall(SYS_openat2, parent, name, &how, sizeof(how));
	if (fd < 0) {
		return -errno;
	}
	*ret_fd = (int)fd;
	return 0;
}

static int place_of(int fd, struct place *ret_place)
{
	struct statx status;
	if (statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_MNT_ID, &status) < 0) {
		return -errno;
	}
	*ret_place = (struct place){
		.major = status.stx_dev_major,
		.minor = status.stx_dev_minor,
		.inode = status.stx_ino,
		.mount = status.stx_mask & STATX_MNT_ID ? status.stx_mnt_id : 0,
	};
	return 0;
}

static bool same_folder(const struct place *a, const struct place *b)
{
	return a->major == b->major && a->minor == b->minor && a->inode == b->inode;
}

/* The fd of the parent in place of *fd; *ret_top when there is none above. */
static int step_up(int *fd, struct place *place, bool *ret_top)
{
	_cleanup_(box_close_p) int up = -1;
	struct place above = {0};
	int r = open_folder(*fd, "..", &up);
	r = r < 0 ? r : place_of(up, &above);
	if (r < 0) {
		return r;
	}
	*ret_top = same_folder(&above, place) && above.mount == place->mount;
	*place = above;
	box_close_p(fd);
	*fd = TAKE_FD(up);
	return 0;
}

/* 0 when none of `others` is at or above `start`, -EPERM when one is. */
static int search_upwards(int start, const struct place *others, size_t count)
{
	_cleanup_(box_close_p) int fd = fcntl(start, F_DUPFD_CLOEXEC, 3);
	struct place place = {0};
	int r = fd < 0 ? -errno : place_of(fd, &place);
	bool top = false;
	for (size_t depth = 0; r == 0 && !top; depth++) {
		for (size_t i = 0; i < count; i++) {
			if (same_folder(&place, &others[i])) {
				return -EPERM;
			}
		}
		r = depth < BOX_PATH_MAX ? step_up(&fd, &place, &top) : -EPERM;
	}
	return r;
}

/* A folder of the system that is not there is left out. */
static int refused_places(struct place places[REFUSED_COUNT], size_t *ret_count)
{
	size_t count = 0;
	for (size_t i = 0; i < REFUSED_COUNT; i++) {
		_cleanup_(box_close_p) int fd = -1;
		int r = open_folder(AT_FDCWD, refused[i].path, &fd);
		if (r == -ENOENT) {
			continue;
		}
		r = r < 0 ? r : place_of(fd, &places[count]);
		if (r < 0) {
			return r;
		}
		count++;
	}
	*ret_count = count;
	return 0;
}

static int check_not_under(int fd)
{
	struct place places[REFUSED_COUNT] = {0};
	size_t count = 0;
	int r = refused_places(places, &count);
	return r < 0 ? r : search_upwards(fd, places, count);
}

static int search_upwards_from(const char *path, const struct place *place)
{
	_cleanup_(box_close_p) int fd = -1;
	int r = open_folder(AT_FDCWD, path, &fd);
	return r < 0 ? r : search_upwards(fd, place, 1);
}

static int check_contains_none(int fd)
{
	struct place place = {0};
	int r = place_of(fd, &place);
	for (size_t i = 0; r == 0 && i < REFUSED_COUNT; i++) {
		_cleanup_(box_close_p) int system_fd = -1;
		r = open_folder(AT_FDCWD, refused[i].path, &system_fd);
		if (r == -ENOENT) {
			r = 0;
			continue;
		}
		r = r < 0 ? r : search_upwards(system_fd, &place, 1);
		if (r == -EACCES) {
			/* A plain user cannot go up from inside /root, only from beside it. */
			r = search_upwards_from(refused[i].parent, &place);
		}
	}
	return r;
}

/* Whether `name` made in `parent` would be a folder of the system that this host has not. */
static int check_makes_none(int parent, const char *name)
{
	struct place place = {0};
	int r = place_of(parent, &place);
	for (size_t i = 0; r == 0 && i < REFUSED_COUNT; i++) {
		_cleanup_(box_close_p) int fd = -1;
		struct place of_refused = {0};
		if (strcmp(name, refused[i].name) != 0) {
			continue;
		}
		r = open_folder(AT_FDCWD, refused[i].parent, &fd);
		if (r == -ENOENT) {
			r = 0;
			continue;
		}
		r = r < 0 ? r : place_of(fd, &of_refused);
		if (r == 0 && same_folder(&place, &of_refused)) {
			return -EPERM;
		}
	}
	return r;
}

/* Cuts the next component off *at into `name`; false at the end. */
static bool next_name(const char **at, char name[BOX_PATH_MAX])
{
	const char *start = *at + strspn(*at, "/");
	size_t len = strcspn(start, "/");
	memcpy(name, start, len);
	name[len] = '\0';
	*at = start + len;
	return len > 0;
}

/* Links are not followed here: what is made, or was made meanwhile, must be a folder itself. */
static int make_one(int parent, const char *name, int *ret_fd)
{
	if (mkdirat(parent, name, 0755) < 0 && errno != EEXIST) {
		return -errno;
	}
	int fd = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) {
		return errno == ELOOP ? -ENOTDIR : -errno;
	}
	*ret_fd = fd;
	return 0;
}

/* Goes as far as folders exist. *fd is where the walk got to; the answer is 0 at the end of the
 * path, -ENOENT when `name` is the first that is missing, or why `name` could not be entered. */
static int walk_existing(int *fd, const char **at, char name[BOX_PATH_MAX])
{
	while (next_name(at, name)) {
		int next = -1;
		int r = open_folder(*fd, name, &next);
		if (r < 0) {
			return r;
		}
		box_close_p(fd);
		*fd = next;
	}
	return 0;
}

static int make_missing(int *fd, const char **at, char name[BOX_PATH_MAX])
{
	int r = check_makes_none(*fd, name);
	if (r < 0) {
		return r;
	}
	do {
		int next = -1;
		r = make_one(*fd, name, &next);
		if (r < 0) {
			return r;
		}
		box_close_p(fd);
		*fd = next;
	} while (next_name(at, name));
	return 0;
}

int box_folder_make(const char *path, bool look_only)
{
	if (strnlen(path, BOX_PATH_MAX) == BOX_PATH_MAX || !is_normal(path)) {
		return -EINVAL;
	}
	_cleanup_(box_close_p) int fd = -1;
	char name[BOX_PATH_MAX];
	const char *at = path;
	int r = open_folder(AT_FDCWD, "/", &fd);
	if (r < 0) {
		return r;
	}
	int walked = walk_existing(&fd, &at, name);
	/* Before any answer: not even whether something exists is told of the refused folders. */
	r = check_not_under(fd);
	if (r < 0) {
		return r;
	}
	if (walked == -ENOENT && !look_only) {
		return make_missing(&fd, &at, name);
	}
	return walked < 0 ? walked : check_contains_none(fd);
}
