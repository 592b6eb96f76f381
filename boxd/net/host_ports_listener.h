/* Whether someone offers a service at exactly an address and port of ours. A service that listens at
 * every address of the host answers there too, but was never offered to a box.
 */
#pragma once

#include <stdint.h>

/* A socket by which the kernel tells. Of the caller's network namespace. */
int box_host_ports_open_sock_diag(int *ret_fd);
/* 0; -ENOENT when nobody listens at exactly this address (IPv4, network order), or -errno. */
int box_host_ports_find_listener(int fd, uint32_t address, uint16_t port);
