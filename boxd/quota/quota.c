/* What there is for a folder, by fds: no path is read twice, and what is not ours is refused. */
#include "boxd/quota/quota.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fsmount.h"
#include "boxd/files/location.h"

#define LOOP_MAJOR 7
#define STORE_MODE 0700U

static const char *const mkfs_paths[] = {
	"/usr/sbin/mkfs.ext4", "/sbin/mkfs.ext4", "/usr/local/sbin/mkfs.ext4", NULL};
static const char *const resize_paths[] = {
	"/usr/sbin/resize2fs", "/sbin/resize2fs", "/usr/local/sbin/resize2fs", NULL};

static const char *find_program(const char *const *paths)
{
	while (*paths && access(*paths, X_OK) < 0) {
		paths++;
	}
	return *paths;
}

static void say_missing(struct box_quota_support *support, const char *why)
{
	if (support->missing[0] == '\0') {
		(void)snprintf(support->missing, sizeof(support->missing), "%s", why);
	}
}

void box_quota_support_find(struct box_quota_support *support)
{
	*support = (struct box_quota_support){.host_ns = -1, .own_ns = -1};
	if (geteuid() != 0) {
		say_missing(support, "boxd is not root, and only root can mount an image");
		return;
	}
	support->mkfs = find_program(mkfs_paths);
	support->resize = find_program(resize_paths);
	if (!support->mkfs || !support->resize) {
		say_missing(support, "mkfs.ext4 or resize2fs is not there (package e2fsprogs)");
	}
	if (access("/dev/loop-control", R_OK | W_OK) < 0) {
		say_missing(support, "/dev/loop-control cannot be used: there are no loop devices");
	}
	support->host_ns = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
	if (support->host_ns < 0) {
		say_missing(support, "/proc/self/ns/mnt cannot be opened");
	}
}

void box_quota_support_enter_namespace(struct box_quota_support *support)
{
	if (support->missing[0] != '\0') {
		return;
	}
	support->own_ns = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
	if (support->own_ns < 0) {
		say_missing(support, "/proc/self/ns/mnt cannot be opened");
		return;
	}
	support->possible = true;
}

void box_quota_support_close(struct box_quota_support *support)
{
	box_close_p(&support->host_ns);
	box_close_p(&support->own_ns);
}

/* That the name leads there is looked at later. */
static int find_name(int source, char path[BOX_PATH_MAX], const char **ret_name)
{
	int r = box_fsmount_path_of(source, path, BOX_PATH_MAX);
	if (r < 0) {
		return r;
	}
	const char *slash = strrchr(path, '/');
	if (!slash || slash[1] == '\0') {
		return -ENOENT;
	}
	*ret_name = slash + 1;
	return 0;
}

static bool is_same_folder(int parent, const char *name, int source)
{
	struct box_location here = {0};
	struct box_location there = {0};
	_cleanup_(box_close_p) int fd = -1;
	return box_location_open_no_follow(parent, name, &fd) == 0 &&
		box_location_of(fd, &here) == 0 && box_location_of(source, &there) == 0 &&
		here.major == there.major && here.minor == there.minor && here.inode == there.inode;
}

int box_quota_find(int source, struct box_quota_folder *ret_folder, struct box_err *err)
{
	char path[BOX_PATH_MAX];
	const char *name = "";
	_cleanup_(box_close_p) int parent = -1;
	int r = box_location_open_following(source, "..", &parent);
	r = r < 0 ? r : find_name(source, path, &name);
	if (r == 0 && !is_same_folder(parent, name, source)) {
		r = -ENOENT;
	}
	if (r == 0 && strlen(name) + sizeof(".img") > sizeof(ret_folder->name)) {
		r = -ENAMETOOLONG;
	}
	if (r < 0) {
		return box_err_set(err, BOX_ERR_VALIDATION, -r,
			"host_path cannot have a quota: its name cannot be told: %s",
			box_err_strerror(-r));
	}
	*ret_folder = (struct box_quota_folder){.parent = TAKE_FD(parent)};
	memcpy(ret_folder->name, name, strlen(name) + 1);
	return 0;
}

static int not_ours(const char *what, struct box_err *err)
{
	return box_err_set(err, BOX_ERR_BOX, EPERM,
		"the quota of host_path cannot be held: %s is not as boxd makes it", what);
}

int box_quota_open_store(int parent, int *ret_store, struct box_err *err)
{
	_cleanup_(box_close_p) int fd = openat(parent, BOX_QUOTA_STORE_NAME,
		O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat status;
	if (fd < 0) {
		/* Another's than root's: what root has mounted is seen, the rest is not ours to do.
		 */
		return errno == ENOENT || errno == EACCES ? -ENOENT
							  : not_ours(BOX_QUOTA_STORE_NAME, err);
	}
	if (fstat(fd, &status) < 0 || status.st_uid != BOX_QUOTA_UID ||
		(status.st_mode & 07777) != STORE_MODE) {
		return not_ours(BOX_QUOTA_STORE_NAME, err);
	}
	*ret_store = TAKE_FD(fd);
	return 0;
}

int box_quota_open_image(int store, const char *name, int *ret_image, struct box_err *err)
{
	char file[sizeof(((struct box_quota_folder *)0)->name) + 8];
	(void)snprintf(file, sizeof(file), "%s.img", name);
	_cleanup_(box_close_p) int fd = openat(
		store, file, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat status;
	if (fd < 0) {
		return errno == ENOENT ? -ENOENT : not_ours(file, err);
	}
	if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode) || status.st_uid != BOX_QUOTA_UID ||
		status.st_nlink != 1) {
		return not_ours(file, err);
	}
	*ret_image = TAKE_FD(fd);
	return 0;
}

void box_quota_unswept_marker_name(const char *name, char ret_file[300])
{
	(void)snprintf(ret_file, 300, "%s.swp", name);
}

/* By the loop device that its file system is on: names say nothing here. */
bool box_quota_is_root_of(int fd, int image)
{
	struct statx place;
	struct stat file;
	struct stat node;
	struct loop_info64 info = {0};
	char path[32];
	if (statx(fd, "", AT_EMPTY_PATH, STATX_INO, &place) < 0 || fstat(image, &file) < 0 ||
		place.stx_dev_major != LOOP_MAJOR ||
		!(place.stx_attributes & STATX_ATTR_MOUNT_ROOT)) {
		return false;
	}
	(void)snprintf(path, sizeof(path), "/dev/loop%u", place.stx_dev_minor);
	_cleanup_(box_close_p) int loop = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	return loop >= 0 && fstat(loop, &node) == 0 && S_ISBLK(node.st_mode) &&
		major(node.st_rdev) == place.stx_dev_major &&
		minor(node.st_rdev) == place.stx_dev_minor &&
		ioctl(loop, LOOP_GET_STATUS64, &info) == 0 && info.lo_device == file.st_dev &&
		info.lo_inode == file.st_ino;
}

int box_quota_read_state(int source, struct box_quota_state *ret_state, struct box_err *err)
{
	struct box_quota_folder folder = {.parent = -1};
	_cleanup_(box_close_p) int parent = -1;
	_cleanup_(box_close_p) int store = -1;
	_cleanup_(box_close_p) int image = -1;
	struct stat status;
	*ret_state = (struct box_quota_state){0};
	int r = box_quota_find(source, &folder, err);
	parent = folder.parent;
	r = r < 0 ? r : box_quota_open_store(parent, &store, err);
	r = r < 0 ? r : box_quota_open_image(store, folder.name, &image, err);
	if (r < 0) {
		return r == -ENOENT ? 0 : r;
	}
	if (fstat(image, &status) < 0) {
		return box_err_set(err, BOX_ERR_OS, errno, "the image of host_path: fstat");
	}
	ret_state->has_image = true;
	ret_state->image_bytes = (uint64_t)status.st_size;
	ret_state->mounted = box_quota_is_root_of(source, image);
	char sweep[300];
	box_quota_unswept_marker_name(folder.name, sweep);
	ret_state->unswept = faccessat(store, sweep, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
	struct statfs room;
	if (ret_state->mounted && fstatfs(source, &room) == 0) {
		ret_state->room_bytes = (room.f_blocks - room.f_bfree + room.f_bavail) *
			(uint64_t)room.f_bsize;
	}
	return 0;
}
