/* Builds the root of a box step by step, in the box's own mount namespace. The first process of a
 * native box (boxd/box) builds it from the plan, box-init of a microVM from the root steps of its boot
 * file; both convert to the steps here, so each step is implemented once.
 *
 * Paths are opened below the new root, component by component, and no symbolic link is followed; no
 * other process sees the root yet. Nothing here allocates or logs. The caller's umask must be 0. All
 * functions return 0 or -errno.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum box_root_builder_kind {
	BOX_ROOT_BUILDER_TMPFS, /* a new file system: size, inodes, mode, owner */
	BOX_ROOT_BUILDER_TREE,  /* a detached mount */
	BOX_ROOT_BUILDER_DEVICES, /* a /dev with the nodes that every box has; pts and shm are folders */
	BOX_ROOT_BUILDER_PROC,
	BOX_ROOT_BUILDER_PTS,    /* owner: of all terminals */
	BOX_ROOT_BUILDER_FOLDER, /* made with its parents: mode, owner */
	BOX_ROOT_BUILDER_LINK,
	BOX_ROOT_BUILDER_MASK,   /* covers an existing path with an empty file or folder */
	BOX_ROOT_BUILDER_FREEZE, /* makes read-only: a path below /proc, or the root itself */
};

/* Limits of namespaces and inotify instances, written to /proc/sys/user. */
struct box_root_builder_proc {
	bool pids_only;     /* mount proc with subset=pid */
	bool for_passt;     /* passt needs one namespace of some kinds to confine itself */
	bool same_uid;      /* there is only one uid: the box's own namespaces count too */
	bool bound_inotify; /* the inotify limits are the host's: each box gets a share */
};

struct box_root_builder_step {
	enum box_root_builder_kind kind;
	const char *target; /* absolute, in the new root */
	const char *source; /* LINK: the target of the link */
	int tree;           /* TREE; the caller keeps it */
	uint32_t uid;
	uint32_t gid;
	uint32_t mode; /* FOLDER: 0 for 0755 */
	uint64_t size_bytes;
	uint64_t inodes;
	uint64_t attributes; /* MOUNT_ATTR_* of the new mount; a TREE has its own already */
	struct box_root_builder_proc proc;
};

/* Makes the new root: a TMPFS attached at `anchor`, empty; and a second, detached mount of it, which
 * stays writable when the root is made read-only. */
int box_root_builder_make_root(const struct box_root_builder_step *step, const char *anchor,
	int *ret_root, int *ret_writable);

/* Does any other step. */
int box_root_builder_run_step(int root, const struct box_root_builder_step *step);

/* An O_PATH fd of a step's target, which is made with its parents if missing. */
int box_root_builder_open_place(int root, const struct box_root_builder_step *step, int *ret_fd);
