/* The folders of the system, the operator's roots, and the way up from an fd to either. */
#include "runtime/keeper/place.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "runtime/plan/plan.h"

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

int box_place_open(int parent, const char *name, int *ret_fd)
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

int box_place_of(int fd, struct box_place *ret_place)
{
	struct statx status;
	if (statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_MNT_ID, &status) < 0) {
		return -errno;
	}
	*ret_place = (struct box_place){
		.major = status.stx_dev_major,
		.minor = status.stx_dev_minor,
		.inode = status.stx_ino,
		.mount = status.stx_mask & STATX_MNT_ID ? status.stx_mnt_id : 0,
	};
	return 0;
}

static bool same_folder(const struct box_place *a, const struct box_place *b)
{
	return a->major == b->major && a->minor == b->minor && a->inode == b->inode;
}

/* The fd of the parent in place of *fd; *ret_top when there is none above. */
static int step_up(int *fd, struct box_place *place, bool *ret_top)
{
	_cleanup_(box_close_p) int up = -1;
	struct box_place above = {0};
	int r = box_place_open(*fd, "..", &up);
	r = r < 0 ? r : box_place_of(up, &above);
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
static int search_upwards(int start, const struct box_place *others, size_t count)
{
	_cleanup_(box_close_p) int fd = fcntl(start, F_DUPFD_CLOEXEC, 3);
	struct box_place place = {0};
	int r = fd < 0 ? -errno : box_place_of(fd, &place);
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
static int refused_places(struct box_place places[REFUSED_COUNT], size_t *ret_count)
{
	size_t count = 0;
	for (size_t i = 0; i < REFUSED_COUNT; i++) {
		_cleanup_(box_close_p) int fd = -1;
		int r = box_place_open(AT_FDCWD, refused[i].path, &fd);
		if (r == -ENOENT) {
			continue;
		}
		r = r < 0 ? r : box_place_of(fd, &places[count]);
		if (r < 0) {
			return r;
		}
		count++;
	}
	*ret_count = count;
	return 0;
}

int box_place_check_not_under(int fd)
{
	struct box_place places[REFUSED_COUNT] = {0};
	size_t count = 0;
	int r = refused_places(places, &count);
	return r < 0 ? r : search_upwards(fd, places, count);
}

static int search_upwards_from(const char *path, const struct box_place *place)
{
	_cleanup_(box_close_p) int fd = -1;
	int r = box_place_open(AT_FDCWD, path, &fd);
	return r < 0 ? r : search_upwards(fd, place, 1);
}

int box_place_check_contains_none(int fd)
{
	struct box_place place = {0};
	int r = box_place_of(fd, &place);
	for (size_t i = 0; r == 0 && i < REFUSED_COUNT; i++) {
		_cleanup_(box_close_p) int system_fd = -1;
		r = box_place_open(AT_FDCWD, refused[i].path, &system_fd);
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
int box_place_check_makes_none(int parent, const char *name)
{
	struct box_place place = {0};
	int r = box_place_of(parent, &place);
	for (size_t i = 0; r == 0 && i < REFUSED_COUNT; i++) {
		_cleanup_(box_close_p) int fd = -1;
		struct box_place of_refused = {0};
		if (strcmp(name, refused[i].name) != 0) {
			continue;
		}
		r = box_place_open(AT_FDCWD, refused[i].parent, &fd);
		if (r == -ENOENT) {
			r = 0;
			continue;
		}
		r = r < 0 ? r : box_place_of(fd, &of_refused);
		if (r == 0 && same_folder(&place, &of_refused)) {
			return -EPERM;
		}
	}
	return r;
}

static int check_below_one(int fd, const struct box_roots *roots)
{
	if (roots->count == 0) {
		return 0;
	}
	for (uint32_t i = 0; i < roots->count && i < BOX_MOUNT_ROOTS_MAX; i++) {
		_cleanup_(box_close_p) int root = -1;
		struct box_place place = {0};
		int r = box_place_open(AT_FDCWD, roots->paths[i], &root);
		/* A root that is not there yet allows nothing. */
		if (r < 0 || box_place_of(root, &place) < 0) {
			continue;
		}
		/* The same walk as for what is refused: -EPERM means that it was met. */
		if (search_upwards(fd, &place, 1) == -EPERM) {
			return 0;
		}
	}
	return -EXDEV;
}

int box_place_check_roots(int fd, const struct box_policy *policy)
{
	int r = check_below_one(fd, &policy->roots);
	return r < 0 ? r : check_below_one(fd, &policy->narrower);
}
