/* The quota of a workspace that is a folder of the host.
 *
 * The folder is the root of an ext4 image: a sparse file in a folder beside it that only boxd can enter,
 * on a loop device, mounted over the folder for the host and for boxd alike. What gets full is the image;
 * neighbours and the host keep their space. The mount stays when boxes and boxd end, because the folder is
 * the host's too; after a reboot the next box mounts it again.
 *
 * Finds out what the host supports and what a folder has, and decides what must be done for a folder;
 * quota_task.c does it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/limits.h"

#define BOX_QUOTA_STORE_NAME ".box-quota" /* the folder of images, beside the folder */
/* The owner of images: the first id above those of boxes, which no account has. root's id would not do: a
 * folder of root's belongs to the payload inside a box. */
#define BOX_QUOTA_UID 0xf0000000U

/* Whether this host can enforce quotas. */
struct box_quota_support {
	bool possible;
	char missing[256]; /* why not */
	const char *mkfs;
	const char *resize;
	int host_ns; /* the mount namespace that boxd was started in; or -1 */
	int own_ns;  /* and boxd's own */
};

/* Call the first before, the second after boxd enters its own mount namespace. */
void box_quota_support_find(struct box_quota_support *support);
void box_quota_support_enter_namespace(struct box_quota_support *support);
void box_quota_support_close(struct box_quota_support *support);

/* The parameters of an image in which `quota_bytes` of files fit. 0, or -ERANGE when no such image is
 * possible. A larger quota always gives a larger image. Pure. */
struct box_quota_shape {
	uint64_t size_bytes;
	uint64_t inodes;
	uint32_t journal_mib;
};
int box_quota_shape(uint64_t quota_bytes, struct box_quota_shape *ret_shape);

/* The present state of a folder. */
struct box_quota_state {
	bool has_image;
	bool mounted; /* the folder is the root of its image */
	bool unswept; /* what was copied into the image may still be in the folder under it */
	uint64_t image_bytes;
	uint64_t capacity_bytes; /* for files, when it is mounted */
};
int box_quota_read_state(int source, struct box_quota_state *ret_state, struct box_err *err);

enum box_quota_verdict {
	BOX_QUOTA_READY,      /* nothing is to be done */
	BOX_QUOTA_NEEDS_WORK, /* the image is to be made, grown or mounted */
	BOX_QUOTA_WAIVED,     /* not enforced: the operator allows that (local.degraded) */
};
/* 0 with the verdict, or why the request is refused. Pure. */
int box_quota_decide(const struct box_quota_support *support, const struct box_quota_state *state,
	uint64_t quota_bytes, bool degraded, enum box_quota_verdict *ret_verdict,
	struct box_err *err);

/* The folder that contains a folder, and its name there. */
struct box_quota_folder {
	int parent; /* O_PATH */
	char name[256];
};
int box_quota_find(int source, struct box_quota_folder *ret_folder, struct box_err *err);

/* Opens the folder of images, if it exists and only boxd can have made it: 0, -ENOENT, or err. */
int box_quota_open_store(int parent, int *ret_store, struct box_err *err);
/* Opens the image of a folder, or -ENOENT. */
int box_quota_open_image(int store, const char *name, int *ret_image, struct box_err *err);
/* The name of the marker file in the store: while it exists, the folder may still have files that were
 * copied. */
void box_quota_unswept_marker_name(const char *name, char ret_file[300]);
/* Whether `fd` is the root of the file system in this image. */
bool box_quota_is_root_of(int fd, int image);
