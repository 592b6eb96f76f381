/* Addresses on the host's loopback, and who listens there: only a server that listens there and
 * nowhere else counts. In a network namespace of its own. */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/sock_diag.h"
#include "boxd/net/host_ports.h"
#include "boxd/net/port_proxy.h"
#include "tests/unit/lib/test.h"

#define PORT 8080

static int look;

static void set_up(void)
{
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
	if (unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0) {
		SKIP("no network namespaces here");
	}
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ASSERT(fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &lo) == 0);
	(void)close(fd);
	ASSERT_INT(box_sock_diag_open(&look), 0);
}

static int listen_at(const char *address)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
		.sin_port = htons(PORT),
		.sin_addr.s_addr = inet_addr(address)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ASSERT(fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0);
	ASSERT_INT(listen(fd, 1), 0);
	return fd;
}

static int listen_at_six(const char *address)
{
	struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_port = htons(PORT)};
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ASSERT(inet_pton(AF_INET6, address, &at.sin6_addr) == 1);
	if (fd < 0) {
		SKIP("no IPv6 here");
	}
	ASSERT(bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0);
	ASSERT_INT(listen(fd, 1), 0);
	return fd;
}

static int offered(const char *address)
{
	return box_port_proxy_find_listener(look, inet_addr(address), PORT);
}

TEST(only_who_listens_at_this_address_offers)
{
	set_up();
	ASSERT_INT(offered("127.66.0.1"), -ENOENT);
	int fd = listen_at("127.66.0.1");
	ASSERT_INT(offered("127.66.0.1"), 0);
	ASSERT_INT(offered("127.66.0.2"), -ENOENT);
	ASSERT_INT(offered("127.0.0.1"), -ENOENT);
	ASSERT_INT(box_port_proxy_find_listener(look, inet_addr("127.66.0.1"), PORT + 1), -ENOENT);
	(void)close(fd);
	ASSERT_INT(offered("127.66.0.1"), -ENOENT);
}

TEST(who_listens_everywhere_offers_nothing)
{
	set_up();
	int fd = listen_at("0.0.0.0");
	ASSERT_INT(offered("127.66.0.1"), -ENOENT);
	(void)close(fd);
	fd = listen_at_six("::");
	ASSERT_INT(offered("127.66.0.1"), -ENOENT);
	(void)close(fd);
	fd = listen_at_six("::ffff:127.66.0.1");
	ASSERT_INT(offered("127.66.0.1"), 0);
	ASSERT_INT(offered("127.66.0.2"), -ENOENT);
	(void)close(fd);
}

TEST(addresses_are_the_lowest_that_are_free)
{
	int locks[4];
	uint32_t addresses[4];
	struct box_err err;
	set_up();
	for (size_t i = 0; i < 3; i++) {
		ASSERT_INT(box_host_ports_take_address(&addresses[i], &locks[i], &err), 0);
		ASSERT_INT(ntohl(addresses[i]), 0x7f420001 + i);
	}
	(void)close(locks[1]);
	ASSERT_INT(box_host_ports_take_address(&addresses[1], &locks[1], &err), 0);
	ASSERT_INT(ntohl(addresses[1]), 0x7f420002);
	ASSERT_INT(box_host_ports_take_address(&addresses[3], &locks[3], &err), 0);
	ASSERT_INT(ntohl(addresses[3]), 0x7f420004);
	/* In another network namespace they are other addresses. */
	ASSERT(unshare(CLONE_NEWNET) == 0);
	ASSERT_INT(box_host_ports_take_address(&addresses[3], &locks[3], &err), 0);
	ASSERT_INT(ntohl(addresses[3]), 0x7f420001);
}
