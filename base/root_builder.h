/* The root of a box, built step by step in the box's own mount namespace. boxd's first process of a box
 * builds it from the plan, box-init of a microVM from the root steps of its boot file; both turn what
 * they have into the steps here, so that what a step does exists once.
 *
 * Places are opened beneath our own root, one name at a time and through no link; nothing else sees the
 * root yet. Nothing here allocates or logs. The caller's umask is 0. All functions give 0 or -errno.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum box_root_builder_kind {
	BOX_ROOT_BUILDER_TMPFS, /* a file system of its own: size, inodes, mode, owner */
	BOX_ROOT_BUILDER_TREE,  /* a detached mount */
	BOX_ROOT_BUILDER_DEVICES, /* a /dev with the nodes that every box has; pts and shm are folders */
	BOX_ROOT_BUILDER_PROC,
	BOX_ROOT_BUILDER_PTS,    /* owner: of all terminals */
	BOX_ROOT_BUILDER_FOLDER, /* made with its parents: mode, owner */
	BOX_ROOT_BUILDER_LINK,
	BOX_ROOT_BUILDER_MASK,   /* an empty file or folder over what is there, if anything is */
	BOX_ROOT_BUILDER_FREEZE, /* read-only from now on: below /proc, or the root itself */
};

/* How many namespaces and inotify instances there may be, written to /proc/sys/user. */
struct box_root_builder_proc {
	bool pids_only;     /* what is mounted shows processes and nothing else */
	bool for_passt;     /* passt confines itself with a namespace of some kinds */
	bool same_uid;      /* one id is all there is: the box's own namespaces count */
	bool bound_inotify; /* the counts are the host's: each box has a share */
};

struct box_root_builder_step {
	enum box_root_builder_kind kind;
	const char *target; /* absolute, in the new root */
	const char *source; /* LINK: what it links to */
	int tree;           /* TREE; stays the caller's */
	uint32_t uid;
	uint32_t gid;
	uint32_t mode; /* FOLDER: 0 for 0755 */
	uint64_t size_bytes;
	uint64_t inodes;
	uint64_t attributes; /* MOUNT_ATTR_* of what is mounted; a TREE has its own already */
	struct box_root_builder_proc proc;
};

/* The new root, a TMPFS attached at `anchor` and empty; and a second, detached mount of it, which stays
 * writable when the root is frozen. */
int box_root_builder_make_root(const struct box_root_builder_step *step, const char *anchor,
	int *ret_root, int *ret_writable);

/* Any other step. */
int box_root_builder_run_step(int root, const struct box_root_builder_step *step);

/* The target of a step as an O_PATH fd, made with its parents if it is missing. */
int box_root_builder_open_place(int root, const struct box_root_builder_step *step, int *ret_fd);
