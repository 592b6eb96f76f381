/* What the operator has named as a root: a folder, or a file with a file system in it.
 *
 * The kernel reads such a file as it would read a disk, and trusts it as much: only files that the
 * operator's own configuration names come here, never one that a client names.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* The kinds that are known by their first bytes, or NULL: "ext4", "squashfs", "erofs". Pure. */
#define BOX_IMAGE_FILE_HEAD_BYTES 2048
const char *box_image_file_kind(const unsigned char *head, size_t size);

struct box_image_file_request {
	const char *what; /* names it in errors */
	const char *path;
	bool follow; /* it may be a link */
	int anchor;  /* a folder of ours: a file's mount hangs on a new one in it */
};

/* Its top as an O_PATH fd; there is a shell in it. 0, or negative with err. */
int box_image_file_open(
	const struct box_image_file_request *ask, int *ret_folder, struct box_err *err);
