/* User namespaces that are nothing but a map of ids, for mounts. */
#pragma once

#include <stdint.h>

/* An fd of a user namespace in which one uid and one gid stand for others: files of `uid` and `gid`
 * seen through a mount with it belong to `as_uid` and `as_gid`. 0 or -errno. */
int box_userns_map(uint32_t uid, uint32_t as_uid, uint32_t gid, uint32_t as_gid, int *ret_fd);

/* Writes "inside outside count" to /proc/PID/NAME. */
int box_userns_write_map(
	int pid, const char *name, uint32_t inside, uint32_t outside, uint32_t count);
/* Writes "deny" to /proc/PID/setgroups. */
int box_userns_deny_groups(int pid);
