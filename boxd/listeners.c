/* From a host and a port to listening sockets. All are on the same port: with port 0 the first socket
 * gets a port from the kernel and the others use it too; if one of them finds it taken, all start
 * again. */
#include "boxd/listeners.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "base/loopback.h"

#define BACKLOG 1024
#define FREE_PORT_TRIES 16

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	struct sockaddr_storage storage;
};

struct addresses {
	size_t count;
	union address list[BOX_BOXD_LISTENERS_MAX];
};

static socklen_t address_size(const union address *address)
{
	return address->any.sa_family == AF_INET6 ? sizeof(address->v6) : sizeof(address->v4);
}

static void address_text(const union address *address, char text[INET6_ADDRSTRLEN])
{
	bool v6 = address->any.sa_family == AF_INET6;
	const void *bytes = v6 ? (const void *)&address->v6.sin6_addr : &address->v4.sin_addr;
	if (!inet_ntop(address->any.sa_family, bytes, text, INET6_ADDRSTRLEN)) {
		text[0] = '\0';
	}
}

static uint16_t address_port(const union address *address)
{
	return ntohs(
		address->any.sa_family == AF_INET6 ? address->v6.sin6_port : address->v4.sin_port);
}

static void address_set_port(union address *address, uint16_t port)
{
	if (address->any.sa_family == AF_INET6) {
		address->v6.sin6_port = htons(port);
	} else {
		address->v4.sin_port = htons(port);
	}
}

static bool is_any6(const union address *address)
{
	return address->any.sa_family == AF_INET6 &&
		IN6_IS_ADDR_UNSPECIFIED(&address->v6.sin6_addr);
}

static void loopback_addresses(struct addresses *addresses)
{
	addresses->list[0].v4 = (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	addresses->list[1].v6 = (struct sockaddr_in6){
		.sin6_family = AF_INET6,
		.sin6_addr = IN6ADDR_LOOPBACK_INIT,
	};
	addresses->count = 2;
}

/* /etc/hosts may name an address twice. */
static bool is_listed(const struct addresses *addresses, const struct addrinfo *info)
{
	for (size_t i = 0; i < addresses->count; i++) {
		if (address_size(&addresses->list[i]) == info->ai_addrlen &&
			memcmp(&addresses->list[i], info->ai_addr, info->ai_addrlen) == 0) {
			return true;
		}
	}
	return false;
}

static int resolve(const char *host, struct addresses *ret_addresses, struct box_err *err)
{
	struct addrinfo hints = {.ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM};
	struct addrinfo *found = NULL;
	int r = getaddrinfo(host, NULL, &hints, &found);
	if (r != 0) {
		return box_err_set(err, BOX_ERR_OS, EADDRNOTAVAIL, "--host %.255s: %s", host,
			r == EAI_SYSTEM ? box_err_strerror(errno) : gai_strerror(r));
	}
	r = 0;
	for (struct addrinfo *info = found; info && r == 0; info = info->ai_next) {
		if ((info->ai_family != AF_INET && info->ai_family != AF_INET6) ||
			is_listed(ret_addresses, info)) {
			continue;
		}
		if (ret_addresses->count == BOX_BOXD_LISTENERS_MAX) {
			r = box_err_set(err, BOX_ERR_OS, E2BIG,
				"--host %.255s: more than %d addresses", host,
				BOX_BOXD_LISTENERS_MAX);
			continue;
		}
		memcpy(&ret_addresses->list[ret_addresses->count++], info->ai_addr,
			info->ai_addrlen);
	}
	freeaddrinfo(found);
	return r;
}

static int open_socket(const union address *address, int *ret_fd)
{
	int family = address->any.sa_family;
	int type = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
	_cleanup_(box_close_p) int fd = socket(family, type, 0);
	if (fd < 0) {
		return -errno;
	}
	int on = 1;
	int v6_only = !is_any6(address);
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
		(family == AF_INET6 &&
			setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6_only, sizeof(v6_only)) < 0) ||
		bind(fd, &address->any, address_size(address)) < 0 || listen(fd, BACKLOG) < 0) {
		return -errno;
	}
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static int bound_port(int fd, uint16_t *ret_port)
{
	union address bound = {0};
	socklen_t size = sizeof(bound);
	if (getsockname(fd, &bound.any, &size) < 0) {
		return -errno;
	}
	*ret_port = address_port(&bound);
	return 0;
}

/* A name may have an IPv6 address although this host has no IPv6. */
static bool is_missing_ipv6(const union address *address, int r)
{
	return address->any.sa_family == AF_INET6 && (r == -EAFNOSUPPORT || r == -EADDRNOTAVAIL);
}

/* Opens all on one port. On failure *ret_failed is the address that failed. */
static int open_all(struct addresses *addresses, uint16_t port, struct box_listeners *listeners,
	const union address **ret_failed)
{
	int missing = -EADDRNOTAVAIL;
	*ret_failed = &addresses->list[0];
	listeners->all_loopback = true;
	for (size_t i = 0; i < addresses->count; i++) {
		union address *address = &addresses->list[i];
		address_set_port(address, port);
		int fd = -1;
		int r = open_socket(address, &fd);
		if (is_missing_ipv6(address, r)) {
			missing = r;
			continue;
		}
		if (r == 0) {
			listeners->fds[listeners->count++] = fd;
			listeners->all_loopback = listeners->all_loopback &&
				box_loopback_is(&address->any);
			r = port == 0 ? bound_port(fd, &port) : 0;
		}
		if (r < 0) {
			*ret_failed = address;
			box_listeners_close(listeners);
			return r;
		}
	}
	return listeners->count > 0 ? 0 : missing;
}

int box_listeners_check_host(const char *host, bool *ret_all_loopback, struct box_err *err)
{
	struct addresses addresses = {0};
	int r = host ? resolve(host, &addresses, err) : 0;
	if (r < 0) {
		return r;
	}
	*ret_all_loopback = true;
	for (size_t i = 0; i < addresses.count; i++) {
		*ret_all_loopback = *ret_all_loopback && box_loopback_is(&addresses.list[i].any);
	}
	return 0;
}

int box_listeners_open(
	const char *host, uint16_t port, struct box_listeners *ret_listeners, struct box_err *err)
{
	struct addresses addresses = {0};
	if (host) {
		int r = resolve(host, &addresses, err);
		if (r < 0) {
			return r;
		}
	} else {
		loopback_addresses(&addresses);
	}
	struct box_listeners listeners = BOX_LISTENERS_NONE;
	const union address *failed = NULL;
	int r = -EADDRINUSE;
	int tries = port == 0 ? FREE_PORT_TRIES : 1;
	for (; r == -EADDRINUSE && tries > 0; tries--) {
		r = open_all(&addresses, port, &listeners, &failed);
	}
	if (r < 0) {
		char text[INET6_ADDRSTRLEN];
		address_text(failed, text);
		return box_err_set(err, BOX_ERR_OS, -r, "cannot listen on %s port %u: %s%s", text,
			port, box_err_strerror(-r),
			r == -EADDRINUSE ? "; if it is another boxd (see box status), choose a "
					   "port with --ws-control-port"
					 : "");
	}
	*ret_listeners = listeners;
	return 0;
}

void box_listeners_log(const struct box_listeners *listeners)
{
	for (size_t i = 0; i < listeners->count; i++) {
		union address bound = {0};
		socklen_t size = sizeof(bound);
		char text[INET6_ADDRSTRLEN] = "";
		if (getsockname(listeners->fds[i], &bound.any, &size) == 0) {
			address_text(&bound, text);
		}
		BOX_LOG(BOX_LOG_INFO, "listening", box_log_str("address", text),
			box_log_int("port", address_port(&bound)));
	}
	if (listeners->operator.fd >= 0) {
		BOX_LOG(BOX_LOG_INFO, "listening.operator",
			box_log_str("path", listeners->operator.path));
	}
}

void box_listeners_close(struct box_listeners *listeners)
{
	for (size_t i = 0; i < listeners->count; i++) {
		(void)close(listeners->fds[i]);
	}
	listeners->count = 0;
	box_operator_socket_close(&listeners->operator);
	box_close_p(&listeners->sock_diag);
}
