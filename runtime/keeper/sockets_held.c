/* The lines of /proc/PID/net/netlink: "sk Eth Pid Groups Rmem Wmem Dump Locks Drops Inode", and of
 * udp and udp6: "sl: local_address rem_address st tx_queue:rx_queue ...", in hexadecimal. */
#include "runtime/keeper/sockets_held.h"

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
#define QUEUES_FIELD 4

typedef size_t (*add_fn)(struct box_sockets_held *held, const char *text, size_t len);

/* Where the field begins, or `end`. */
static const char *find_field(const char *line, const char *end, int wanted)
{
	const char *at = line;
	for (int field = 0; at < end; field++) {
		at += strspn(at, " ");
		if (field == wanted) {
			break;
		}
		at += strcspn(at, " \n");
	}
	return at < end ? at : end;
}

size_t box_sockets_held_add_netlink(struct box_sockets_held *held, const char *text, size_t len)
{
	const char *at = text;
	const char *end = NULL;
	while ((end = memchr(at, '\n', len - (size_t)(at - text))) != NULL) {
		/* Its head has no number. */
		if (strncmp(at, "sk ", 3) != 0) {
			const char *rmem = find_field(at, end, RMEM_FIELD);
			held->netlink_sockets++;
			held->netlink_bytes += SOCKET_BYTES + strtoull(rmem, NULL, 10);
		}
		at = end + 1;
	}
	return (size_t)(at - text);
}

size_t box_sockets_held_add_udp(struct box_sockets_held *held, const char *text, size_t len)
{
	const char *at = text;
	const char *end = NULL;
	while ((end = memchr(at, '\n', len - (size_t)(at - text))) != NULL) {
		/* The head has no colon in it. */
		const char *queues = find_field(at, end, QUEUES_FIELD);
		const char *received = memchr(queues, ':', (size_t)(end - queues));
		if (received && memchr(at, ':', (size_t)(queues - at))) {
			held->udp_bytes += strtoull(received + 1, NULL, 16);
		}
		at = end + 1;
	}
	return (size_t)(at - text);
}

bool box_sockets_held_is_over(const struct box_sockets_held *held, uint64_t memory_bytes)
{
	/* Ordinary packets of UDP are charged, and reach the limit at most. */
	return held->netlink_sockets > BOX_NETLINK_SOCKETS_MAX ||
		held->netlink_bytes > memory_bytes ||
		held->udp_bytes > memory_bytes + memory_bytes / 4;
}

static int read_all(pid_t pid, const char *name, add_fn add, uint64_t memory_bytes,
	struct box_sockets_held *held)
{
	char path[64];
	char text[16384];
	size_t kept = 0;
	(void)snprintf(path, sizeof(path), "/proc/%d/net/%s", (int)pid, name);
	_cleanup_(box_close_p) int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		return -errno;
	}
	while (!box_sockets_held_is_over(held, memory_bytes)) {
		ssize_t got = read(fd, text + kept, sizeof(text) - 1 - kept);
		if (got < 0) {
			return -errno;
		}
		if (got == 0) {
			break;
		}
		size_t len = kept + (size_t)got;
		text[len] = '\0';
		size_t used = add(held, text, len);
		kept = len - used;
		memmove(text, text + used, kept);
		if (kept == sizeof(text) - 1) {
			return -EPROTO;
		}
	}
	return 0;
}

int box_sockets_held_look(
	pid_t pid, bool netlink, uint64_t memory_bytes, struct box_sockets_held *ret_held)
{
	struct box_sockets_held held = {0};
	int r = read_all(pid, "udp", box_sockets_held_add_udp, memory_bytes, &held);
	if (r == 0) {
		r = read_all(pid, "udp6", box_sockets_held_add_udp, memory_bytes, &held);
	}
	if (r == -ENOENT) {
		r = 0; /* a kernel without IPv6 */
	}
	if (r == 0 && netlink) {
		r = read_all(pid, "netlink", box_sockets_held_add_netlink, memory_bytes, &held);
	}
	if (r == 0) {
		*ret_held = held;
	}
	return r;
}
