/* Packets to and from the init of a box. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct box_backend_box;

/* Begins to read the control socket. */
int box_local_control_listen(struct box_backend_box *box);
/* Sends a packet, now or when the socket takes it. `fd` (-1: none) is taken. */
void box_local_control_send(struct box_backend_box *box, uint32_t kind, uint32_t id,
	const void *first, size_t first_size, const void *rest, size_t rest_size, int fd);
/* The same with a number in place of an fd. */
void box_local_control_send_number(struct box_backend_box *box, uint32_t kind, uint32_t id,
	const void *bytes, size_t size, uint32_t number);
/* Takes the packets that are in the socket, now. */
void box_local_control_read(struct box_backend_box *box);
