/* Ports of the host for single boxes: an address on the host's loopback for each box that may have some,
 * sockets that listen in the router, and the port proxy that connects the two.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "plan/egress.h"

struct box_host_ports;
struct box_router;

/* The end of a proxy shows at the caller's epoll; box_host_ports_step is to be called then. The router is
 * made before the first box_host_ports_open, and outlives this. */
struct box_host_ports *box_host_ports_new(const struct box_router *router, int epoll);
/* Ends all proxies. */
void box_host_ports_free(struct box_host_ports *ports);

/* For the box of a slot, whose veth is there. The address (IPv4, network order) is the box's until it is
 * closed. */
int box_host_ports_open(struct box_host_ports *ports, uint32_t slot,
	const struct box_egress *egress, uint32_t *ret_address, struct box_err *err);
/* Harmless for a slot without ports of the host. */
void box_host_ports_close(struct box_host_ports *ports, uint32_t slot);
/* Starts proxies again that have ended by themselves, if they had run for a while. */
void box_host_ports_step(struct box_host_ports *ports);

/* Takes the lowest free address on the host's loopback, for as long as the lock is open. Exported for
 * tests. */
int box_host_ports_take_address(uint32_t *ret_address, int *ret_lock, struct box_err *err);
