/* The /etc of boxes: a handful of files of our own and copies of what programs need to find their
 * libraries, certificates and alternatives. Never a password, a key, or what only some may read. */
#pragma once

#include <stdbool.h>

/* Makes it as a tmpfs at `name` in `parent` from the etc of `root`: of the host's own only what is
 * on a list, of a root made for boxes (`whole`) everything. With a `parent` of -1 it stays detached.
 * Read-only when done. 0 or -errno. */
int box_etc_make(int root, bool whole, int parent, const char *name, int *ret_fd);
