/* Ports of the host for single boxes: an address on the host's loopback for each box that may have
 * some, sockets that listen for it in the router, and the ferry that carries what comes there.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "plan/egress.h"

struct box_host_ports;
struct box_router;

/* Ends of ferries show at the epoll of the caller, who calls box_host_ports_step then. The router is
 * made before the first offer, and outlives them. */
struct box_host_ports *box_host_ports_new(const struct box_router *router, int epoll);
/* Ends all. */
void box_host_ports_free(struct box_host_ports *offers);

/* For the box of a seat, whose cable is of this name. The address (IPv4, network order) is the box's
 * until it is closed. */
int box_host_ports_open(struct box_host_ports *offers, uint32_t seat,
	const struct box_egress *egress, uint32_t *ret_address, struct box_err *err);
/* What the box of a seat has, if it has any. */
void box_host_ports_close(struct box_host_ports *offers, uint32_t seat);
/* A ferry that has ended by itself is started again, once it had run for a while. */
void box_host_ports_step(struct box_host_ports *offers);
