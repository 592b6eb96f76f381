/* The lines of /proc/PID/net/netlink: "sk Eth Pid Groups Rmem Wmem Dump Locks Drops Inode". */
#include "runtime/keeper/netlink_held.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/limits.h"

#define SOCKET_BYTES 2048 /* of one that is empty */
#define RMEM_FIELD 4      /* from 0 */

static uint64_t rmem_of(const char *line, const char *end)
{
	const char *at = line;
	for (int field = 0; at < end; field++) {
		at += strspn(at, " ");
		if (field == RMEM_FIELD) {
			return strtoull(at, NULL, 10);
		}
		at += strcspn(at, " \n");
	}
	return 0;
}

size_t box_netlink_held_add(struct box_netlink_held *held, const char *text, size_t len)
{
	const char *at = text;
	const char *end = NULL;
	while ((end = memchr(at, '\n', len - (size_t)(at - text))) != NULL) {
		/* Its head has no number. */
		if (strncmp(at, "sk ", 3) != 0) {
			held->sockets++;
			held->bytes += SOCKET_BYTES + rmem_of(at, end);
		}
		at = end + 1;
	}
	return (size_t)(at - text);
}

bool box_netlink_held_is_over(const struct box_netlink_held *held, uint64_t memory_bytes)
{
	return held->sockets > BOX_NETLINK_SOCKETS_MAX || held->bytes > memory_bytes;
}

int box_netlink_held_look(pid_t pid, uint64_t memory_bytes, struct box_netlink_held *ret_held)
{
	char path[64];
	char text[16384];
	size_t kept = 0;
	struct box_netlink_held held = {0};
	(void)snprintf(path, sizeof(path), "/proc/%d/net/netlink", (int)pid);
	_cleanup_(box_close_p) int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		return -errno;
	}
	while (!box_netlink_held_is_over(&held, memory_bytes)) {
		ssize_t got = read(fd, text + kept, sizeof(text) - 1 - kept);
		if (got < 0) {
			return -errno;
		}
		if (got == 0) {
			break;
		}
		size_t len = kept + (size_t)got;
		text[len] = '\0';
		size_t used = box_netlink_held_add(&held, text, len);
		kept = len - used;
		memmove(text, text + used, kept);
		if (kept == sizeof(text) - 1) {
			return -EPROTO;
		}
	}
	*ret_held = held;
	return 0;
}
