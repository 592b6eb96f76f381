/* What is only told inside the network namespace of a box. */
#pragma once

#include <stdint.h>

struct box_socket_memory_inside {
	int diag;              /* a socket for base/sock_diag.h that tells of it; the caller's */
	uint64_t buffer_bytes; /* that can wait in one socket there, at most */
};

/* Goes there in a process that does not come back: a plain user's boxd could not. It is short and never
 * waits. 0 or -errno. */
int box_socket_memory_open_inside(int netns, struct box_socket_memory_inside *ret_inside);

/* The pure half, of what net.core.rmem_default and, there, net.ipv4.tcp_rmem say. */
uint64_t box_socket_memory_buffer_bytes(const char *core, const char *tcp);
