/* The quota of a workspace that is a folder of the host.
 *
 * The folder is the root of an ext4 image: a sparse file in a folder beside it that nobody but boxd
 * can enter, on a loop device, mounted over the folder for the host and for boxd alike. What is
 * full is the image; neighbours and the host keep their room. The mount stays when boxes and boxd
 * end, because the folder is the host's too, and is made again by the next box after a reboot.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/limits.h"

#define BOX_QUOTA_STORE_NAME ".box-quota" /* beside the folder */
/* Whose the images are: the first id above those of boxes, which nobody has. A folder of root's is
 * the payload's own inside a box, so root's would not do. */
#define BOX_QUOTA_UID 0xf0000000U

/* What this host has for it. */
struct box_quota_support {
	bool possible;
	char missing[256]; /* why not */
	const char *mkfs;
	const char *resize;
	int host_ns; /* the mount namespace that boxd was started in; -1 where there is none */
	int own_ns;  /* and boxd's own */
};

/* Before and after boxd enters its own mount namespace. */
void box_quota_support_find(struct box_quota_support *support);
void box_quota_support_enter_namespace(struct box_quota_support *support);
void box_quota_support_close(struct box_quota_support *support);

/* --- pure: quota_size.c --- */

/* What an image is made with, so that there is room for `quota_bytes` of files in it. 0, or -ERANGE
 * when there is no such image. The size grows with the quota, so that one tells the other. */
struct box_quota_shape {
	uint64_t size_bytes;
	uint64_t inodes;
	uint32_t journal_mib;
};
int box_quota_shape(uint64_t quota_bytes, struct box_quota_shape *ret_shape);

enum box_quota_verdict {
	BOX_QUOTA_READY,      /* nothing is to be done */
	BOX_QUOTA_NEEDS_WORK, /* the image is to be made, grown or mounted */
	BOX_QUOTA_WAIVED,     /* nobody holds it, by the operator's word */
};

/* A folder as it is. */
struct box_quota_state {
	bool has_image;
	bool mounted; /* the folder is the root of its image */
	bool unswept; /* what was copied into it may still be in the folder under it */
	uint64_t image_bytes;
	uint64_t room_bytes; /* for files, when it is mounted */
};

/* 0 with the verdict, or why the box is refused. */
int box_quota_decide(const struct box_quota_support *support, const struct box_quota_state *state,
	uint64_t quota_bytes, bool degraded, enum box_quota_verdict *ret_verdict,
	struct box_err *err);

/* --- quota.c --- */

/* A folder, the one it is in, and its name there. */
struct box_quota_folder {
	int parent; /* O_PATH */
	char name[256];
};
int box_quota_find(int source, struct box_quota_folder *ret_folder, struct box_err *err);

/* The folder of images, if it is there and nobody's but ours: 0, -ENOENT, or err. */
int box_quota_open_store(int parent, int *ret_store, struct box_err *err);
/* The image of a folder, or -ENOENT. */
int box_quota_open_image(int store, const char *name, int *ret_image, struct box_err *err);
/* Says that what was copied may still be in the folder; is removed when it is not. */
void box_quota_unswept_marker_name(const char *name, char ret_file[300]);
/* Whether the mount that `fd` is in is of the file system of this image. */
bool box_quota_is_root_of(int fd, int image);
int box_quota_read_state(int source, struct box_quota_state *ret_state, struct box_err *err);

/* --- quota_probe.c --- */

/* 0 when an image is held to its size here, in bytes and in files; or why not. */
int box_quota_probe_host(const struct box_quota_support *support, struct box_err *err);
