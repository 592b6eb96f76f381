/* The lock is an abstract socket that has the address in its name. */
#include "boxd/net/host_ports_address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/limits.h"

#define FIRST UINT32_C(0x7f420001) /* 127.66.0.1 */
#define NAME "box-host/"

/* 1 when it is someone else's. */
static int take(uint32_t address, int *ret_lock)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	char text[INET_ADDRSTRLEN];
	(void)inet_ntop(AF_INET, &address, text, sizeof(text));
	int len = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, NAME "%s", text);
	socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
	_cleanup_(box_close_p) int lock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (lock < 0) {
		return -errno;
	}
	if (bind(lock, (const struct sockaddr *)&name, size) < 0) {
		return errno == EADDRINUSE ? 1 : -errno;
	}
	/* Whoever finds the name has nothing to say here. */
	(void)shutdown(lock, SHUT_RDWR);
	*ret_lock = TAKE_FD(lock);
	return 0;
}

int box_host_ports_take_address(uint32_t *ret_address, int *ret_lock, struct box_err *err)
{
	int r = 1;
	for (uint32_t i = 0; i < BOX_HOST_ADDRESSES_MAX && r > 0; i++) {
		uint32_t address = htonl(FIRST + i);
		r = take(address, ret_lock);
		if (r == 0) {
			*ret_address = address;
		}
	}
	if (r > 0) {
		return box_err_set(err, BOX_ERR_CAPACITY, EUSERS,
			"egress.host_ports: all %d addresses of the host's loopback are taken",
			BOX_HOST_ADDRESSES_MAX);
	}
	return r < 0 ? box_err_set(err, BOX_ERR_OS, -r,
			       "egress.host_ports: an address on the host's loopback: %s",
			       box_err_strerror(-r))
		     : 0;
}
