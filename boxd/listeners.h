/* The listening sockets. boxd opens them once and keeps them, so that no connection is refused while
 * box-rpc restarts. Opened by main.c, sent to box-rpc by serve.c. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "boxd/operator_socket.h"
#include "protocol/boxd.h"

struct box_listeners {
	size_t count;
	int fds[BOX_BOXD_LISTENERS_MAX];
	bool all_loopback;
	struct box_operator_socket operator;
	int sock_diag; /* to look up which user has connected; or -1 */
};

#define BOX_LISTENERS_NONE                                           \
	{                                                            \
		.operator= BOX_OPERATOR_SOCKET_NONE, .sock_diag = -1 \
	}

/* Whether all addresses of `host` are loopback, without opening any. */
int box_listeners_check_host(const char *host, bool *ret_all_loopback, struct box_err *err);

/* `host` NULL is 127.0.0.1 and, where there is IPv6, ::1. Port 0 is any free one, the same for all.
 * 0, or negative with address, port and reason in err and nothing left open. */
int box_listeners_open(
	const char *host, uint16_t port, struct box_listeners *ret_listeners, struct box_err *err);

/* One `listening` event for each socket. */
void box_listeners_log(const struct box_listeners *listeners);

void box_listeners_close(struct box_listeners *listeners);
