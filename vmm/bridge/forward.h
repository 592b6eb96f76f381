/* One packet each way between box-rpc, whose socket keeps packets apart, and a guest, whose stream does
 * not. Nothing is queued: while a packet waits to go out, nobody reads the next one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/microvm.h"

/* On its way to the guest. */
struct box_forward_to_guest {
	_Alignas(16) char bytes[BOX_INIT_PACKET_MAX];
	size_t size; /* 0: there is none */
	size_t sent;
};

/* On its way from the guest: the first packet in the bytes, and what came behind it. */
struct box_forward_from_guest {
	_Alignas(16) char bytes[BOX_INIT_PACKET_MAX];
	size_t start;
	size_t end;
};

/* Takes a packet from the control socket, with the fd that came, or -1. 0; -EAGAIN; -EPIPE at the end;
 * -EBADMSG for one whose size is not what it says, one with more than one fd, or a kind that is none
 * of box-rpc's. */
int box_forward_take(struct box_forward_to_guest *down, int control, int *ret_fd);
/* Puts a packet of our own there. */
void box_forward_put(
	struct box_forward_to_guest *down, uint32_t kind, const void *bytes, size_t size);
struct box_init_header box_forward_header(const struct box_forward_to_guest *down);
void box_forward_set_number(struct box_forward_to_guest *down, uint32_t number);
/* Writes what the stream takes. 0, or -EPIPE. */
int box_forward_push(struct box_forward_to_guest *down, int stream);

/* Reads what fits. 0; -EAGAIN; -EPIPE at the end. */
int box_forward_pull(struct box_forward_from_guest *up, int stream);
/* Whether a packet is whole: 1 with its header, 0, or -EBADMSG for nonsense. */
int box_forward_is_whole(
	const struct box_forward_from_guest *up, struct box_init_header *ret_header);
/* Of the packet that is whole: what is behind its header. */
const char *box_forward_bytes(const struct box_forward_from_guest *up);
/* Passes over it. */
void box_forward_drop(struct box_forward_from_guest *up);
/* Sends the whole packet. 0; -EAGAIN; -EPIPE. */
int box_forward_send(struct box_forward_from_guest *up, int control);
