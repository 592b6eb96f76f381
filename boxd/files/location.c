/* The list of system folders, and the walk from an fd up to `/`. */
#include "boxd/files/location.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/macros.h"

/* Parent and name, so that making a missing one can be refused too. */
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
#define REFUSED_COUNT (BOX_COUNT_OF(refused))

/* File systems of /proc, /sys and /dev/pts, wherever else they are mounted. The file system of /dev
 * itself cannot be told from any tmpfs. */
static const uint32_t refused_kinds[] = {
	PROC_SUPER_MAGIC, SYSFS_MAGIC, CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, DEBUGFS_MAGIC,
	TRACEFS_MAGIC, SECURITYFS_MAGIC, SELINUX_MAGIC, SMACK_MAGIC, BPF_FS_MAGIC,
	DEVPTS_SUPER_MAGIC, PSTOREFS_MAGIC, EFIVARFS_MAGIC, BINFMTFS_MAGIC, BINDERFS_SUPER_MAGIC,
	NSFS_MAGIC, RDTGROUP_SUPER_MAGIC, XENFS_SUPER_MAGIC, AAFS_MAGIC, 0x62656570, /* configfs */
	0x65735543,                                                                  /* fusectl */
	0x19800202,                                                                  /* mqueue */
};

static int open_folder(int parent, const char *name, uint64_t resolve, int *ret_fd)
{
	struct open_how how = {
		.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
		.resolve = RESOLVE_NO_MAGICLINKS | resolve,
	};
	long fd = syscall(SYS_openat2, parent, name, &how, sizeof(how));
	if (fd < 0) {
		return -errno;
	}
	*ret_fd = (int)fd;
	return 0;
}

int box_location_open_following(int parent, const char *name, int *ret_fd)
{
	return open_folder(parent, name, 0, ret_fd);
}

int box_location_open_no_follow(int parent, const char *name, int *ret_fd)
{
	return open_folder(parent, name, RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH, ret_fd);
}

int box_location_of(int fd, struct box_location *ret_place)
{
	struct statx status;
	if (statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_MNT_ID, &status) < 0) {
		return -errno;
	}
	*ret_place = (struct box_location){
		.major = status.stx_dev_major,
		.minor = status.stx_dev_minor,
		.inode = status.stx_ino,
		.mount = status.stx_mask & STATX_MNT_ID ? status.stx_mnt_id : 0,
	};
	return 0;
}

bool box_location_same(const struct box_location *a, const struct box_location *b)
{
	return a->major == b->major && a->minor == b->minor && a->inode == b->inode;
}

/* Replaces *fd with its parent; *ret_top when there is none. */
static int step_up(int *fd, struct box_location *place, bool *ret_top)
{
	_cleanup_(box_close_p) int up = -1;
	struct box_location above = {0};
	int r = box_location_open_following(*fd, "..", &up);
	if (r < 0) {
		return r;
	}
	r = box_location_of(up, &above);
	if (r < 0) {
		return r;
	}
	*ret_top = box_location_same(&above, place) && above.mount == place->mount;
	*place = above;
	box_close_p(fd);
	*fd = TAKE_FD(up);
	return 0;
}

int box_location_visit_upwards(int start, box_location_visitor *visit, void *arg)
{
	_cleanup_(box_close_p) int fd = fcntl(start, F_DUPFD_CLOEXEC, 3);
	struct box_location place = {0};
	int r = fd < 0 ? -errno : box_location_of(fd, &place);
	bool top = false;
	for (size_t depth = 0; r == 0 && !top; depth++) {
		if (visit(arg, &place)) {
			return 1;
		}
		r = depth < BOX_PATH_MAX ? step_up(&fd, &place, &top) : -EPERM;
	}
	return r;
}

struct search {
	const struct box_location *others;
	size_t count;
};

static bool is_one_of(void *arg, const struct box_location *place)
{
	const struct search *search = arg;
	for (size_t i = 0; i < search->count; i++) {
		if (box_location_same(place, &search->others[i])) {
			return true;
		}
	}
	return false;
}

/* 0 when none of `others` is at or above `start`, -EPERM when one is. */
static int search_upwards(int start, const struct box_location *others, size_t count)
{
	struct search search = {others, count};
	int r = box_location_visit_upwards(start, is_one_of, &search);
	return r == 1 ? -EPERM : r;
}

bool box_location_is_below(int fd, const struct box_location *place)
{
	struct search search = {place, 1};
	return box_location_visit_upwards(fd, is_one_of, &search) == 1;
}

/* System folders that do not exist are left out. */
static int refused_places(struct box_location places[REFUSED_COUNT], size_t *ret_count)
{
	size_t count = 0;
	for (size_t i = 0; i < REFUSED_COUNT; i++) {
		_cleanup_(box_close_p) int fd = -1;
		int r = box_location_open_following(AT_FDCWD, refused[i].path, &fd);
		if (r == -ENOENT) {
			continue;
		}
		if (r < 0) {
			return r;
		}
		r = box_location_of(fd, &places[count]);
		if (r < 0) {
			return r;
		}
		count++;
	}
	*ret_count = count;
	return 0;
}

int box_location_check_filesystem(int fd)
{
	struct statfs filesystem;
	if (fstatfs(fd, &filesystem) < 0) {
		return -errno;
	}
	for (size_t i = 0; i < BOX_COUNT_OF(refused_kinds); i++) {
		if ((uint32_t)filesystem.f_type == refused_kinds[i]) {
			return -EPERM;
		}
	}
	return 0;
}

int box_location_check_not_in_system(int fd)
{
	struct box_location places[REFUSED_COUNT] = {0};
	size_t count = 0;
	int r = box_location_check_filesystem(fd);
	if (r < 0) {
		return r;
	}
	r = refused_places(places, &count);
	return r < 0 ? r : search_upwards(fd, places, count);
}

static int search_upwards_from(const char *path, const struct box_location *place)
{
	_cleanup_(box_close_p) int fd = -1;
	int r = box_location_open_following(AT_FDCWD, path, &fd);
	return r < 0 ? r : search_upwards(fd, place, 1);
}

int box_location_check_contains_no_system(int fd)
{
	struct box_location place = {0};
	int r = box_location_of(fd, &place);
	for (size_t i = 0; r == 0 && i < REFUSED_COUNT; i++) {
		_cleanup_(box_close_p) int system_fd = -1;
		r = box_location_open_following(AT_FDCWD, refused[i].path, &system_fd);
		if (r == -ENOENT) {
			r = 0;
			continue;
		}
		if (r == 0) {
			r = search_upwards(system_fd, &place, 1);
		}
		if (r == -EACCES) {
			/* A plain user cannot go up from inside /root, only from beside it. */
			r = search_upwards_from(refused[i].parent, &place);
		}
	}
	return r;
}

/* Whether `name` made in `parent` would be a system folder that this host lacks. */
int box_location_check_makes_no_system(int parent, const char *name)
{
	struct box_location place = {0};
	int r = box_location_of(parent, &place);
	for (size_t i = 0; r == 0 && i < REFUSED_COUNT; i++) {
		_cleanup_(box_close_p) int fd = -1;
		struct box_location of_refused = {0};
		if (strcmp(name, refused[i].name) != 0) {
			continue;
		}
		r = box_location_open_following(AT_FDCWD, refused[i].parent, &fd);
		if (r == -ENOENT) {
			r = 0;
			continue;
		}
		if (r < 0) {
			return r;
		}
		r = box_location_of(fd, &of_refused);
		if (r == 0 && box_location_same(&place, &of_refused)) {
			return -EPERM;
		}
	}
	return r;
}
