/* What of the host boxes may mount: the operator's mount roots, and in them nothing of Box's own.
 *
 * Both are opened when the policy is sealed, before any client has spoken, and known by device and
 * inode from then on. What is not there yet is known by the deepest folder above it that is: it is
 * taken up when it appears, no link is followed to it, and until then nobody gets that folder.
 *
 * Box's own are rootfs, the images, the operator's socket, the configuration and the token: no mount
 * may be at, above or below them. Of the skill store, and of the folder where a client keeps skills
 * of its own in the same form (tenants/NAMESPACE/...), a box gets what is below its own namespace, and
 * nothing else at, above or below it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/limits.h"
#include "boxd/files/location.h"

struct box_policy;

/* A folder or file that is held by an fd. */
struct box_mount_roots_path {
	const char *path;          /* as it was configured, absolute */
	const char *rest;          /* what of it is not there yet; "": it is there */
	int fd;                    /* O_PATH: it, or the deepest folder above it that is there */
	struct box_location place; /* of the fd */
	char name[BOX_IMAGE_NAME_MAX + 16]; /* of Box's own: its member of the configuration */
};

/* Whether nothing of it is missing. */
bool box_mount_roots_path_is_complete(const struct box_mount_roots_path *held);
/* The folder itself, or the one that a file is in; -1: it is gone. */
int box_mount_roots_open_folder_of(const struct box_mount_roots_path *held);

struct box_mount_roots_paths {
	size_t count;
	struct box_mount_roots_path items[BOX_MOUNT_ROOTS_MAX];
};

/* A set that grows. */
struct box_mount_roots_locations {
	size_t count;
	struct box_location *items;
};

enum box_mount_roots_store {
	BOX_MOUNT_ROOTS_STORE_OWN,    /* of box-skills */
	BOX_MOUNT_ROOTS_STORE_CLIENT, /* of a client */
	BOX_MOUNT_ROOTS_STORES_
};

/* What is boxd's own beside the policy, each NULL or absolute. The socket is guarded like a tree: as a
 * plain user's, a box that reached it would be the operator; one that wrote the files, or read the
 * token, would be soon. */
struct box_mount_roots_own_paths {
	const char *socket;
	const char *config;
	const char *token;
};

struct box_mount_roots {
	struct box_mount_roots_paths roots;
	struct box_mount_roots_paths narrower; /* none: nothing is narrowed */
	size_t own_count;
	struct box_mount_roots_path own[4 + BOX_IMAGES_MAX];
	struct box_mount_roots_path
		stores[BOX_MOUNT_ROOTS_STORES_];    /* without a path: there is none */
	struct box_mount_roots_locations above_own; /* folders that have one of them in them */
	struct box_mount_roots_locations above_stores[BOX_MOUNT_ROOTS_STORES_];
};

/* What somebody asks to have mounted, as far as the skill store matters. */
struct box_mount_roots_requester {
	const char *namespace; /* "": nothing of the store */
	bool by_digest;        /* its content is compared: it may be anything of the namespace */
};

/* What keeps a folder from being mounted, beside -EXDEV (outside the roots). */
#define BOX_MOUNT_ROOTS_DENIED_OWN (-EBUSY) /* Box's own tree, or it has one in it */
#define BOX_MOUNT_ROOTS_DENIED_STORE \
	(-EKEYREJECTED)                        /* of the skill store, or it has the store in it */
#define BOX_MOUNT_ROOTS_DENIED_SYSTEM (-EROFS) /* the host's programs and libraries */

/* 0 when a box may write the folder: BOX_MOUNT_ROOTS_DENIED_SYSTEM for what the host itself runs, and for what has
 * it in it, unless the operator has named a root inside. */
int box_mount_roots_check_writable(const struct box_mount_roots *roots, int folder);

/* Opens them all; the texts must outlive it; `more` may be NULL. A root in another is folded into it.
 * -EINVAL with BOX_ERR_VALUE when something of Box's own is at, above or below a root other than `/`:
 * then nothing is held. */
int box_mount_roots_seal(struct box_mount_roots *roots, const struct box_policy *policy,
	const struct box_mount_roots_own_paths *more, struct box_err *err);
void box_mount_roots_init(struct box_mount_roots *roots);
void box_mount_roots_close(struct box_mount_roots *roots);

/* Takes the narrower roots and the client's store anew. */
void box_mount_roots_narrow(struct box_mount_roots *roots, const struct box_policy *policy);

/* Takes up what has appeared since. This, and what judges by the roots, is not for a process that has
 * closed the fds. */
void box_mount_roots_refresh(struct box_mount_roots *roots);

/* The skill store, made where it is missing. -ESTALE when it is at another path, -EPERM at a place
 * of the system, or -errno. */
int box_mount_roots_open_store(struct box_mount_roots *roots, const char *path, int *ret_fd);

/* Whether an opened folder is one of the roots, of which no link is followed below; with `or_below`,
 * or below one. `/` is none of them: where everything may be mounted, links lead where they lead. */
bool box_mount_roots_contains(const struct box_mount_roots *roots, int fd, bool or_below);

/* Whether what is missing of a path, from a folder on, leads to a root that is missing yet. */
bool box_mount_roots_creates_root(
	const struct box_mount_roots *roots, int folder, const char *missing);

/* 0 when the folder is at or below a root, and not at or below what is Box's own: -EXDEV,
 * BOX_MOUNT_ROOTS_DENIED_OWN, BOX_MOUNT_ROOTS_DENIED_STORE. */
int box_mount_roots_check(
	const struct box_mount_roots *roots, int fd, const struct box_mount_roots_requester *asker);
/* 0 when it has none of Box's own in it either, and, for a file, is none. */
int box_mount_roots_check_above(const struct box_mount_roots *roots, int fd);
