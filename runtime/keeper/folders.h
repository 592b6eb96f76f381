/* Folders of the host, opened or made for box-rpc, which must not touch the host itself.
 *
 * box-rpc is not trusted: the folders of the system are refused, whatever name, link or bind mount
 * leads to them, and so is what is outside the operator's roots.
 */
#pragma once

#include <stdbool.h>

struct box_policy;

enum box_folder_want {
	BOX_FOLDER_WANT_LOOK, /* -ENOENT when it is not there */
	BOX_FOLDER_WANT_MADE, /* made with its parents, mode 0755 less the umask */
};

/* An O_PATH fd of the folder. -EPERM for the folders of the system, what is under them and what
 * contains them; -EXDEV outside the operator's roots; -ENOTDIR when something else is there;
 * -EINVAL for a path that is not normal; or the -errno of the step that failed. */
int box_folder_open(
	const char *path, enum box_folder_want want, const struct box_policy *policy, int *ret_fd);

/* The same without the fd. */
int box_folder_make(const char *path, bool look_only, const struct box_policy *policy);
