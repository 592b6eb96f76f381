/* Folders of the host, opened or made for box-rpc, which must not touch the host itself.
 *
 * box-rpc is not trusted: the folders of the system are refused, whatever name or link leads to
 * them, and so is what is outside the policy's roots. A bind mount of such a folder is refused like
 * the folder; of a bind mount of something below one only the kind of file system can tell.
 *
 * Where the policy has roots, no link below them is followed: whoever has a box there can make any.
 * Without roots links lead wherever they lead.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct box_policy;

enum box_folder_want {
	BOX_FOLDER_WANT_LOOK, /* -ENOENT when it is not there */
	BOX_FOLDER_WANT_MADE, /* made with its parents, mode 0755 less the umask */
};

/* An O_PATH fd of the folder. -EPERM for the folders of the system, what is under them and what
 * contains them; -EXDEV outside the policy's roots; -ELOOP for a link below them; -ENOTDIR when
 * something else is there; -EINVAL for a path that is not normal; or the -errno of the step that
 * failed. On failure *ret_link is 0, or how much of the path names the link that is not followed. */
int box_folder_open(const char *path, enum box_folder_want want, const struct box_policy *policy,
	size_t *ret_link, int *ret_fd);

/* The same without the fd. */
int box_folder_make(const char *path, bool look_only, const struct box_policy *policy);
