/* Kernel memory that the sockets of a box use and no cgroup is charged for. boxd reads it from time to
 * time (socket_checks.h) and ends a box that uses more than its memory limit:
 *
 * - netlink sockets. Only boxes with a network can have them: for others the filter refuses them.
 * - error queues of UDP and TCP sockets: ICMP errors (IP_RECVERR) and packets sent with a request for a
 *   send timestamp wait there, charged to nobody, up to SO_RCVBUF per socket. They stay when the socket
 *   gives up its port or its connection has died. The kernel lists no such sockets, so their number is
 *   computed, and each is assumed to be full.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct box_socket_memory {
	uint64_t netlink_bytes;   /* queued bytes, and the sockets themselves */
	uint32_t netlink_sockets; /* with an address: others receive nothing, and are not listed */
	uint64_t queued_bytes;    /* queued in UDP and TCP sockets, ordinary packets included */
	uint64_t unlisted_bytes;  /* that can be queued in sockets that no list shows */
};

/* How many sockets a namespace has. */
struct box_socket_memory_count {
	uint64_t all;
	uint64_t listed; /* of all kinds */
	uint64_t tcp;    /* of those in a list, as the next two */
	uint64_t udp;
	uint64_t netlink;
};

/* These add up the whole lines of a text of /proc/PID/net/netlink, or of udp or udp6, and return how many
 * bytes of the text they have used. Pure. */
size_t box_socket_memory_add_netlink(struct box_socket_memory *held, const char *text, size_t len);
size_t box_socket_memory_add_udp(struct box_socket_memory *held, const char *text, size_t len);
/* The same for /proc/PID/net/sockstat and protocols. */
size_t box_socket_memory_count_all(
	struct box_socket_memory_count *count, const char *text, size_t len);
size_t box_socket_memory_count_listed(
	struct box_socket_memory_count *count, const char *text, size_t len);
/* An estimate of what is queued in `sockets` sockets if the `listed` ones that were read hold `bytes`.
 * Pure. */
uint64_t box_socket_memory_estimate(uint64_t bytes, uint64_t listed, uint64_t sockets);
/* The maximum that can be queued in one socket, from the texts of net.core.rmem_default and of
 * net.ipv4.tcp_rmem ("MIN DEFAULT MAX") of its namespace. Pure. */
uint64_t box_socket_memory_buffer_bytes(const char *core, const char *tcp);

/* Values that can only be read inside the network namespace of a box. */
struct box_socket_memory_inside {
	int diag; /* a socket for base/sock_diag.h that lists its sockets; the caller's */
	uint64_t buffer_bytes; /* the maximum that can be queued in one of them */
};
/* Read by a child that shares our memory and our fds and enters the namespace in our place: boxd itself
 * would have to come back, which it cannot always do as a plain user. The child never blocks. 0 or
 * -errno. */
int box_socket_memory_open_inside(int netns, struct box_socket_memory_inside *ret_inside);

/* Whether a box with this memory limit holds too much. Pure. */
bool box_socket_memory_is_over(const struct box_socket_memory *held, uint64_t memory_bytes);
/* Whether it may hold too much, counting sockets that no list shows. A closed socket is counted for a
 * moment longer, so a box with too many of them in one reading may have none in the next. Pure. */
bool box_socket_memory_may_be_over(const struct box_socket_memory *held, uint64_t memory_bytes);
/* Reads the network namespace of the process `pid`, until it is clear whether it holds too much.
 * `netns` is an fd of the same namespace. 0 or -errno. */
int box_socket_memory_read(pid_t pid, int netns, bool netlink, uint64_t memory_bytes,
	struct box_socket_memory *ret_held);
