/* Which carrier, which address, and the way there. Choosing and parsing are pure; dialling
 * blocks up to its time, because a client has nothing to do before it is connected. */
#include "transport/connector.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/value.h"

#define SCHEME "ws://"
#define SCHEME_TLS "wss://"
#define PORT_DEFAULT "5410"
#define PATH_DEFAULT "/rpc/ws"
#define ADDRESSES_MAX 16

struct box_connector_choice box_connector_choose(const struct box_connector_facts *facts)
{
	bool named = facts->endpoint && facts->endpoint[0] != '\0';
	bool dial = named || facts->standalone || facts->in_container || facts->cannot_spawn;
	struct box_connector_choice choice = {
		.carrier = dial ? BOX_CARRIER_WEBSOCKET : BOX_CARRIER_STDIO,
		.shares_filesystem = !dial,
	};
	if (dial) {
		choice.endpoint = named ? facts->endpoint : BOX_ENDPOINT_DEFAULT;
	}
	if (facts->shares != BOX_SHARES_DERIVED) {
		choice.shares_filesystem = facts->shares == BOX_SHARES_YES;
	}
	return choice;
}

bool box_connector_in_container(void)
{
	return access("/.dockerenv", F_OK) == 0 || access("/run/.containerenv", F_OK) == 0;
}

/* --- the address --- */

static int refuse(struct box_err *err, const char *url, const char *why)
{
	return box_err_set(err, BOX_ERR_VALUE, EINVAL, "endpoint \"%.200s\": %s", url, why);
}

static bool port_valid(struct box_str text)
{
	unsigned long port = 0;
	for (size_t i = 0; i < text.len; i++) {
		if (text.bytes[i] < '0' || text.bytes[i] > '9') {
			return false;
		}
		port = port * 10 + (unsigned long)(text.bytes[i] - '0');
	}
	return text.len > 0 && text.len <= 5 && port > 0 && port <= 65535;
}

/* These go into a request head as they are: nothing may end a line or begin another part. */
static bool plain(struct box_str text, const char *also_refused)
{
	for (size_t i = 0; i < text.len; i++) {
		char c = text.bytes[i];
		if (c <= ' ' || c >= 0x7f || strchr(also_refused, c)) {
			return false;
		}
	}
	return true;
}

static void copy_text(char *out, struct box_str text)
{
	memcpy(out, text.bytes, text.len);
	out[text.len] = '\0';
}

/* Cuts HOST, HOST:PORT, [IPV6] or [IPV6]:PORT. NULL, or what is wrong with it. */
static const char *split_authority(
	struct box_str authority, struct box_str *ret_host, struct box_str *ret_port)
{
	struct box_str host = authority;
	const char *end = authority.bytes + authority.len;
	const char *after;
	if (host.len > 0 && host.bytes[0] == '[') {
		const char *close = memchr(host.bytes, ']', host.len);
		if (!close) {
			return "an IPv6 address needs its closing bracket";
		}
		host = (struct box_str){host.bytes + 1, (size_t)(close - host.bytes - 1)};
		after = close + 1;
	} else {
		const char *colon = memchr(host.bytes, ':', host.len);
		after = colon ? colon : end;
		host.len = (size_t)(after - host.bytes);
		if (memchr(host.bytes, ']', host.len)) {
			return "no host name has a bracket";
		}
	}
	*ret_host = host;
	*ret_port = box_str(PORT_DEFAULT);
	if (after < end) {
		*ret_port = (struct box_str){after + 1, (size_t)(end - after - 1)};
		if (*after != ':' || !port_valid(*ret_port)) {
			return "the port must be 1 to 65535";
		}
	}
	return NULL;
}

int box_endpoint_parse(const char *url, struct box_endpoint *ret_endpoint, struct box_err *err)
{
	if (strncasecmp(url, SCHEME_TLS, strlen(SCHEME_TLS)) == 0) {
		return refuse(err, url, "wss:// is not spoken here; use ws:// through a TLS proxy");
	}
	if (strncasecmp(url, SCHEME, strlen(SCHEME)) != 0) {
		return refuse(err, url, "must begin with ws://");
	}
	const char *at = url + strlen(SCHEME);
	struct box_str authority = {at, strcspn(at, "/?#")};
	struct box_str path = box_str(at + authority.len);
	if (path.len == 0 || box_str_eq(path, "/")) {
		path = box_str(PATH_DEFAULT);
	}
	if (path.bytes[0] != '/' || path.len >= BOX_ENDPOINT_PATH_MAX || !plain(path, "#")) {
		return refuse(err, url, "the path is too long or holds what no path may");
	}
	struct box_str host;
	struct box_str port;
	const char *why = split_authority(authority, &host, &port);
	if (why) {
		return refuse(err, url, why);
	}
	if (host.len == 0 || host.len > BOX_ENDPOINT_HOST_MAX || !plain(host, "@[]\"\\%")) {
		return refuse(err, url, "the host is missing or malformed");
	}
	struct box_endpoint endpoint;
	copy_text(endpoint.host, host);
	copy_text(endpoint.port, port);
	copy_text(endpoint.path, path);
	bool bracketed = strchr(endpoint.host, ':') != NULL;
	(void)snprintf(endpoint.authority, sizeof(endpoint.authority), "%s%s%s:%s",
		bracketed ? "[" : "", endpoint.host, bracketed ? "]" : "", endpoint.port);
	*ret_endpoint = endpoint;
	return 0;
}

/* --- the way there --- */

static int wait_connected(int fd, uint64_t until_ms)
{
	for (;;) {
		uint64_t now = box_clock_ms();
		struct pollfd ready = {.fd = fd, .events = POLLOUT};
		int r = now < until_ms ? poll(&ready, 1, (int)(until_ms - now)) : 0;
		if (r < 0 && errno == EINTR) {
			continue;
		}
		if (r <= 0) {
			return r < 0 ? -errno : -ETIMEDOUT;
		}
		int failed = 0;
		socklen_t size = sizeof(failed);
		if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &size) < 0) {
			return -errno;
		}
		return -failed;
	}
}

/* A host that vanished says nothing. The kernel asks while nothing is sent, and waits only so long
 * for what is, or a terminal would stand still for ever. */
static void watch_by_kernel(int fd)
{
	const int on = 1;
	const int idle_sec = BOX_PING_INTERVAL_SEC;
	const int between_sec = (BOX_PING_HANGUP_SEC - BOX_PING_INTERVAL_SEC) / 3;
	const int probes = 3;
	const unsigned unsent_ms = BOX_PING_HANGUP_SEC * 1000;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_sec, sizeof(idle_sec));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between_sec, sizeof(between_sec));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unsent_ms, sizeof(unsent_ms));
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

static int dial_address(const struct addrinfo *address, uint64_t until_ms, int *ret_fd)
{
	const int on = 1;
	_cleanup_(box_close_p) int fd = socket(address->ai_family,
		address->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, address->ai_protocol);
	if (fd < 0) {
		return -errno;
	}
	/* Small requests wait for their answers: they must not wait for each other. */
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	watch_by_kernel(fd);
	int r = connect(fd, address->ai_addr, address->ai_addrlen) < 0 ? -errno : 0;
	if (r == -EINPROGRESS) {
		r = wait_connected(fd, until_ms);
	}
	if (r == 0) {
		*ret_fd = TAKE_FD(fd);
	}
	return r;
}

int box_connector_dial(
	const struct box_endpoint *endpoint, int timeout_ms, int *ret_fd, struct box_err *err)
{
	uint64_t until_ms = box_clock_ms() + (uint64_t)timeout_ms;
	struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
	struct addrinfo *found = NULL;
	int failed = getaddrinfo(endpoint->host, endpoint->port, &hints, &found);
	if (failed != 0) {
		return box_err_set(err, BOX_ERR_RUNTIME_UNAVAILABLE, EHOSTUNREACH, "%s: %s",
			endpoint->authority, gai_strerror(failed));
	}
	int r = -EHOSTUNREACH;
	int count = 0;
	for (struct addrinfo *a = found; a && count < ADDRESSES_MAX; a = a->ai_next, count++) {
		r = dial_address(a, until_ms, ret_fd);
		if (r == 0) {
			break;
		}
	}
	freeaddrinfo(found);
	if (r < 0) {
		return box_err_set(err, BOX_ERR_RUNTIME_UNAVAILABLE, -r, "%s: %s",
			endpoint->authority, strerror(-r));
	}
	return 0;
}
