/* Files and folders below an opened folder. Every access uses openat2 beneath that folder and follows no
 * link, so concurrent changes cannot lead out of it: if a component has become a link, the access
 * fails.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/limits.h"
#include "base/value.h"

struct box_arena;
struct box_buf;

/* Opens a path below base ("" is the folder itself) through no link at all; adds O_CLOEXEC and O_NOFOLLOW.
 * fd or -errno. */
int box_subtree_open(int base_fd, const char *path, int flags, mode_t mode);
/* The same for a path with links, as long as they stay below base. */
int box_subtree_open_linked(int base_fd, const char *path, int flags);

/* Where a path leads, following links as realpath() does, as a path without links below base: absolute
 * targets are accepted if they begin with base_path, and components that do not exist stay as they are.
 * -EXDEV if it leads outside, -ELOOP, -ENAMETOOLONG. The result is only text: open it with box_subtree_open,
 * which fails if the tree has changed since. */
int box_subtree_resolve(
	int base_fd, const char *base_path, const char *path, char ret_path[BOX_PATH_MAX]);

/* Creates the missing folders of a path and opens the last one (O_PATH). On failure *ret_good is the length
 * of the part of the path that is a folder. */
int box_subtree_make_folders(int base_fd, const char *path, size_t *ret_good);

/* Appends a regular file's content. -EFBIG if it exceeds the buffer's limit. */
int box_subtree_read(int fd, struct box_buf *out);

/* fsync of a folder that may be open as O_PATH. */
int box_subtree_sync(int dir_fd);

/* Calls `each` for the entries of a folder, unsorted, without "." and "..", as long as it returns 0. d_type is
 * DT_DIR, DT_REG...: DT_UNKNOWN has been resolved. */
int box_subtree_each(
	int dir_fd, int (*each)(void *context, const char *name, int d_type), void *context);
