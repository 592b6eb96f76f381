/* Who serves the address that `box` dials by default. Any user of this machine may listen on a free port, and
 * the server gets our token, our files and our input. */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* A line of /proc/net/tcp or tcp6. */
struct box_server_owner_line {
	struct in6_addr local; /* IPv4 as a mapped address */
	uint16_t port;
	uint16_t remote_port;
	unsigned state;
	uid_t uid;
};

/* Pure. False: this line does not describe a socket. */
bool box_server_owner_parse_line(const char *text, struct box_server_owner_line *ret_line);

/* Pure. Whether this socket is the listener on `port` of loopback, or may be the other end of a connection to it
 * from `own_port`. */
bool box_server_owner_line_serves(
	const struct box_server_owner_line *line, uint16_t port, uint16_t own_port);

/* 0 when the other end of `fd` is not on loopback, belongs to root or to our own user, or has no listener: then
 * the address is forwarded, which only root can set up. Else -EACCES. */
int box_server_owner_check(int fd, const char *authority, struct box_err *err);
