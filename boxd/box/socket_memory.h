/* What the sockets of a box hold of the kernel's memory that no cgroup is charged for. boxd reads it
 * from time to time (socket_checks.h) and ends a box that holds more than its memory limit:
 *
 * - netlink sockets. Only boxes with a network can have them: for others the filter refuses them.
 * - error queues of UDP and TCP sockets: ICMP answers (IP_RECVERR) and packets whose time of sending
 *   was asked for with sendmsg wait there, charged to nobody, up to SO_RCVBUF for each socket. They
 *   stay when the socket gives up its port or its connection has died. Such a socket is in no list of
 *   the kernel, so these are counted, and each is taken to be full.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct box_socket_memory {
	uint64_t netlink_bytes;   /* that wait to be read, and the sockets themselves */
	uint32_t netlink_sockets; /* with an address: others receive nothing, and are not listed */
	uint64_t queued_bytes;    /* that wait to be read in UDP and TCP, ordinary packets too */
	uint64_t unlisted_bytes;  /* that can wait in sockets that are in no list */
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
/* What waits in `sockets` sockets when the `listed` ones that were read hold `bytes`. Pure. */
uint64_t box_socket_memory_estimate(uint64_t bytes, uint64_t listed, uint64_t sockets);
/* The maximum that can wait in one socket, by the texts of net.core.rmem_default and of
 * net.ipv4.tcp_rmem ("MIN DEFAULT MAX") of its namespace. Pure. */
uint64_t box_socket_memory_buffer_bytes(const char *core, const char *tcp);

/* What can only be read inside the network namespace of a box. */
struct box_socket_memory_inside {
	int diag; /* a socket for base/sock_diag.h that lists its sockets; the caller's */
	uint64_t buffer_bytes; /* the maximum that can wait in one of them */
};
/* By a child that shares our memory and our fds and enters the namespace in our place: boxd itself would
 * have to come back, which a plain user's cannot always do. The child never waits for anything. 0 or
 * -errno. */
int box_socket_memory_open_inside(int netns, struct box_socket_memory_inside *ret_inside);

/* Whether a box with this memory limit holds too much. Pure. */
bool box_socket_memory_is_over(const struct box_socket_memory *held, uint64_t memory_bytes);
/* Whether it may, by sockets that are in no list. A socket that was closed is counted a moment longer,
 * so a box that has too many of them at one reading may have none at the next. Pure. */
bool box_socket_memory_may_be_over(const struct box_socket_memory *held, uint64_t memory_bytes);
/* Reads the network namespace of the process `pid`, no further than is needed to say that it holds too
 * much. `netns` is an fd of the same namespace. 0 or -errno. */
int box_socket_memory_read(pid_t pid, int netns, bool netlink, uint64_t memory_bytes,
	struct box_socket_memory *ret_held);
