/* By sock_diag: the kernel looks up the listener that a connection would find, and shows where it is
 * bound. */
#include "boxd/net/host_ports_listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

#include "base/sock_diag.h"

/* Also one that a program of IPv6 has bound to the address alone. */
static int judge(const struct inet_diag_msg *listener, uint32_t address)
{
	const uint32_t mapped[] = {0, 0, htonl(0xffff), address};
	const uint32_t *at = listener->id.idiag_src;
	bool exact = listener->idiag_family == AF_INET
		? at[0] == address
		: listener->idiag_family == AF_INET6 && memcmp(at, mapped, sizeof(mapped)) == 0;
	return exact && listener->idiag_state == TCP_LISTEN ? 0 : -ENOENT;
}

int box_host_ports_open_sock_diag(int *ret_fd)
{
	return box_sock_diag_open(ret_fd);
}

int box_host_ports_find_listener(int fd, uint32_t address, uint16_t port)
{
	struct inet_diag_req_v2 request = {
		.sdiag_family = AF_INET,
		.sdiag_protocol = IPPROTO_TCP,
		.idiag_states = 1U << TCP_LISTEN,
	};
	struct inet_diag_msg listener;
	request.id.idiag_sport = htons(port);
	request.id.idiag_src[0] = address;
	int r = box_sock_diag_query(fd, &request, &listener);
	return r < 0 ? r : judge(&listener, address);
}
