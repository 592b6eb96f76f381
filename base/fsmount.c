/* Wrappers of fsopen, fsconfig, fsmount, move_mount, open_tree, mount_setattr and pivot_root. */
#include "base/fsmount.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/macros.h"
#include "base/number.h"

#define DETACH 2 /* MNT_DETACH; on some C libraries its header conflicts with the kernel's */

static int set_text(int fs, const char *key, const char *value)
{
	return syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, key, value, 0) < 0 ? -errno : 0;
}

static int set_number(int fs, const char *key, uint64_t value)
{
	char text[BOX_NUMBER_SIZE];
	box_number_put(text, value, 10);
	return set_text(fs, key, text);
}

/* Zero values leave the choice to the file system. */
static int set_ids(int fs, const struct box_fsmount_options *options)
{
	int r = options->uid ? set_number(fs, "uid", options->uid) : 0;
	if (r < 0) {
		return r;
	}
	return options->gid ? set_number(fs, "gid", options->gid) : 0;
}

static int configure_tmpfs(int fs, const struct box_fsmount_options *options)
{
	char mode[BOX_NUMBER_SIZE];
	box_number_put(mode, options->mode, 8);
	int r = set_number(fs, "size", options->size_bytes);
	if (r < 0) {
		return r;
	}
	r = set_number(fs, "nr_inodes", options->inodes);
	if (r < 0) {
		return r;
	}
	r = set_text(fs, "mode", mode);
	if (r < 0) {
		return r;
	}
	return set_ids(fs, options);
}

/* hidepid: commands see their own processes only. Required: without it no box is made. */
static int configure_proc(int fs, const struct box_fsmount_options *options)
{
	int r = set_text(fs, "hidepid", "invisible");
	if (r < 0) {
		return r;
	}
	return options->pids_only ? set_text(fs, "subset", "pid") : 0;
}

/* Every terminal belongs to the payload, whichever process opens it. The kernel limits terminals only for
 * the whole host, to some thousands: without a limit of its own one box could use up all of them. */
static int configure_devpts(int fs, const struct box_fsmount_options *options)
{
	int r = set_text(fs, "ptmxmode", "0666");
	if (r < 0) {
		return r;
	}
	r = set_text(fs, "mode", "0620");
	if (r < 0) {
		return r;
	}
	r = set_number(fs, "max", BOX_TERMINALS_MAX);
	if (r < 0) {
		return r;
	}
	r = set_number(fs, "uid", options->uid);
	if (r < 0) {
		return r;
	}
	return set_number(fs, "gid", options->gid);
}

/* Creates the mount of a configured file system. */
static int create(int fs, uint64_t attributes)
{
	if (syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0) {
		return -errno;
	}
	long mount = syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, (unsigned)attributes);
	return mount < 0 ? -errno : (int)mount;
}

int box_fsmount_make(const char *type, const struct box_fsmount_options *options, int *ret_mount)
{
	_cleanup_(box_close_p) int fs = (int)syscall(SYS_fsopen, type, FSOPEN_CLOEXEC);
	if (fs < 0) {
		return -errno;
	}
	int r = strcmp(type, "tmpfs") == 0  ? configure_tmpfs(fs, options)
		: strcmp(type, "proc") == 0 ? configure_proc(fs, options)
					    : configure_devpts(fs, options);
	if (r < 0) {
		return r;
	}
	int mount = create(fs, options->attributes);
	if (mount < 0) {
		return mount;
	}
	*ret_mount = mount;
	return 0;
}

int box_fsmount_make_by_parameters(const char *type, const struct box_fsmount_parameter *parameters,
	size_t count, uint64_t attributes)
{
	_cleanup_(box_close_p) int fs = (int)syscall(SYS_fsopen, type, FSOPEN_CLOEXEC);
	if (fs < 0) {
		return -errno;
	}
	for (size_t i = 0; i < count; i++) {
		int r = set_text(fs, parameters[i].key, parameters[i].value);
		if (r < 0) {
			return r;
		}
	}
	return create(fs, attributes);
}

int box_fsmount_attach_at(int mount, int place)
{
	long r = syscall(SYS_move_mount, mount, "", place, "",
		MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
	return r < 0 ? -errno : 0;
}

int box_fsmount_attach(int mount, int parent, const char *name, int *ret_fd)
{
	_cleanup_(box_close_p) int place = openat(parent, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	int r = place < 0 ? -errno : box_fsmount_attach_at(mount, place);
	if (r < 0 || !ret_fd) {
		return r;
	}
	/* The mount's own fd now refers to the root of the attached mount. */
	int fd = fcntl(mount, F_DUPFD_CLOEXEC, 3);
	if (fd < 0) {
		return -errno;
	}
	*ret_fd = fd;
	return 0;
}

int box_fsmount_clone(int folder, const char *path)
{
	unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW;
	flags |= path[0] ? 0 : AT_EMPTY_PATH;
	long fd = syscall(SYS_open_tree, folder, path, flags);
	return fd < 0 ? -errno : (int)fd;
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
	static const char folder[] = "/proc/self/fd/";
	char link[sizeof(folder) + BOX_NUMBER_SIZE];
	memcpy(link, folder, sizeof(folder));
	box_number_put(link + sizeof(folder) - 1, (uint64_t)fd, 10);
	ssize_t len = readlink(link, path, room - 1);
	if (len < 0) {
		return -errno;
	}
	path[len] = '\0';
	return 0;
}

int box_fsmount_add_attributes(int fd, uint64_t attributes)
{
	struct mount_attr attr = {.attr_set = attributes};
	long r = syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH, &attr, sizeof(attr));
	return r < 0 ? -errno : 0;
}

int box_fsmount_make_read_only(int fd)
{
	return box_fsmount_add_attributes(fd, MOUNT_ATTR_RDONLY);
}

/* pivot_root(".", ".") leaves the old root stacked below the new one; unmount it. */
int box_fsmount_enter_root(int root)
{
	if (fchdir(root) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
		syscall(SYS_umount2, ".", DETACH) < 0 || chdir("/") < 0) {
		return -errno;
	}
	return 0;
}
