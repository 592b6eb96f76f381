/* A ferry: the process that carries the connections of one box to its address on the host's
 * loopback, and nowhere else. It listens on the box's own cable in the router, and connects in the
 * network of the host; it reads nothing of what it carries.
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

/* Starts it, without rights, with the ids of the router's owner. It ends with us. `err` names what
 * failed. */
int box_port_proxy_start(const struct box_port_proxy *ferry, const struct box_router *router,
	pid_t *ret_pid, struct box_err *err);

/* The rest is the process's own. Gives up all it does not need: 0, or -errno. */
int box_port_proxy_confine(void);
/* Carries, until it is killed. */
_Noreturn void box_port_proxy_run(const struct box_port_proxy *ferry, int look);
