/* Folders of the host, opened or made for box-rpc, which must not touch the host itself.
 *
 * box-rpc is not trusted: the folders of the system are refused, whatever name or link leads to
 * them, and so is what is outside the mount roots or Box's own. A bind mount of such a folder is refused like
 * the folder; of a bind mount of something below one only the kind of file system can tell.
 *
 * No link below a mount root is followed: whoever has a box there can make any. Where `/` is the root
 * links lead wherever they lead.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "boxd/files/mount_roots.h"

struct box_host_folder_request {
	const char *path;
	bool make;     /* with its parents, mode 0755 less the umask; else -ENOENT */
	bool to_mount; /* it must have none of Box's own in it either */
	struct box_mount_roots_requester asker;
};

/* An O_PATH fd of the folder. -EPERM for the folders of the system, what is under them and what
 * contains them; -EXDEV outside the roots; BOX_MOUNT_ROOTS_DENIED_OWN and BOX_MOUNT_ROOTS_DENIED_STORE; -ELOOP for a link below
 * a root; -ENOTDIR when something else is there; -EINVAL for a path that is not normal; or the -errno
 * of the step that failed. On failure *ret_link is 0, or how much of the path names the link that is
 * not followed. The roots must have been refreshed. */
int box_host_folder_open(const struct box_host_folder_request *ask, struct box_mount_roots *roots,
	size_t *ret_link, int *ret_fd);

/* The same without the fd, not to be mounted; refreshes the roots. */
int box_host_folder_make(const char *path, bool look_only, struct box_mount_roots *roots);
