/* Opens, checks, clones, sets attributes, in this order and by fd, while nobody else can see the mount. */
#include "boxd/files/host_mount.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fsmount.h"
#include "base/limits.h"
#include "boxd/box/userns.h"
#include "boxd/files/host_folder.h"
#include "boxd/files/location.h"

/* Whether a mount point, as mountinfo writes it with white space and backslashes as octal numbers, is
 * below a path. */
bool box_host_mount_is_below(const char *point, const char *path)
{
	while (*path) {
		unsigned char here = (unsigned char)*point;
		size_t used = 1;
		if (here == '\\' && point[1] && point[2] && point[3]) {
			here = (unsigned char)((point[1] - '0') * 64 + (point[2] - '0') * 8 +
				(point[3] - '0'));
			used = 4;
		}
		if (here != (unsigned char)*path) {
			return false;
		}
		point += used;
		path++;
	}
	return *point == '/';
}

static int say(const struct box_host_mount_request *ask, int r, size_t link, struct box_err *err)
{
	const char *what = ask->what;
	const char *path = ask->path;
	if (link > 0) {
		return box_err_set(err, BOX_ERR_VALIDATION, ELOOP,
			"%s %s is refused: %.*s is a link, and none is followed below "
			"allowed_mount_roots",
			what, path, (int)link, path);
	}
	switch (r) {
	case -EPERM:
		return box_err_set(err, BOX_ERR_VALIDATION, EPERM, "%s %s is blocked for security",
			what, path);
	case -EXDEV:
		return box_err_set(err, BOX_ERR_VALIDATION, EPERM,
			"%s %s is outside allowed_mount_roots: start boxd with --mount-root %s, or "
			"write local.allowed_mount_roots in its --config file",
			what, path, path);
	case BOX_MOUNT_ROOTS_DENIED_OWN:
		return box_err_set(err, BOX_ERR_VALIDATION, EPERM,
			"%s %s is refused: it is at, above or below rootfs, an image, the "
			"configuration, the token or the operator's socket of this runtime",
			what, path);
	case BOX_MOUNT_ROOTS_DENIED_SYSTEM:
		return box_err_set(err, BOX_ERR_VALIDATION, EPERM,
			"%s %s is refused: it is, is in or contains the host's own programs and "
			"libraries (/usr, /bin, /sbin, /lib), which no box may write to: mount it "
			"read-only",
			what, path);
	case BOX_MOUNT_ROOTS_DENIED_STORE:
		return box_err_set(err, BOX_ERR_VALIDATION, EPERM,
			"%s %s is refused: from the skill store a box gets packages of its own "
			"workspace only, and no folder that contains the store",
			what, path);
	case -ENOENT:
		return box_err_set(
			err, BOX_ERR_VALIDATION, ENOENT, "%s %s does not exist", what, path);
	default:
		return box_err_set(err, BOX_ERR_VALIDATION, -r, "%s %s cannot be opened: %s", what,
			path, box_err_strerror(-r));
	}
}

/* A regular file in an allowed folder; a link as the last component is not followed. */
static int open_file(const struct box_host_mount_request *ask, struct box_mount_roots *roots,
	size_t *ret_link, int *ret_fd)
{
	const char *path = ask->path;
	char folder[BOX_PATH_MAX];
	const char *slash = strrchr(path, '/');
	if (!slash || slash == path || (size_t)(slash - path) >= sizeof(folder)) {
		return -EINVAL;
	}
	memcpy(folder, path, (size_t)(slash - path));
	folder[slash - path] = '\0';
	_cleanup_(box_close_p) int parent = -1;
	/* The folder itself is not mounted, so something of Box's own may be beside the file. */
	const struct box_host_folder_request wanted = {.path = folder, .asker = ask->asker};
	int r = box_host_folder_open(&wanted, roots, ret_link, &parent);
	if (r == 0 && ask->writable) {
		r = box_mount_roots_check_writable(roots, parent);
	}
	if (r < 0) {
		return r;
	}
	_cleanup_(box_close_p) int fd = openat(parent, slash + 1, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat status;
	if (fd < 0 || fstat(fd, &status) < 0) {
		return -errno;
	}
	if (!S_ISREG(status.st_mode)) {
		return -ENOTDIR;
	}
	/* A file can be a mount of its own. */
	r = box_location_check_filesystem(fd);
	if (r < 0) {
		return r;
	}
	r = box_mount_roots_check_above(roots, fd);
	if (r < 0) {
		return r;
	}
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int box_host_mount_open(const struct box_host_mount_request *ask, struct box_mount_roots *roots,
	int *ret_fd, struct box_err *err)
{
	_cleanup_(box_close_p) int fd = -1;
	size_t link = 0;
	const struct box_host_folder_request wanted = {
		.path = ask->path, .make = ask->make, .to_mount = true, .asker = ask->asker};
	box_mount_roots_refresh(roots);
	int r = box_host_folder_open(&wanted, roots, &link, &fd);
	if (r == 0 && ask->writable) {
		r = box_mount_roots_check_writable(roots, fd);
	}
	if (r == -ENOTDIR && ask->files) {
		r = open_file(ask, roots, &link, &fd);
	}
	if (r < 0) {
		return say(ask, r, link, err);
	}
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* Without id-mapped mounts we are not the host's root, and the kernel does not let us clone a mount
 * without the mounts below it, which may be anything. */
static int check_no_mounts_below(int source, struct box_err *err)
{
	char path[BOX_PATH_MAX];
	int r = box_fsmount_path_of(source, path, sizeof(path));
	FILE *mounts = r < 0 ? NULL : fopen("/proc/self/mountinfo", "re");
	if (!mounts) {
		return box_err_set(
			err, BOX_ERR_OS, r < 0 ? -r : errno, "/proc/self/mountinfo cannot be read");
	}
	char *line = NULL;
	size_t room = 0;
	bool found = false;
	while (!found && getline(&line, &room, mounts) > 0) {
		char point[BOX_PATH_MAX];
		found = sscanf(line, "%*s %*s %*s %*s %4095s", point) == 1 &&
			box_host_mount_is_below(point, path);
	}
	free(line);
	(void)fclose(mounts);
	return found ? box_err_set(err, BOX_ERR_VALIDATION, EPERM,
			       "a mounted folder has other mounts below it, which only root can "
			       "leave out")
		     : 0;
}

int box_host_mount_detach(int source, bool read_only, const struct box_host_mount_owner *owner,
	int *ret_mount, struct box_err *err)
{
	int r = owner->map ? 0 : check_no_mounts_below(source, err);
	if (r < 0) {
		return r;
	}
	unsigned recursive = owner->map ? 0 : AT_RECURSIVE;
	_cleanup_(box_close_p) int tree = open_tree(
		source, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | recursive);
	if (tree < 0) {
		return box_err_set(
			err, BOX_ERR_OS, errno, "open_tree: %s", box_err_strerror(errno));
	}
	struct mount_attr attr = {
		.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
			(read_only ? MOUNT_ATTR_RDONLY : 0),
		.propagation = MS_PRIVATE,
	};
	_cleanup_(box_close_p) int userns = -1;
	if (owner->map) {
		struct stat status;
		if (fstat(source, &status) < 0) {
			return box_err_set(err, BOX_ERR_OS, errno, "fstat of a mount source");
		}
		r = box_userns_map(status.st_uid, owner->uid, status.st_gid, owner->gid, &userns);
		if (r < 0) {
			return box_err_set(err, BOX_ERR_OS, -r, "user namespace of a mount: %s",
				box_err_strerror(-r));
		}
		attr.attr_set |= MOUNT_ATTR_IDMAP;
		attr.userns_fd = (uint64_t)userns;
	}
	if (mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof(attr)) < 0) {
		return box_err_set(err, BOX_ERR_VALIDATION, errno, "%s: %s",
			errno == EINVAL && owner->map
				? "the file system of a mounted folder cannot map owners"
				: "mount_setattr",
			box_err_strerror(errno));
	}
	*ret_mount = TAKE_FD(tree);
	return 0;
}
