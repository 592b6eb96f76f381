/* Packets to and from box-init. For the files local*.c. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct box_backend_box;

/* Starts to read the control socket. */
int box_local_control_listen(struct box_backend_box *box);
/* Sends a packet, now or when the socket accepts it. Takes over `fd` (-1: none). */
void box_local_control_send(struct box_backend_box *box, uint32_t kind, uint32_t id,
	const void *first, size_t first_size, const void *rest, size_t rest_size, int fd);
/* The same with a number instead of an fd. */
void box_local_control_send_number(struct box_backend_box *box, uint32_t kind, uint32_t id,
	const void *bytes, size_t size, uint32_t number);
/* Handles the packets that are in the socket, now. */
void box_local_control_read(struct box_backend_box *box);
