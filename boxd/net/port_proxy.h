/* A port proxy: the process that copies the connections of one box to its address on the host's loopback, and
 * to nowhere else. It listens on the box's veth in the router, connects in the network of the host, and does
 * not look into what it copies.
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

/* Starts it, without rights, with the ids of the router's owner. It dies with boxd. `err` names what
 * failed. */
int box_port_proxy_start(const struct box_port_proxy *proxy, const struct box_router *router,
	pid_t *ret_pid, struct box_err *err);

/* Whether a service of the host listens at exactly this address (IPv4, network order): 0, -ENOENT, or
 * -errno. A service that listens at every address of the host answers there too, but was not offered to
 * boxes. The fd is of sock_diag, of the host's network namespace. Exported for tests. */
int box_port_proxy_find_listener(int sock_diag, uint32_t address, uint16_t port);
