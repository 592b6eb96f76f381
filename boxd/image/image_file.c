/* Attaches an image file to a loop device and mounts it, both read-only: nothing is ever written to it. */
#include "boxd/image/image_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fsmount.h"
#include "base/limits.h"
#include "base/macros.h"
#include "boxd/image/loop_device.h"
#include "boxd/image/root.h"

static int refuse(
	const struct box_image_file_request *ask, struct box_err *err, int errnum, const char *why)
{
	return box_err_set(err, BOX_ERR_VALIDATION, errnum, "%s: %s %s", ask->what, ask->path, why);
}

static int fail(
	const struct box_image_file_request *ask, struct box_err *err, const char *step, int errnum)
{
	return box_err_set(err, BOX_ERR_BACKEND_UNAVAILABLE, errnum, "%s: %s: %s: %s", ask->what,
		ask->path, step, box_err_strerror(errnum));
}

const char *box_image_file_kind(const unsigned char *head, size_t size)
{
	static const struct {
		const char *kind;
		size_t at;
		const char *magic;
		size_t len;
	} kinds[] = {
		{"squashfs", 0, "hsqs", 4},
		{"erofs", 1024, "\xe2\xe1\xf5\xe0", 4},
		{"ext4", 1024 + 56, "\x53\xef", 2},
	};
	for (size_t i = 0; i < BOX_COUNT_OF(kinds); i++) {
		if (kinds[i].at + kinds[i].len <= size &&
			memcmp(head + kinds[i].at, kinds[i].magic, kinds[i].len) == 0) {
			return kinds[i].kind;
		}
	}
	return NULL;
}

/* noload: replaying an unfinished journal would write to the file. */
static int make_mount(const char *kind, const char *device, int *ret_mount)
{
	_cleanup_(box_close_p) int context = fsopen(kind, FSOPEN_CLOEXEC);
	if (context < 0 || fsconfig(context, FSCONFIG_SET_STRING, "source", device, 0) < 0 ||
		fsconfig(context, FSCONFIG_SET_FLAG, "ro", NULL, 0) < 0 ||
		(strcmp(kind, "ext4") == 0 &&
			fsconfig(context, FSCONFIG_SET_FLAG, "noload", NULL, 0) < 0) ||
		fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0) {
		return -errno;
	}
	int mount = fsmount(
		context, FSMOUNT_CLOEXEC, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	if (mount < 0) {
		return -errno;
	}
	*ret_mount = mount;
	return 0;
}

/* Opened again through its own fd, so it is the same file. */
static int mount_file(
	const struct box_image_file_request *ask, int found, int *ret_folder, struct box_err *err)
{
	unsigned char head[BOX_IMAGE_FILE_HEAD_BYTES];
	char again[32];
	char device[64];
	_cleanup_(box_close_p) int loop = -1;
	_cleanup_(box_close_p) int mount = -1;
	(void)snprintf(again, sizeof(again), "/proc/self/fd/%d", found);
	/* O_NONBLOCK: a lease that somebody holds on it must not block us. */
	_cleanup_(box_close_p) int file = open(again, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	ssize_t size = file < 0 ? -1 : pread(file, head, sizeof(head), 0);
	if (size < 0) {
		return fail(ask, err, "the file cannot be read", errno);
	}
	const char *kind = box_image_file_kind(head, (size_t)size);
	if (!kind) {
		return refuse(ask, err, EINVAL,
			"is a file without a file system in it (ext4, squashfs or erofs)");
	}
	int r = box_loop_device_attach(file, true, &loop);
	if (r == 0) {
		r = box_fsmount_path_of(loop, device, sizeof(device));
	}
	if (r < 0) {
		return fail(ask, err,
			geteuid() == 0 ? "a loop device"
				       : "a loop device, which only root can have (use a folder)",
			-r);
	}
	r = make_mount(kind, device, &mount);
	if (r == 0 && mkdirat(ask->anchor, "fs", 0755) < 0 && errno != EEXIST) {
		r = -errno;
	}
	if (r == 0) {
		r = box_fsmount_attach(mount, ask->anchor, "fs", ret_folder);
	}
	return r < 0 ? fail(ask, err, "the file system in it cannot be mounted", -r) : 0;
}

static int open_it(const struct box_image_file_request *ask, int *ret_folder, struct box_err *err)
{
	struct stat status;
	_cleanup_(box_close_p) int fd = open(
		ask->path, O_PATH | O_CLOEXEC | (ask->follow ? 0 : O_NOFOLLOW));
	if (fd < 0 || fstat(fd, &status) < 0) {
		return fail(ask, err, "it cannot be opened", errno);
	}
	if (S_ISDIR(status.st_mode)) {
		*ret_folder = TAKE_FD(fd);
		return 0;
	}
	if (S_ISREG(status.st_mode)) {
		return mount_file(ask, fd, ret_folder, err);
	}
	return refuse(ask, err, EINVAL,
		S_ISLNK(status.st_mode) ? "is a link"
			: S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode)
			? "is a device"
			: "is neither a folder nor a file");
}

int box_image_file_open(
	const struct box_image_file_request *ask, int *ret_folder, struct box_err *err)
{
	_cleanup_(box_close_p) int folder = -1;
	int r = open_it(ask, &folder, err);
	if (r < 0) {
		return r;
	}
	if (box_root_check_shell(folder) < 0) {
		return refuse(ask, err, ENOENT, "has no /bin/sh, which runs commands");
	}
	*ret_folder = TAKE_FD(folder);
	return 0;
}
