/* One packet each way between box-rpc, whose socket keeps packets apart, and a guest, whose stream does
 * not. Nothing is queued: while a packet waits to go out, nobody reads the next one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/guest/machine.h"

/* On its way to the guest. */
struct box_carry_down {
	_Alignas(16) char bytes[BOX_GUEST_PACKET_MAX];
	size_t size; /* 0: there is none */
	size_t sent;
};

/* On its way from the guest: the first packet in the bytes, and what came behind it. */
struct box_carry_up {
	_Alignas(16) char bytes[BOX_GUEST_PACKET_MAX];
	size_t start;
	size_t end;
};

/* Takes a packet from the control socket, with the fd that came, or -1. 0; -EAGAIN; -EPIPE at the end;
 * -EBADMSG for one whose size is not what it says, one with more than one fd, or a kind that is none
 * of box-rpc's. */
int box_carry_take(struct box_carry_down *down, int control, int *ret_fd);
/* Puts a packet of our own there. */
void box_carry_put(struct box_carry_down *down, uint32_t kind, const void *bytes, size_t size);
struct box_guest_header box_carry_header(const struct box_carry_down *down);
void box_carry_set_number(struct box_carry_down *down, uint32_t number);
/* Writes what the stream takes. 0, or -EPIPE. */
int box_carry_push(struct box_carry_down *down, int stream);

/* Reads what fits. 0; -EAGAIN; -EPIPE at the end. */
int box_carry_pull(struct box_carry_up *up, int stream);
/* Whether a packet is whole: 1 with its header, 0, or -EBADMSG for nonsense. */
int box_carry_whole(const struct box_carry_up *up, struct box_guest_header *ret_header);
/* Of the packet that is whole: what is behind its header. */
const char *box_carry_bytes(const struct box_carry_up *up);
/* Passes over it. */
void box_carry_drop(struct box_carry_up *up);
/* Sends the whole packet. 0; -EAGAIN; -EPIPE. */
int box_carry_send(struct box_carry_up *up, int control);
