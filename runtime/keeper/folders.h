/* MAKE_FOLDER: makes a folder on the host for box-rpc, which must not touch the host itself.
 *
 * box-rpc is not trusted: the folders of the system are refused, whatever name, link or bind mount
 * leads to them.
 */
#pragma once

#include <stdbool.h>

/* 0 when the folder is there now; -EPERM for the folders of the system, what is under them and what
 * contains them; -ENOTDIR when something else is there; -EINVAL for a path that is not normal; or
 * the -errno of the step that failed. Folders that it makes have mode 0755 less the umask. With
 * `look_only` nothing is made: -ENOENT when it is not there. */
int box_folder_make(const char *path, bool look_only);
