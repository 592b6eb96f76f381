/* Packets with fds that go out over a unix socket in order: now, or when the socket takes them.
 *
 * One queue for boxd, for box-rpc's side of boxd's socket and for the control socket of a box. The owner
 * polls its socket for writing while the queue is not empty, and calls box_packet_queue_flush then.
 * It never blocks, and it knows nothing of what the packets mean.
 */
#pragma once

#include <stddef.h>
#include <sys/uio.h>

#include "base/list.h"

struct box_packet_queue {
	struct box_list packets;
	size_t count;
	size_t size_bytes;     /* the memory that they take */
	size_t count_max;      /* with so many, or */
	size_t size_bytes_max; /* with more bytes than this in it, the queue is full */
};

void box_packet_queue_init(struct box_packet_queue *queue, size_t count_max, size_t size_bytes_max);
/* Drops what waits. */
void box_packet_queue_clear(struct box_packet_queue *queue);

/* Sends a packet, or keeps a copy of it until the socket takes it. `fds` stay the caller's: what waits
 * has duplicates. 0; -EPIPE when the other side is gone; -ENOBUFS when the queue is full; or another -errno. */
int box_packet_queue_send(struct box_packet_queue *queue, int socket, const struct iovec *parts,
	size_t part_count, const int *fds, size_t fd_count);

/* The same with one fd or -1, which is taken, and closed when it has gone or cannot go. */
int box_packet_queue_send_taking_fd(struct box_packet_queue *queue, int socket,
	const struct iovec *parts, size_t part_count, int fd);

/* Sends what the socket takes now. A packet that cannot be sent at all is dropped; then -errno of the
 * first, else 0. */
int box_packet_queue_flush(struct box_packet_queue *queue, int socket);
