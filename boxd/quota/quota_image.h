/* One image: its file, the loop device it is on, and its file system as a detached mount. Called by
 * quota_task.c, and by `box doctor` for box_quota_image_probe. */
#pragma once

#include "boxd/quota/quota.h"

/* Fds are -1 where there is none. */
struct box_quota_image {
	int file;
	int loop;
	int mount;   /* detached, or where it was attached */
	bool in_use; /* it was on a loop device already */
};

#define BOX_QUOTA_IMAGE_NONE ((struct box_quota_image){.file = -1, .loop = -1, .mount = -1})

void box_quota_image_close(struct box_quota_image *image);

/* Makes a new, empty image called `file` in the store, by running mke2fs. An existing file of that name
 * is removed. */
int box_quota_image_make(int store, const char *file, const char *mkfs,
	const struct box_quota_shape *shape, int *ret_file, struct box_err *err);

/* Makes an empty file system in a file that has its size. */
int box_quota_image_format(
	int file, const char *mkfs, const struct box_quota_shape *shape, struct box_err *err);

/* Attaches the file to a loop device, or finds the device that it is attached to already: two devices
 * would each write without regard to the other. Then mounts it, nosuid and nodev. The device is freed
 * with its last user. */
int box_quota_image_mount(struct box_quota_image *image, struct box_err *err);

/* Makes sure that `quota_bytes` of files fit into a mounted image: grows it while it is mounted, or, if
 * the kernel does not allow that, while nobody else has it mounted. Never shrinks it. */
int box_quota_image_fit(struct box_quota_image *image, const char *resize, uint64_t quota_bytes,
	struct box_err *err);

/* Whether this host enforces the size of an image, in bytes and in files: fills a small image in memory
 * that nobody else sees. 0, or why not. */
int box_quota_image_probe(const struct box_quota_support *support, struct box_err *err);
