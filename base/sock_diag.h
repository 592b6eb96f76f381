/* Questions to the kernel about TCP sockets (NETLINK_SOCK_DIAG): about one, or what all hold.
 *
 * The socket for it tells of the network namespace that it was opened in, and user ids as they are in
 * the user namespace that it was opened in, whoever uses it later. Without capabilities it can only
 * look.
 */
#pragma once

#include <linux/inet_diag.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

int box_sock_diag_open(int *ret_fd);

/* Asks for the socket that `request` describes and waits for the answer. 0; -ENOENT when there is
 * none; or another -errno. */
int box_sock_diag_query(
	int fd, const struct inet_diag_req_v2 *request, struct inet_diag_msg *ret_answer);

/* Who owns the other end of `connection`, a TCP connection within this host. -ENOTCONN when that end
 * is not open any more: the kernel tells nobody's socket as root's. Another -errno when it cannot be
 * known. */
int box_sock_diag_peer_owner(int fd, int connection, uint32_t *ret_uid);

/* The pure half: whether `answer` is the open socket whose own address is `local` and whose other end
 * is `remote`. */
bool box_sock_diag_is_open_pair(const struct inet_diag_msg *answer,
	const struct sockaddr_storage *local, const struct sockaddr_storage *remote);

/* Of sockets that were told. */
struct box_sock_diag_sum {
	uint64_t sockets;
	/* That wait in them, in their error queues too (sk_rmem_alloc); and what those are themselves that
	 * nobody has accepted: the kernel charges a connection to whoever accepts it. */
	uint64_t bytes;
};

#define BOX_SOCK_DIAG_UNACCEPTED_BYTES 4096

/* Adds up the TCP sockets of a family, as long as the bytes are not above `enough_bytes` and the sockets
 * fewer than `enough_sockets`. Never waits. 0 or -errno. */
int box_sock_diag_add_tcp(int fd, int family, uint64_t enough_bytes, uint64_t enough_sockets,
	struct box_sock_diag_sum *sum);
/* The pure half: a packet of the kernel's answer with that sequence number. 1: there are more; 0: it
 * was the last; or -errno. */
int box_sock_diag_add_answer(
	const void *packet, size_t len, uint32_t wanted, struct box_sock_diag_sum *sum);
