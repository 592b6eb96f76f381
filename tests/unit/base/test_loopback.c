/* Which addresses belong to this host, and that traffic to them is not rate-limited. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/loopback.h"
#include "tests/unit/lib/test.h"

static bool is_loopback(const char *text)
{
	struct sockaddr_in four = {.sin_family = AF_INET};
	struct sockaddr_in6 six = {.sin6_family = AF_INET6};
	if (inet_pton(AF_INET, text, &four.sin_addr) == 1) {
		return box_loopback_is((const struct sockaddr *)&four);
	}
	ASSERT_INT(inet_pton(AF_INET6, text, &six.sin6_addr), 1);
	return box_loopback_is((const struct sockaddr *)&six);
}

TEST(addresses_of_this_host)
{
	ASSERT(is_loopback("127.0.0.1"));
	ASSERT(is_loopback("127.255.255.254"));
	ASSERT(is_loopback("::1"));
	ASSERT(is_loopback("::ffff:127.0.0.1"));
}

TEST(addresses_of_others)
{
	ASSERT(!is_loopback("0.0.0.0"));
	ASSERT(!is_loopback("128.0.0.1"));
	ASSERT(!is_loopback("10.0.0.127"));
	ASSERT(!is_loopback("::"));
	ASSERT(!is_loopback("::2"));
	ASSERT(!is_loopback("7f00::1"));
	ASSERT(!is_loopback("::ffff:10.0.0.1"));
	ASSERT(!is_loopback("::127.0.0.1"));
	const struct sockaddr_un local = {.sun_family = AF_UNIX};
	ASSERT(!box_loopback_is((const struct sockaddr *)&local));
}

TEST(what_is_sent_is_not_paced)
{
	char how[16] = "";
	socklen_t size = sizeof(how);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ASSERT(fd >= 0);
	box_loopback_disable_pacing(fd);
	ASSERT_INT(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, how, &size), 0);
	ASSERT_STR(how, "reno");
	(void)close(fd);
}
