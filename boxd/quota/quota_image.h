/* One image: its file, the loop device it is on, and its file system as a detached mount. */
#pragma once

#include "boxd/quota/quota.h"

/* Fds are -1 where there is none. */
struct box_quota_image {
	int file;
	int loop;
	int mount;   /* detached, or wherever it was attached */
	bool in_use; /* it was on a loop device before */
};

#define BOX_QUOTA_IMAGE_NONE ((struct box_quota_image){.file = -1, .loop = -1, .mount = -1})

void box_quota_image_close(struct box_quota_image *image);

/* A new one under `file` in the store, empty: mke2fs is run and waited for. What is there by that
 * name is removed. */
int box_quota_image_make(int store, const char *file, const char *mkfs,
	const struct box_quota_shape *shape, int *ret_file, struct box_err *err);

/* Makes an empty one of a file that has its size. */
int box_quota_image_format(
	int file, const char *mkfs, const struct box_quota_shape *shape, struct box_err *err);

/* Puts the file on a loop device, or finds the one that it is on already: two would each write as
 * if alone. Then mounts it, nosuid and nodev. The device goes with its last user. */
int box_quota_image_mount(struct box_quota_image *image, struct box_err *err);

/* Room for `quota_bytes` of files in a mounted one: it grows where it is, or, where the kernel does
 * not let us, when nobody else has it mounted. It does not shrink. */
int box_quota_image_fit(struct box_quota_image *image, const char *resize, uint64_t quota_bytes,
	struct box_err *err);
