/* Who serves the address that `box` dials when nobody has named one. Any user of this machine may
 * listen on a port that is free, and whom we ask gets our token, our files and our input. */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* A line of /proc/net/tcp or tcp6. */
struct box_server_owner_line {
	struct in6_addr local; /* that of IPv4 mapped */
	uint16_t port;
	uint16_t remote_port;
	unsigned state;
	uid_t uid;
};

/* Pure. False: this is no line of a socket. */
bool box_server_owner_parse_line(const char *text, struct box_server_owner_line *ret_line);

/* Pure. Whether this socket may be the other end of a connection from `own_port` of this machine to
 * `port` on loopback: what listens there, or the end itself. */
bool box_server_owner_line_serves(
	const struct box_server_owner_line *line, uint16_t port, uint16_t own_port);

/* 0 when what `fd` is connected to is not on loopback, or belongs to root or to our own user; or when
 * nobody listens there: then the address is forwarded, which only root can have done. Else -EACCES. */
int box_server_owner_check(int fd, const char *authority, struct box_err *err);
