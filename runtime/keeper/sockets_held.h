/* What the sockets of a box hold of the kernel's memory that no cgroup is charged for, so that boxd
 * looks, and ends a box that holds more than it may have:
 *
 * - netlink sockets. Only boxes with a network have such: for others the filter refuses them.
 * - error queues of UDP sockets: what ICMP answers (IP_RECVERR) and packets whose time of sending was
 *   asked for with sendmsg wait there, charged to nobody, within SO_RCVBUF for each socket.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct box_sockets_held {
	uint64_t netlink_bytes;   /* that wait to be read, and the sockets themselves */
	uint32_t netlink_sockets; /* with an address: others get nothing, and are not listed */
	uint64_t udp_bytes;       /* that wait to be read, ordinary packets too */
};

/* Add up the whole lines of a text of /proc/PID/net/netlink, or of udp or udp6, without its head.
 * They give how many bytes of the text were used. Pure. */
size_t box_sockets_held_add_netlink(struct box_sockets_held *held, const char *text, size_t len);
size_t box_sockets_held_add_udp(struct box_sockets_held *held, const char *text, size_t len);
/* Whether a box that may have so much memory holds too much. Pure. */
bool box_sockets_held_is_over(const struct box_sockets_held *held, uint64_t memory_bytes);
/* Looks at the network namespace of a process, no further than it takes to say that it is too much.
 * 0 or -errno. */
int box_sockets_held_look(
	pid_t pid, bool netlink, uint64_t memory_bytes, struct box_sockets_held *ret_held);
