/* New file systems by the kernel's fd interface: made, attached, frozen, never named by a path; and
 * the places for them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct box_fsmount_options {
	uint64_t size_bytes; /* 0: none of tmpfs's options */
	uint64_t inodes;
	uint32_t mode;
	uint32_t uid; /* inside, as the caller's user namespace has it */
	uint32_t gid;
	uint64_t attributes; /* MOUNT_ATTR_* */
	bool pids_only;      /* of proc: processes and nothing else */
};

/* A detached mount of a new tmpfs, proc or devpts. 0 or -errno. */
int box_fsmount_make(const char *type, const struct box_fsmount_options *options, int *ret_mount);

/* Attaches a detached mount at `name` in `parent` and gives an O_PATH fd of its root; ret_fd may be
 * NULL. */
int box_fsmount_attach(int mount, int parent, const char *name, int *ret_fd);

/* Attaches it at an opened place. */
int box_fsmount_attach_at(int mount, int place);

/* An O_PATH fd of whatever is at a relative path below `root`; no link is followed. 0 or -errno. */
int box_fsmount_open_beneath(int root, const char *path, int *ret_fd);

/* The path of an fd in the kernel's own words, cut to the room; it may lead elsewhere by now. */
int box_fsmount_path_of(int fd, char *path, size_t room);

/* Makes the mount that the fd is in read-only. */
int box_fsmount_make_read_only(int fd);
