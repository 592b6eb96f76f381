/* Files and folders below an opened folder. Every way goes by openat2 beneath that folder and
 * through no link, so nothing that changes meanwhile can lead out of it: what has become a link
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

/* Opens a path below base ("" is the folder itself) through no link at all; CLOEXEC and NOFOLLOW are
 * added. fd or -errno. */
int box_subtree_open(int base_fd, const char *path, int flags, mode_t mode);
/* The same for a path whose links may lead on, as long as they stay below base. */
int box_subtree_open_linked(int base_fd, const char *path, int flags);

/* Where a path leads when links are followed as realpath() does, as a path without links below base:
 * absolute targets count when they begin with base_path, and parts that do not exist stay as they are.
 * -EXDEV when it leads out, -ELOOP, -ENAMETOOLONG. Only text comes back: it is opened with
 * box_subtree_open, which fails if the tree has changed since. */
int box_subtree_resolve(
	int base_fd, const char *base_path, const char *path, char ret_path[BOX_PATH_MAX]);

/* Makes the folders of a path that are missing and opens the last (O_PATH). On failure *ret_good is
 * how much of the path is a folder. */
int box_subtree_make_folders(int base_fd, const char *path, size_t *ret_good);

/* Appends a regular file's content. -EFBIG when it is longer than the buffer may be. */
int box_subtree_read(int fd, struct box_buf *out);

/* fsync of a folder that may be open as O_PATH. */
int box_subtree_sync(int dir_fd);

/* The entries of a folder, not sorted, without "." and ".."; each name by `each`, which says 0 to go
 * on. d_type is DT_DIR, DT_REG...: DT_UNKNOWN has been looked up. */
int box_subtree_each(
	int dir_fd, int (*each)(void *context, const char *name, int d_type), void *context);
