/* Mounts by the kernel's fd interface: file systems are created, attached, cloned and made read-only by
 * fd, never by path, except where a caller opens a path first.
 *
 * Used by boxd and its children, box-vmm and box-init. Makes the system calls directly, since the C
 * library of box-init has no wrappers for them. Nothing here allocates or logs. Functions return an fd
 * or 0, or -errno.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct box_fsmount_options {
	uint64_t size_bytes;
	uint64_t inodes;
	uint32_t mode;
	/* Owner of the root, as the caller's user namespace numbers it; 0: the caller. */
	uint32_t uid;
	uint32_t gid;
	uint64_t attributes; /* MOUNT_ATTR_* */
	bool pids_only;      /* proc only: subset=pid */
};

/* Makes a detached mount of a new tmpfs, proc or devpts. 0 or -errno. */
int box_fsmount_make(const char *type, const struct box_fsmount_options *options, int *ret_mount);

struct box_fsmount_parameter {
	const char *key;
	const char *value;
};

/* Makes a detached mount of any other new file system. Its fd, or -errno. */
int box_fsmount_make_by_parameters(const char *type, const struct box_fsmount_parameter *parameters,
	size_t count, uint64_t attributes);

/* Attaches a detached mount at `name` in `parent` and returns an O_PATH fd of its root in ret_fd, which
 * may be NULL. */
int box_fsmount_attach(int mount, int parent, const char *name, int *ret_fd);

/* Attaches it at the folder or file that `place` has open. */
int box_fsmount_attach_at(int mount, int place);

/* A detached clone of the mount below `path` in `folder`; "" is `folder` itself. A symbolic link as the
 * last component is not followed. Its fd, or -errno. */
int box_fsmount_clone(int folder, const char *path);

/* An O_PATH fd of a relative path below `root`; no symbolic link is followed. 0 or -errno. */
int box_fsmount_open_beneath(int root, const char *path, int *ret_fd);

/* The path of an fd as the kernel shows it, cut to the room; the file may have been moved since. */
int box_fsmount_path_of(int fd, char *path, size_t room);

/* Adds MOUNT_ATTR_* to the mount that the fd belongs to. */
int box_fsmount_add_attributes(int fd, uint64_t attributes);
int box_fsmount_make_read_only(int fd);

/* Makes a mount the root of this mount namespace, and detaches the old root with everything mounted in
 * it.
 */
int box_fsmount_enter_root(int root);
