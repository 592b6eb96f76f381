/* A port proxy: the process that forwards the connections of one box to its address on the host's
 * loopback, and to nowhere else. It listens on the box's veth in the router, connects in the host's
 * network, and does not interpret what it copies. Called by host_ports.c.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/limits.h"

struct box_router;

struct box_port_proxy {
	uint32_t address; /* on the host's loopback; IPv4, network order */
	uint32_t port_count;
	uint16_t ports[BOX_EGRESS_HOST_PORTS_MAX];
	int listeners[BOX_EGRESS_HOST_PORTS_MAX]; /* one for each port */
};

/* Starts it, without rights, with the ids of the router's owner. It dies with boxd. `err` names the
 * failed step. */
int box_port_proxy_start(const struct box_port_proxy *proxy, const struct box_router *router,
	pid_t *ret_pid, struct box_err *err);

/* Whether a service of the host listens at exactly this address (IPv4, network order): 0, -ENOENT, or
 * -errno. A service that listens on all addresses would answer there too, but was not offered to boxes.
 * The fd is a sock_diag socket of the host's network namespace. Exported for tests. */
int box_port_proxy_find_listener(int sock_diag, uint32_t address, uint16_t port);
