/* Ports of the host for single boxes: an address on the host's loopback for each box that may use some,
 * listening sockets in the router, and the port proxy that connects the two. Called by network.c.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "plan/egress.h"

struct box_host_ports;
struct box_router;

/* The end of a proxy shows at the caller's epoll fd; then call box_host_ports_step. The router must
 * exist before the first box_host_ports_open, and outlive this. */
struct box_host_ports *box_host_ports_new(const struct box_router *router, int epoll);
/* Ends all proxies. */
void box_host_ports_free(struct box_host_ports *ports);

/* For the box of a slot, whose veth exists. The box keeps the address (IPv4, network order) until it is
 * closed. */
int box_host_ports_open(struct box_host_ports *ports, uint32_t slot,
	const struct box_egress *egress, uint32_t *ret_address, struct box_err *err);
/* Does nothing for a slot without ports of the host. */
void box_host_ports_close(struct box_host_ports *ports, uint32_t slot);
/* Restarts proxies that have ended by themselves, if they had run for a while. */
void box_host_ports_step(struct box_host_ports *ports);

/* Takes the lowest free address on the host's loopback, and holds it while the lock is open. Exported
 * for tests. */
int box_host_ports_take_address(uint32_t *ret_address, int *ret_lock, struct box_err *err);
