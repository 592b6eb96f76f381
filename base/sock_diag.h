/* Queries the kernel about TCP sockets (NETLINK_SOCK_DIAG): about a single connection, or the memory
 * that all of them hold.
 *
 * The netlink socket reports on the network namespace in which it was opened, with user ids as seen in
 * that user namespace, whoever uses it later. Without capabilities it can only read.
 */
#pragma once

#include <linux/inet_diag.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

int box_sock_diag_open(int *ret_fd);

/* Sends a request for one socket and waits for the answer. 0; -ENOENT when there is no such socket; or
 * another -errno. */
int box_sock_diag_query(
	int fd, const struct inet_diag_req_v2 *request, struct inet_diag_msg *ret_answer);

/* The uid that owns the other end of `connection`, a TCP connection within this host. -ENOTCONN when
 * that end is not open any more (the kernel reports orphaned sockets as root's). Another -errno when it
 * cannot be determined. */
int box_sock_diag_peer_owner(int fd, int connection, uint32_t *ret_uid);

/* The pure half: whether `answer` is an open socket with the local address `local` and the peer address
 * `remote`. */
bool box_sock_diag_is_open_pair(const struct inet_diag_msg *answer,
	const struct sockaddr_storage *local, const struct sockaddr_storage *remote);

/* Totals over the listed sockets. */
struct box_sock_diag_sum {
	uint64_t sockets;
	/* Bytes in receive and error queues (sk_rmem_alloc), and the size of connections that are not
	 * accepted yet, which the kernel charges to a cgroup only when they are accepted. */
	uint64_t bytes;
};

#define BOX_SOCK_DIAG_UNACCEPTED_BYTES 4096

/* Adds up the TCP sockets of a family, and stops above `enough_bytes` or at `enough_sockets`. Never
 * waits. 0 or -errno. */
int box_sock_diag_add_tcp(int fd, int family, uint64_t enough_bytes, uint64_t enough_sockets,
	struct box_sock_diag_sum *sum);
/* The pure half: parses a packet of the kernel's answer with that sequence number. 1: more follow; 0:
 * this was the last; or -errno. */
int box_sock_diag_add_answer(
	const void *packet, size_t len, uint32_t wanted, struct box_sock_diag_sum *sum);
