/* The /etc of boxes: a few files of our own, and copies of what programs need to find their libraries,
 * certificates and alternatives. Never a password, a key, or a file that only some users may read. */
#pragma once

#include <stdbool.h>

/* Whose /etc is copied decides what is copied. */
enum box_etc_kind {
	BOX_ETC_HOST,     /* the entries on a list */
	BOX_ETC_OPERATOR, /* everything */
	BOX_ETC_CALLER,   /* everything, within limits: else -ENOSPC */
};

/* For a caller's root, in two parts: an empty file system, detached; and the copy into it, which reads
 * files of the root and may take long. The caller makes it read-only after that. 0 or -errno. */
int box_etc_open(enum box_etc_kind whose, int *ret_fd);
int box_etc_fill(int root, enum box_etc_kind whose, int etc);

/* Makes it as a tmpfs at `name` in `parent` from the etc of `root`: of the host's own only the entries
 * on a list, of a root made for boxes everything. Read-only at the end. 0 or -errno. */
int box_etc_make(int root, enum box_etc_kind whose, int parent, const char *name, int *ret_fd);
