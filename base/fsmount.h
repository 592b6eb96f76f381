/* Mounts by the kernel's fd interface: file systems are made, attached, cloned and made read-only by fd and
 * never named by a path, except by a caller that opens a place.
 *
 * For boxd and its children, box-vmm and box-init: the system calls themselves, since the C library that
 * box-init is linked with has no functions for them. Nothing here allocates or logs. Results are fds or 0,
 * or -errno.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct box_fsmount_options {
	uint64_t size_bytes;
	uint64_t inodes;
	uint32_t mode;
	uint32_t uid; /* inside, as the caller's user namespace has it; 0: the caller's */
	uint32_t gid;
	uint64_t attributes; /* MOUNT_ATTR_* */
	bool pids_only;      /* of proc: processes and nothing else */
};

/* A detached mount of a new tmpfs, proc or devpts. 0 or -errno. */
int box_fsmount_make(const char *type, const struct box_fsmount_options *options, int *ret_mount);

struct box_fsmount_parameter {
	const char *key;
	const char *value;
};

/* A detached mount of any other new file system: its fd, or -errno. */
int box_fsmount_make_by_parameters(const char *type, const struct box_fsmount_parameter *parameters,
	size_t count, uint64_t attributes);

/* Attaches a detached mount at `name` in `parent` and gives an O_PATH fd of its root; ret_fd may be
 * NULL. */
int box_fsmount_attach(int mount, int parent, const char *name, int *ret_fd);

/* Attaches it at an opened place. */
int box_fsmount_attach_at(int mount, int place);

/* A detached copy of the mount that `path` in `folder` is in, beginning there; "" is `folder` itself. A
 * link at the end is not followed. Its fd, or -errno. */
int box_fsmount_clone(int folder, const char *path);

/* An O_PATH fd of whatever is at a relative path below `root`; no link is followed. 0 or -errno. */
int box_fsmount_open_beneath(int root, const char *path, int *ret_fd);

/* The path of an fd in the kernel's own words, cut to the room; it may lead elsewhere by now. */
int box_fsmount_path_of(int fd, char *path, size_t room);

/* Adds MOUNT_ATTR_* to the mount that the fd is in. */
int box_fsmount_add_attributes(int fd, uint64_t attributes);
int box_fsmount_make_read_only(int fd);

/* Makes a mount the root of this mount namespace, and lets the old root go with all that is mounted in it.
 */
int box_fsmount_enter_root(int root);
