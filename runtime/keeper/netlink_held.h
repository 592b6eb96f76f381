/* What the netlink sockets of a box hold of the kernel's memory. No cgroup is charged for it, so
 * boxd looks, and ends a box that holds more than it may have. Only boxes with a network can have
 * such sockets: for others the filter refuses them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct box_netlink_held {
	uint64_t bytes;   /* that wait to be read, and the sockets themselves */
	uint32_t sockets; /* with an address: others get nothing, and are not listed */
};

/* Adds up the whole lines of a text of /proc/PID/net/netlink, without its head. Gives how many bytes
 * of the text were used. Pure. */
size_t box_netlink_held_add(struct box_netlink_held *held, const char *text, size_t len);
/* Whether a box that may have so much memory holds too much. Pure. */
bool box_netlink_held_is_over(const struct box_netlink_held *held, uint64_t memory_bytes);
/* Looks at the network namespace of a process, no further than it takes to say that it is too much.
 * 0 or -errno. */
int box_netlink_held_look(pid_t pid, uint64_t memory_bytes, struct box_netlink_held *ret_held);
