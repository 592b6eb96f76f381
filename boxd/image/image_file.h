/* A root that the operator has named: a folder, or a file with a file system in it. Called by images.c
 * and common_mounts.c.
 *
 * The kernel parses such a file as it would a disk, and trusts it as much: only files named in the
 * operator's configuration get here, never one that a client names.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* The type of file system by its magic number: "ext4", "squashfs", "erofs"; or NULL. Pure. */
#define BOX_IMAGE_FILE_HEAD_BYTES 2048
const char *box_image_file_kind(const unsigned char *head, size_t size);

struct box_image_file_request {
	const char *what; /* what it is, for errors */
	const char *path;
	bool follow; /* it may be a symbolic link */
	int anchor;  /* a file's mount is attached to a new folder in this one */
};

/* An O_PATH fd of its root directory, which has a shell. 0, or negative with err. */
int box_image_file_open(
	const struct box_image_file_request *ask, int *ret_folder, struct box_err *err);
