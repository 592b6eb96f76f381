/* What the sockets of a box hold of the kernel's memory that no cgroup is charged for, so that boxd
 * looks, and ends a box that holds more than it may have:
 *
 * - netlink sockets. Only boxes with a network have such: for others the filter refuses them.
 * - error queues of UDP and TCP sockets: what ICMP answers (IP_RECVERR) and packets whose time of
 *   sending was asked for with sendmsg wait there, charged to nobody, within SO_RCVBUF for each socket.
 *   They stay when the socket gives up its port or its connection has died. It is in no list then, so
 *   such sockets are counted, and each taken for full.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct box_socket_memory {
	uint64_t netlink_bytes;   /* that wait to be read, and the sockets themselves */
	uint32_t netlink_sockets; /* with an address: others get nothing, and are not listed */
	uint64_t queued_bytes;    /* that wait to be read in UDP and TCP, ordinary packets too */
	uint64_t unlisted_bytes;  /* that can wait in those that are in no list */
};

/* How many sockets a namespace has. */
struct box_socket_memory_count {
	uint64_t all;
	uint64_t listed; /* of all kinds */
	uint64_t tcp;    /* of those, as the others */
	uint64_t udp;
	uint64_t netlink;
};

/* Add up the whole lines of a text of /proc/PID/net/netlink, or of udp or udp6, without its head.
 * They give how many bytes of the text were used. Pure. */
size_t box_socket_memory_add_netlink(struct box_socket_memory *held, const char *text, size_t len);
size_t box_socket_memory_add_udp(struct box_socket_memory *held, const char *text, size_t len);
/* The same with what /proc/PID/net/sockstat and protocols tell. */
size_t box_socket_memory_count_all(
	struct box_socket_memory_count *count, const char *text, size_t len);
size_t box_socket_memory_count_listed(
	struct box_socket_memory_count *count, const char *text, size_t len);
/* What waits in so many sockets when the first that were told have `bytes`. Pure. */
uint64_t box_socket_memory_estimate(uint64_t bytes, uint64_t told, uint64_t sockets);

/* Whether a box that may have so much memory holds too much. Pure. */
bool box_socket_memory_is_over(const struct box_socket_memory *held, uint64_t memory_bytes);
/* Whether it may, by sockets that are in no list. One that was closed is there a moment longer: who
 * has too many of them in one look may have none in the next. Pure. */
bool box_socket_memory_may_be_over(const struct box_socket_memory *held, uint64_t memory_bytes);
/* Looks at the network namespace of a process, no further than it takes to say that it is too much.
 * `netns` is the same one. 0 or -errno. */
int box_socket_memory_read(pid_t pid, int netns, bool netlink, uint64_t memory_bytes,
	struct box_socket_memory *ret_held);
