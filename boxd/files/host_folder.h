/* Opens and makes folders of the host for box-rpc, which must not touch the host itself.
 *
 * box-rpc is not trusted: system folders are refused by whatever name or link they are reached, and so
 * is everything outside the mount roots or of Box's own. A bind mount of such a folder is refused like
 * the folder; for a bind mount of something below it only the type of file system is checked.
 *
 * No symbolic link below a mount root is followed, since boxes can make links there. If `/` is the
 * root, links are followed everywhere.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "boxd/files/mount_roots.h"

struct box_host_folder_request {
	const char *path;
	bool make;     /* make it and its parents, mode 0755 less the umask; else -ENOENT */
	bool to_mount; /* it must not contain anything of Box's own either */
	struct box_mount_roots_requester asker;
};

/* An O_PATH fd of the folder. -EPERM for system folders, everything below them and what contains them;
 * -EXDEV outside the roots; BOX_MOUNT_ROOTS_DENIED_OWN and BOX_MOUNT_ROOTS_DENIED_STORE; -ELOOP for a
 * link below a root; -ENOTDIR when it is not a folder; -EINVAL for a path that is not normalized; or
 * the -errno of the step that failed. On failure *ret_link is 0, or the length of the path up to the
 * link that was not followed. The roots must have been refreshed. */
int box_host_folder_open(const struct box_host_folder_request *ask, struct box_mount_roots *roots,
	size_t *ret_link, int *ret_fd);

/* The same without the fd, for a folder that is not to be mounted; refreshes the roots. */
int box_host_folder_make(const char *path, bool look_only, struct box_mount_roots *roots);
