/* Which user owns the other end of a connection: which netlink answers are accepted, and real
 * answers of the kernel. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/sock_diag.h"
#include "tests/unit/lib/test.h"

static struct sockaddr_storage address(const char *text, uint16_t port)
{
	struct sockaddr_storage made = {0};
	struct sockaddr_in *four = (struct sockaddr_in *)&made;
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)&made;
	if (inet_pton(AF_INET, text, &four->sin_addr) == 1) {
		four->sin_family = AF_INET;
		four->sin_port = htons(port);
	} else {
		ASSERT_INT(inet_pton(AF_INET6, text, &six->sin6_addr), 1);
		six->sin6_family = AF_INET6;
		six->sin6_port = htons(port);
	}
	return made;
}

static struct inet_diag_msg answer(const char *from, uint16_t sport, const char *to, uint16_t dport)
{
	struct inet_diag_msg made = {.idiag_state = TCP_ESTABLISHED, .idiag_inode = 1};
	made.idiag_family = strchr(from, ':') ? AF_INET6 : AF_INET;
	ASSERT_INT(inet_pton(made.idiag_family, from, made.id.idiag_src), 1);
	ASSERT_INT(inet_pton(made.idiag_family, to, made.id.idiag_dst), 1);
	made.id.idiag_sport = htons(sport);
	made.id.idiag_dport = htons(dport);
	return made;
}

TEST(only_an_open_socket_with_both_ends_counts)
{
	struct sockaddr_storage there = address("127.0.0.1", 4000);
	struct sockaddr_storage here = address("127.0.0.1", 5410);
	struct inet_diag_msg good = answer("127.0.0.1", 4000, "127.0.0.1", 5410);
	ASSERT(box_sock_diag_is_open_pair(&good, &there, &here));
	struct inet_diag_msg bad = good;
	bad.idiag_inode = 0; /* orphaned: reported as root's */
	ASSERT(!box_sock_diag_is_open_pair(&bad, &there, &here));
	static const uint8_t states[] = {TCP_SYN_SENT, TCP_SYN_RECV, TCP_FIN_WAIT1, TCP_FIN_WAIT2,
		TCP_TIME_WAIT, TCP_CLOSE, TCP_CLOSE_WAIT, TCP_LAST_ACK, TCP_LISTEN, TCP_CLOSING};
	for (size_t i = 0; i < sizeof(states); i++) {
		bad = good;
		bad.idiag_state = states[i];
		ASSERT(!box_sock_diag_is_open_pair(&bad, &there, &here));
	}
	bad = answer("127.0.0.2", 4000, "127.0.0.1", 5410);
	ASSERT(!box_sock_diag_is_open_pair(&bad, &there, &here));
	bad = answer("127.0.0.1", 4001, "127.0.0.1", 5410);
	ASSERT(!box_sock_diag_is_open_pair(&bad, &there, &here));
	bad = answer("127.0.0.1", 4000, "127.0.0.2", 5410);
	ASSERT(!box_sock_diag_is_open_pair(&bad, &there, &here));
	bad = answer("127.0.0.1", 4000, "127.0.0.1", 5411);
	ASSERT(!box_sock_diag_is_open_pair(&bad, &there, &here));
	/* The same end in the form of an IPv6 socket. */
	good = answer("::ffff:127.0.0.1", 4000, "::ffff:127.0.0.1", 5410);
	ASSERT(box_sock_diag_is_open_pair(&good, &there, &here));
}

/* One socket as the kernel reports it: an attribute that was not requested, and its memory. */
struct told {
	struct nlmsghdr head;
	struct inet_diag_msg body;
	struct rtattr other;
	uint32_t byte;
	struct rtattr memory;
	uint32_t rmem;
	uint32_t rest[8];
};

#define SEQUENCE 7

static struct told tell(uint32_t rmem)
{
	return (struct told){
		.head = {sizeof(struct told), SOCK_DIAG_BY_FAMILY, NLM_F_MULTI, SEQUENCE, 0},
		.body = {.idiag_inode = 1},
		.other = {RTA_LENGTH(1), INET_DIAG_SHUTDOWN},
		.byte = 3,
		.memory = {RTA_LENGTH(sizeof(uint32_t) * 9), INET_DIAG_SKMEMINFO},
		.rmem = rmem,
	};
}

static struct box_sock_diag_sum sum_of(const void *packet, size_t len, int expected)
{
	struct box_sock_diag_sum sum = {0};
	/* A block of its own, so that a read past its end is detected. */
	void *copy = malloc(len > 0 ? len : 1);
	memcpy(copy, packet, len);
	ASSERT_INT(box_sock_diag_add_answer(copy, len, SEQUENCE, &sum), expected);
	free(copy);
	return sum;
}

TEST(what_waits_is_added_up)
{
	struct {
		struct told told[3];
		struct nlmsghdr done;
		int result;
	} packet = {{tell(100), tell(5), tell(UINT32_MAX)},
		{NLMSG_LENGTH(sizeof(int)), NLMSG_DONE, NLM_F_MULTI, SEQUENCE, 0}, 0};
	struct box_sock_diag_sum sum = sum_of(&packet, sizeof(packet), 0);
	ASSERT_INT(sum.sockets, 3);
	ASSERT_INT(sum.bytes, 105 + (uint64_t)UINT32_MAX);
	sum = sum_of(&packet, sizeof(packet.told), 1);
	ASSERT_INT(sum.sockets, 3);
	packet.told[1].head.nlmsg_seq = SEQUENCE - 1; /* of an earlier request */
	sum = sum_of(&packet, sizeof(packet), 0);
	ASSERT_INT(sum.sockets, 2);
	packet.told[2].body.idiag_inode = 0; /* not accepted yet */
	packet.told[2].rmem = 0;
	ASSERT_INT(sum_of(&packet, sizeof(packet), 0).bytes, 100 + BOX_SOCK_DIAG_UNACCEPTED_BYTES);
	packet.result = -ENOMEM;
	(void)sum_of(&packet, sizeof(packet), -ENOMEM);
	packet.done.nlmsg_type = NLMSG_ERROR;
	packet.result = 0;
	(void)sum_of(&packet, sizeof(packet), -EPROTO);
	packet.done.nlmsg_len = NLMSG_LENGTH(0);
	(void)sum_of(&packet, sizeof(packet), -EPROTO);
}

TEST(an_answer_that_was_cut_adds_what_is_whole)
{
	struct told told[2] = {tell(100), tell(5)};
	for (size_t len = 0; len < sizeof(told); len++) {
		struct box_sock_diag_sum sum = sum_of(told, len, 1);
		ASSERT_INT(sum.sockets, len / sizeof(told[0]));
	}
	/* Every length that the headers may give: nothing is read beyond the packet. */
	for (uint32_t len = 0; len < 2 * sizeof(told); len++) {
		struct told odd = tell(9);
		odd.head.nlmsg_len = len;
		(void)sum_of(&odd, sizeof(odd), 1);
		odd = tell(9);
		odd.other.rta_len = (unsigned short)len;
		(void)sum_of(&odd, sizeof(odd), 1);
		odd = tell(9);
		odd.memory.rta_len = (unsigned short)len;
		ASSERT_INT(sum_of(&odd, sizeof(odd), 1).bytes,
			len >= RTA_LENGTH(4) && len <= RTA_LENGTH(36) ? 9 : 0);
	}
}

static void connect_to(const char *listen_at, const char *dial_at)
{
	struct sockaddr_storage at = address(listen_at, 0);
	struct sockaddr_storage to = address(dial_at, 0);
	socklen_t size = at.ss_family == AF_INET ? sizeof(struct sockaddr_in)
						 : sizeof(struct sockaddr_in6);
	socklen_t dial_size = to.ss_family == AF_INET ? sizeof(struct sockaddr_in)
						      : sizeof(struct sockaddr_in6);
	uint32_t uid = 99;
	int diag = -1;
	int listener = socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int dialled = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(listener, (struct sockaddr *)&at, size) < 0) {
		SKIP("no such address here");
	}
	ASSERT_INT(listen(listener, 1), 0);
	ASSERT_INT(getsockname(listener, (struct sockaddr *)&at, &size), 0);
	in_port_t port = ((struct sockaddr_in *)&at)->sin_port;
	((struct sockaddr_in *)&to)->sin_port = port; /* at the same offset in both */
	ASSERT_INT(connect(dialled, (struct sockaddr *)&to, dial_size), 0);
	int accepted = accept(listener, NULL, NULL);
	ASSERT(accepted >= 0);
	ASSERT_INT(box_sock_diag_open(&diag), 0);
	int r = box_sock_diag_peer_owner(diag, accepted, &uid);
	if (r == -ENOENT || r == -EOPNOTSUPP) {
		SKIP("this kernel has no sock_diag");
	}
	ASSERT_INT(r, 0);
	ASSERT_INT(uid, geteuid());
	ASSERT_INT(shutdown(dialled, SHUT_WR), 0);
	ASSERT_INT(box_sock_diag_peer_owner(diag, accepted, &uid), -ENOTCONN);
	ASSERT_INT(close(dialled), 0);
	ASSERT_INT(box_sock_diag_peer_owner(diag, accepted, &uid), -ENOTCONN);
	(void)close(accepted);
	(void)close(listener);
	(void)close(diag);
}

TEST(ipv4)
{
	connect_to("127.0.0.1", "127.0.0.1");
}

TEST(ipv6)
{
	connect_to("::1", "::1");
}

TEST(ipv4_as_ipv6_dials_it)
{
	connect_to("127.0.0.1", "::ffff:127.0.0.1");
}

TEST(ipv4_as_ipv6_listens)
{
	connect_to("::ffff:127.0.0.1", "127.0.0.1");
}
