/* Packets with fds that are sent over a Unix socket in order: now, or when the socket takes them.
 *
 * One implementation for boxd, for box-rpc's connection to boxd and for the control socket of a box.
 * While the queue is not empty, the owner polls its socket for writing and calls
 * box_packet_queue_flush. It never blocks, and does not interpret the packets.
 */
#pragma once

#include <stddef.h>
#include <sys/uio.h>

#include "base/list.h"

struct box_packet_queue {
	struct box_list packets;
	size_t count;
	size_t size_bytes;     /* memory of all packets */
	size_t count_max;      /* the queue is full with this many packets */
	size_t size_bytes_max; /* or with more than this many bytes */
};

void box_packet_queue_init(struct box_packet_queue *queue, size_t count_max, size_t size_bytes_max);
/* Frees all packets that wait. */
void box_packet_queue_clear(struct box_packet_queue *queue);

/* Sends a packet, or queues a copy of it. The caller keeps `fds`: the queue holds duplicates. 0; -EPIPE
 * when the other side is gone; -ENOBUFS when the queue is full; or another -errno. */
int box_packet_queue_send(struct box_packet_queue *queue, int socket, const struct iovec *parts,
	size_t part_count, const int *fds, size_t fd_count);

/* The same with at most one fd (-1: none). Takes ownership of it: it is closed when it was sent or
 * cannot be. */
int box_packet_queue_send_taking_fd(struct box_packet_queue *queue, int socket,
	const struct iovec *parts, size_t part_count, int fd);

/* Sends as much as the socket takes now. A packet that cannot be sent at all is dropped; returns 0, or
 * -errno of the first of these. */
int box_packet_queue_flush(struct box_packet_queue *queue, int socket);
