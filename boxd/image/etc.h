/* The /etc of boxes: a handful of files of our own and copies of what programs need to find their
 * libraries, certificates and alternatives. Never a password, a key, or what only some may read. */
#pragma once

#include <stdbool.h>

/* Whose /etc it is made of decides what is taken. */
enum box_etc_kind {
	BOX_ETC_HOST,     /* what is on a list */
	BOX_ETC_OPERATOR, /* everything */
	BOX_ETC_CALLER,   /* everything, if it is not too much: -ENOSPC */
};

/* In two parts, for a root of a caller: an empty file system, detached; and the copy into it, which reads
 * files of the root and may take its time. To be frozen after. 0 or -errno. */
int box_etc_open(enum box_etc_kind whose, int *ret_fd);
int box_etc_fill(int root, enum box_etc_kind whose, int etc);

/* Makes it as a tmpfs at `name` in `parent` from the etc of `root`: of the host's own only what is
 * on a list, of a root made for boxes everything. Read-only when done. 0 or -errno. */
int box_etc_make(int root, enum box_etc_kind whose, int parent, const char *name, int *ret_fd);
