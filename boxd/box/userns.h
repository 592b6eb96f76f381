/* User namespaces: id maps for mounts, and the maps and the owner of a box's user namespace. Called by
 * make.c and by boxd/files. */
#pragma once

#include <stdint.h>

/* An fd of a user namespace that maps one uid and one gid: on a mount with this map, files of `uid` and
 * `gid` appear as owned by `as_uid` and `as_gid`. 0 or -errno. */
int box_userns_map(uint32_t uid, uint32_t as_uid, uint32_t gid, uint32_t as_gid, int *ret_fd);

/* Between begin and end, user namespaces that we make are owned by `owner`; as root only. The kernel
 * counts inotify instances and watches, pending signals, locked memory and namespaces for the owner of
 * a user namespace too, all the way up: if root owned them all, one box could use up what the host's
 * root may have. An owner has all capabilities in the namespace when acting from its parent, so it must
 * be an id that no process outside of the box has: the first id of the box. */
int box_userns_owner_begin(uint32_t owner);
void box_userns_owner_end(void);

/* Writes "inside outside count" to /proc/PID/NAME. */
int box_userns_write_map(
	int pid, const char *name, uint32_t inside, uint32_t outside, uint32_t count);
/* Writes "deny" to /proc/PID/setgroups. */
int box_userns_deny_groups(int pid);
