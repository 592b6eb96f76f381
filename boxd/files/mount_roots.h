/* Which parts of the host boxes may mount: the operator's mount roots, except what is Box's own in
 * them.
 *
 * Both are opened when the policy is sealed, before any client has sent anything, and are known by
 * device and inode from then on. For a missing path the deepest existing folder above it is opened: the
 * path is taken up when it appears, no link to it is followed, and until then no box gets that folder.
 *
 * Box's own are rootfs, the images, the operator's socket, the configuration and the token: no mount
 * may be at, above or below them. Of the skill store, and of the folder where a client keeps its own
 * skills in the same layout (tenants/NAMESPACE/...), a box gets what is below its own namespace, and
 * nothing else at, above or below the store.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/limits.h"
#include "boxd/files/location.h"

struct box_policy;

/* A folder or file that is kept open. */
struct box_mount_roots_path {
	const char *path;          /* as configured, absolute */
	const char *rest;          /* the missing part of the path; "": it exists */
	int fd;                    /* O_PATH: the path, or the deepest existing folder above it */
	struct box_location place; /* of the fd */
	char name[BOX_IMAGE_NAME_MAX + 16]; /* for Box's own: the configuration member */
};

/* Whether no part of the path is missing. */
bool box_mount_roots_path_is_complete(const struct box_mount_roots_path *held);
/* The folder, or the folder of a file; -1: it is gone. */
int box_mount_roots_open_folder_of(const struct box_mount_roots_path *held);

struct box_mount_roots_paths {
	size_t count;
	struct box_mount_roots_path items[BOX_MOUNT_ROOTS_MAX];
};

/* A growing set. */
struct box_mount_roots_locations {
	size_t count;
	struct box_location *items;
};

enum box_mount_roots_store {
	BOX_MOUNT_ROOTS_STORE_OWN,    /* of box-skills */
	BOX_MOUNT_ROOTS_STORE_CLIENT, /* of a client */
	BOX_MOUNT_ROOTS_STORES_
};

/* Paths of boxd's own in addition to the policy, each NULL or absolute. The socket is guarded like a
 * tree: if boxd runs as a plain user, a box that reached it would be the operator; a box that could
 * write the other files, or read the token, soon would be. */
struct box_mount_roots_own_paths {
	const char *socket;
	const char *config;
	const char *token;
};

struct box_mount_roots {
	struct box_mount_roots_paths roots;
	struct box_mount_roots_paths narrower; /* of a client's; empty: no restriction */
	size_t own_count;
	struct box_mount_roots_path own[4 + BOX_IMAGES_MAX];
	struct box_mount_roots_path stores[BOX_MOUNT_ROOTS_STORES_]; /* path NULL: there is none */
	struct box_mount_roots_locations above_own; /* folders that contain one of Box's own */
	struct box_mount_roots_locations above_stores[BOX_MOUNT_ROOTS_STORES_];
};

/* The requester of a mount, as far as the skill store matters. */
struct box_mount_roots_requester {
	const char *namespace; /* "": may have nothing of the store */
	bool by_digest;        /* content is verified by digest: anything in the namespace */
};

/* Why a folder must not be mounted, in addition to -EXDEV (outside the roots). */
#define BOX_MOUNT_ROOTS_DENIED_OWN (-EBUSY)          /* it is, is in, or contains Box's own */
#define BOX_MOUNT_ROOTS_DENIED_STORE (-EKEYREJECTED) /* it is, is in, or contains the skill store */
#define BOX_MOUNT_ROOTS_DENIED_SYSTEM (-EROFS)       /* the host's programs and libraries */

/* 0 when a box may write to the folder. BOX_MOUNT_ROOTS_DENIED_SYSTEM for the host's own programs, and
 * for folders that contain them, unless the operator has named a root inside. */
int box_mount_roots_check_writable(const struct box_mount_roots *roots, int folder);

/* Opens all paths; the texts must outlive `roots`; `more` may be NULL. A root inside another is merged
 * into it. -EINVAL with BOX_ERR_VALUE when something of Box's own is at, above or below a root other
 * than `/`: then nothing stays open. */
int box_mount_roots_seal(struct box_mount_roots *roots, const struct box_policy *policy,
	const struct box_mount_roots_own_paths *more, struct box_err *err);
void box_mount_roots_init(struct box_mount_roots *roots);
void box_mount_roots_close(struct box_mount_roots *roots);

/* Replaces the narrower roots and the client's store. */
void box_mount_roots_narrow(struct box_mount_roots *roots, const struct box_policy *policy);

/* Takes up paths that have appeared since. A process that has closed the fds can use neither this nor
 * the checks. */
void box_mount_roots_refresh(struct box_mount_roots *roots);

/* Opens the skill store, which is made if missing. -ESTALE when it is at another path, -EPERM in a
 * system folder, or -errno. */
int box_mount_roots_open_store(struct box_mount_roots *roots, const char *path, int *ret_fd);

/* Whether an opened folder is one of the roots, below which no link is followed; with `or_below`, or
 * below one. `/` does not count: if everything may be mounted, links are followed everywhere. */
bool box_mount_roots_contains(const struct box_mount_roots *roots, int fd, bool or_below);

/* Whether the missing part of a path, below `folder`, leads to a root that does not exist yet. */
bool box_mount_roots_creates_root(
	const struct box_mount_roots *roots, int folder, const char *missing);

/* 0 when the folder is at or below a root, and not at or below Box's own; -EXDEV,
 * BOX_MOUNT_ROOTS_DENIED_OWN, BOX_MOUNT_ROOTS_DENIED_STORE. */
int box_mount_roots_check(
	const struct box_mount_roots *roots, int fd, const struct box_mount_roots_requester *asker);
/* 0 when the folder does not contain Box's own either, and a file is not Box's own. */
int box_mount_roots_check_above(const struct box_mount_roots *roots, int fd);
