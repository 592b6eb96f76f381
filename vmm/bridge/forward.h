/* One packet each way between box-rpc, whose socket keeps packets apart, and the guest, whose connection is a stream.
 * Nothing is queued: while a packet waits to be sent, the next one is not read. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/microvm.h"

/* The packet on its way to the guest. */
struct box_forward_to_guest {
	_Alignas(16) char bytes[BOX_INIT_PACKET_MAX];
	size_t size; /* 0: there is no packet */
	size_t sent; /* how many bytes of it were sent */
};

/* Bytes from the guest, from `start` to `end`: a packet, possibly incomplete, and bytes of the next ones. */
struct box_forward_from_guest {
	_Alignas(16) char bytes[BOX_INIT_PACKET_MAX];
	size_t start;
	size_t end;
};

/* Receives a packet from the control socket, with its fd or -1. 0; -EAGAIN; -EPIPE at the end; -EBADMSG for a packet
 * with a wrong size, more than one fd, or a kind that box-rpc must not send. */
int box_forward_take(struct box_forward_to_guest *packet, int control, int *ret_fd);
/* Puts a packet of the bridge itself there. */
void box_forward_put(
	struct box_forward_to_guest *packet, uint32_t kind, const void *bytes, size_t size);
struct box_init_header box_forward_header(const struct box_forward_to_guest *packet);
void box_forward_set_number(struct box_forward_to_guest *packet, uint32_t number);
/* Writes as much as the stream takes. 0 or -EPIPE. */
int box_forward_push(struct box_forward_to_guest *packet, int stream);

/* Reads as much as fits. 0; -EAGAIN; -EPIPE at the end. */
int box_forward_pull(struct box_forward_from_guest *from, int stream);
/* Whether the packet is complete: 1 with its header, 0, or -EBADMSG if it is invalid. */
int box_forward_is_whole(
	const struct box_forward_from_guest *from, struct box_init_header *ret_header);
/* The bytes after the header of the complete packet. */
const char *box_forward_bytes(const struct box_forward_from_guest *from);
/* Skips the complete packet. */
void box_forward_drop(struct box_forward_from_guest *from);
/* Sends the complete packet. 0; -EAGAIN; -EPIPE. */
int box_forward_send(struct box_forward_from_guest *from, int control);
