/* fsopen, fsconfig, fsmount, move_mount. */
#include "boxd/files/fsmount.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/limits.h"

static int set_text(int fs, const char *key, const char *value)
{
	return fsconfig(fs, FSCONFIG_SET_STRING, key, value, 0) < 0 ? -errno : 0;
}

static int set_number(int fs, const char *key, uint64_t value)
{
	char text[32];
	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	return set_text(fs, key, text);
}

static int configure_tmpfs(int fs, const struct box_fsmount_options *options)
{
	char mode[16];
	(void)snprintf(mode, sizeof(mode), "%o", options->mode);
	int r = set_number(fs, "size", options->size_bytes);
	r = r < 0 ? r : set_number(fs, "nr_inodes", options->inodes);
	r = r < 0 ? r : set_text(fs, "mode", mode);
	r = r < 0 || !options->uid ? r : set_number(fs, "uid", options->uid);
	return r < 0 || !options->gid ? r : set_number(fs, "gid", options->gid);
}

/* Commands see no process that is not theirs; where the kernel is too old for that, no box. */
static int configure_proc(int fs, const struct box_fsmount_options *options)
{
	int r = set_text(fs, "hidepid", "invisible");
	return r < 0 || !options->pids_only ? r : set_text(fs, "subset", "pid");
}

/* Every terminal is the commands' own, whoever made it. The host has some thousands for all boxes
 * together, and one box could take them all. */
static int configure_devpts(int fs, const struct box_fsmount_options *options)
{
	int r = set_text(fs, "ptmxmode", "0666");
	r = r < 0 ? r : set_text(fs, "mode", "0620");
	r = r < 0 ? r : set_number(fs, "max", BOX_TERMINALS_MAX);
	r = r < 0 ? r : set_number(fs, "uid", options->uid);
	return r < 0 ? r : set_number(fs, "gid", options->gid);
}

int box_fsmount_make(const char *type, const struct box_fsmount_options *options, int *ret_mount)
{
	_cleanup_(box_close_p) int fs = fsopen(type, FSOPEN_CLOEXEC);
	if (fs < 0) {
		return -errno;
	}
	int r = strcmp(type, "tmpfs") == 0  ? configure_tmpfs(fs, options)
		: strcmp(type, "proc") == 0 ? configure_proc(fs, options)
					    : configure_devpts(fs, options);
	if (r < 0) {
		return r;
	}
	if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0) {
		return -errno;
	}
	int mount = fsmount(fs, FSMOUNT_CLOEXEC, (unsigned)options->attributes);
	if (mount < 0) {
		return -errno;
	}
	*ret_mount = mount;
	return 0;
}

int box_fsmount_attach_at(int mount, int place)
{
	return move_mount(mount, "", place, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) <
			0
		? -errno
		: 0;
}

int box_fsmount_attach(int mount, int parent, const char *name, int *ret_fd)
{
	_cleanup_(box_close_p) int place = openat(parent, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	int r = place < 0 ? -errno : box_fsmount_attach_at(mount, place);
	if (r < 0 || !ret_fd) {
		return r;
	}
	/* The mount's own fd is the root of what is attached now. */
	int fd = fcntl(mount, F_DUPFD_CLOEXEC, 3);
	if (fd < 0) {
		return -errno;
	}
	*ret_fd = fd;
	return 0;
}

int box_fsmount_open_beneath(int root, const char *path, int *ret_fd)
{
	struct open_how how = {
		.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};
	long fd = syscall(SYS_openat2, root, path, &how, sizeof(how));
	if (fd < 0) {
		return -errno;
	}
	*ret_fd = (int)fd;
	return 0;
}

int box_fsmount_path_of(int fd, char *path, size_t room)
{
	char link[32];
	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ssize_t len = readlink(link, path, room - 1);
	if (len < 0) {
		return -errno;
	}
	path[len] = '\0';
	return 0;
}

int box_fsmount_make_read_only(int fd)
{
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
	return mount_setattr(fd, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0 ? -errno : 0;
}
