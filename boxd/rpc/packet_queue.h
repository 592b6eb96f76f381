/* Packets for box-rpc that its socket does not take yet, with copies of their fds: a bounded queue.
 * Boxes of a predecessor can be many, and each comes with fds.
 */
#pragma once

#include <stddef.h>

#include "base/list.h"

struct box_packet_queue {
	struct box_list queue;
	size_t count;
};

void box_packet_queue_init(struct box_packet_queue *outbox);
void box_packet_queue_clear(struct box_packet_queue *outbox);

/* Sends a packet, or keeps it for later. 0, -EPIPE when the other side is gone, -ENOBUFS when too
 * many wait already, or another -errno. */
int box_packet_queue_send(struct box_packet_queue *outbox, int socket, const void *body,
	size_t size, const int *fds, size_t fd_count);
/* Sends what the socket takes now: 0 or -errno. */
int box_packet_queue_flush(struct box_packet_queue *outbox, int socket);
