/* Which addresses are loopback, and the TCP options for connections to them. */
#include "base/loopback.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>

/* "reno" is in every kernel, and every user may choose it. */
static const char unpaced[] = "reno";

bool box_loopback_is(const struct sockaddr *address)
{
	if (address->sa_family == AF_INET) {
		const struct sockaddr_in *ipv4 = (const struct sockaddr_in *)address;
		return ntohl(ipv4->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	}
	if (address->sa_family != AF_INET6) {
		return false;
	}
	const struct in6_addr *ipv6 = &((const struct sockaddr_in6 *)address)->sin6_addr;
	return IN6_IS_ADDR_LOOPBACK(ipv6) ||
		(IN6_IS_ADDR_V4MAPPED(ipv6) && ipv6->s6_addr[12] == IN_LOOPBACKNET);
}

void box_loopback_disable_pacing(int fd)
{
	(void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, unpaced, (socklen_t)strlen(unpaced));
}
