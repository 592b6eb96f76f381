/* How much kernel memory the sockets of a box hold, from the texts in /proc. */
#include <fcntl.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/limits.h"
#include "boxd/box/socket_memory.h"
#include "tests/unit/lib/test.h"

#define HEAD \
	"sk               Eth Pid        Groups   Rmem     Wmem     Dump  Locks    Drops    Inode\n"
#define LINE(rmem)                                       \
	"00000000a76f5ab1 0   1234567890 00000000 " rmem \
	"        0        0     2        0        7\n"

static struct box_socket_memory add(const char *text)
{
	struct box_socket_memory held = {0};
	ASSERT_INT(box_socket_memory_add_netlink(&held, text, strlen(text)), strlen(text));
	return held;
}

TEST(rmem_is_added_up)
{
	struct box_socket_memory held = add(HEAD LINE("0") LINE("212992") LINE("8"));
	ASSERT_INT(held.netlink_sockets, 3);
	ASSERT_INT(held.netlink_bytes, 3 * 2048 + 213000);
}

TEST(nothing_is_nothing)
{
	struct box_socket_memory held = add(HEAD);
	ASSERT_INT(held.netlink_sockets, 0);
	ASSERT_INT(held.netlink_bytes, 0);
	ASSERT_INT(add("").netlink_sockets, 0);
}

TEST(a_line_that_is_not_whole_waits)
{
	struct box_socket_memory held = {0};
	static const char text[] = LINE("5") "00000000 0 12";
	ASSERT_INT(box_socket_memory_add_netlink(&held, text, strlen(text)), strlen(LINE("5")));
	ASSERT_INT(held.netlink_sockets, 1);
}

TEST(what_is_too_much)
{
	struct box_socket_memory held = {
		.netlink_bytes = 64 * BOX_MIB, .netlink_sockets = BOX_NETLINK_SOCKETS_MAX};
	ASSERT(!box_socket_memory_is_over(&held, 64 * BOX_MIB));
	held.netlink_bytes++;
	ASSERT(box_socket_memory_is_over(&held, 64 * BOX_MIB));
	held.netlink_bytes = 0;
	held.netlink_sockets++;
	ASSERT(box_socket_memory_is_over(&held, 64 * BOX_MIB));
	held.netlink_sockets = 0;
	held.queued_bytes = 80 * BOX_MIB;
	ASSERT(!box_socket_memory_is_over(&held, 64 * BOX_MIB));
	held.queued_bytes++;
	ASSERT(box_socket_memory_is_over(&held, 64 * BOX_MIB));
}

TEST(received_bytes_of_udp_are_added_up)
{
	static const char text[] =
		"   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt\n"
		"  914: 00000000:C979 00000000:0000 07 00000001:004C2C00 00:00000000 00000000\n"
		" 2011: 0000000000000000FFFF00000100007F:0035 00000000000000000000000000000000:0000 "
		"07 00000000:00000300 00:00000000 00000000\n"
		" 2012: 0000";
	struct box_socket_memory held = {0};
	ASSERT_INT(box_socket_memory_add_udp(&held, text, strlen(text)), strlen(text) - 11);
	ASSERT_INT(held.queued_bytes, 0x4c2c00 + 0x300);
}

TEST(sockets_in_no_list_count_together_with_the_others)
{
	struct box_socket_memory held = {
		.queued_bytes = 60 * BOX_MIB, .unlisted_bytes = 20 * BOX_MIB};
	ASSERT(!box_socket_memory_may_be_over(&held, 64 * BOX_MIB));
	held.unlisted_bytes++;
	ASSERT(box_socket_memory_may_be_over(&held, 64 * BOX_MIB));
	ASSERT(!box_socket_memory_is_over(&held, 64 * BOX_MIB));
	ASSERT(!box_socket_memory_may_be_over(&held, UINT64_MAX));
}

TEST(all_sockets_are_told_in_one_line)
{
	static const char text[] = "sockets: used 2005\n"
				   "TCP: inuse 3 orphan 0 tw 0 alloc 11 mem 270\n"
				   "UDP: inuse 7 mem 0\nRAW: in";
	struct box_socket_memory_count count = {0};
	ASSERT_INT(box_socket_memory_count_all(&count, text, strlen(text)), strlen(text) - 7);
	ASSERT_INT(count.all, 2005);
	count.all = 0;
	ASSERT_INT(box_socket_memory_count_all(&count, "sockets: used 12", 16), 0);
	ASSERT_INT(box_socket_memory_count_all(&count, "\n\nsockets: used\n", 16), 16);
	ASSERT_INT(count.all, 0);
}

#define KIND(name, sockets) name " 1344 " sockets "      -1   NI       0   yes  kernel      y  n\n"

TEST(listed_sockets_of_all_kinds_are_counted)
{
	static const char text[] =
		"protocol  size sockets  memory press maxhdr  slab module     cl co di\n" /**/
		KIND("PACKET   ", "     2") KIND("UDPLITEv6", "     5") KIND("UDPv6    ", "     3")
			KIND("TCPv6    ", "   100") KIND("UNIX-STREAM", "  40")
				KIND("MPTCP    ", "    -1") KIND("UDP      ", "    20")
					KIND("UDP-Lite ", "     1") KIND("TCP      ", "  1000")
						KIND("NETLINK  ", "     6") "TCP 23";
	struct box_socket_memory_count count = {0};
	ASSERT_INT(box_socket_memory_count_listed(&count, text, strlen(text)), strlen(text) - 6);
	ASSERT_INT(count.listed, 2 + 5 + 3 + 100 + 40 + 20 + 1 + 1000 + 6);
	ASSERT_INT(count.tcp, 1100);
	ASSERT_INT(count.udp, 23);
	ASSERT_INT(count.netlink, 6);
	count = (struct box_socket_memory_count){0};
	static const char odd[] = "\nTCP\nTCP \nTCP 5\n   \nUDP 1 x\nNETLINK 1 -7\n";
	ASSERT_INT(box_socket_memory_count_listed(&count, odd, strlen(odd)), strlen(odd));
	ASSERT_INT(count.listed, 0);
}

TEST(the_first_of_very_many_stand_for_the_others)
{
	ASSERT_INT(box_socket_memory_estimate(1000000, 500, 100000), 1000000);
	ASSERT_INT(box_socket_memory_estimate(20000 * 70, 20000, 100000), 100000 * 70);
	ASSERT_INT(box_socket_memory_estimate(20000 * 70, 20000, 100), 20000 * 70);
	ASSERT_INT(box_socket_memory_estimate(0, 0, 0), 0);
}

TEST(the_largest_buffer_of_a_socket)
{
	ASSERT_INT(box_socket_memory_buffer_bytes("212992\n", "4096\t131072\t425984\n"), 851968);
	ASSERT_INT(box_socket_memory_buffer_bytes("4194304\n", "4096\t131072\t425984\n"), 4194304);
	/* Missing values are those of common kernels. */
	ASSERT_INT(box_socket_memory_buffer_bytes("", "4096 131072 1"), 212992);
	ASSERT_INT(box_socket_memory_buffer_bytes("", ""), 2 * 6291456);
	ASSERT_INT(box_socket_memory_buffer_bytes("x", "1 2"), 2 * 6291456);
}

/* More than are usually needed: connections to ourselves. */
TEST(a_look_sees_what_waits_in_tcp)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(at);
	struct box_socket_memory_inside inside;
	int netns = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	int fds[64];
	if (box_socket_memory_open_inside(netns, &inside) < 0) {
		SKIP("only with CAP_SYS_ADMIN, and sock_diag in the kernel");
	}
	(void)close(inside.diag);
	ASSERT(inside.buffer_bytes >= 212992);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ASSERT_INT(bind(listener, (struct sockaddr *)&at, size), 0);
	ASSERT_INT(listen(listener, (int)COUNT(fds)), 0);
	ASSERT_INT(getsockname(listener, (struct sockaddr *)&at, &size), 0);
	for (size_t i = 0; i < COUNT(fds); i++) {
		static const char bytes[30000];
		fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		ASSERT_INT(connect(fds[i], (struct sockaddr *)&at, size), 0);
		ASSERT_INT(write(fds[i], bytes, sizeof(bytes)), sizeof(bytes));
	}
	struct box_socket_memory held;
	ASSERT_INT(box_socket_memory_read(getpid(), netns, false, BOX_MIB, &held), 0);
	ASSERT(box_socket_memory_is_over(&held, BOX_MIB));
	for (size_t i = 0; i < COUNT(fds); i++) {
		(void)close(fds[i]);
	}
	(void)close(listener);
	(void)close(netns);
}

/* Our own namespace, whose text is longer than one read. */
TEST(a_look_sees_our_own_sockets)
{
	int fds[200];
	struct box_socket_memory before;
	struct box_socket_memory held;
	ASSERT_INT(box_socket_memory_read(getpid(), -1, true, UINT64_MAX, &before), 0);
	for (size_t i = 0; i < COUNT(fds); i++) {
		fds[i] = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0);
		ASSERT(fds[i] >= 0);
		/* A process without an address is not listed, and gets no value. */
		const struct sockaddr_nl any = {.nl_family = AF_NETLINK};
		ASSERT_INT(bind(fds[i], (const struct sockaddr *)&any, sizeof(any)), 0);
	}
	ASSERT_INT(box_socket_memory_read(getpid(), -1, true, UINT64_MAX, &held), 0);
	ASSERT(held.netlink_sockets >= COUNT(fds));
	ASSERT_INT(box_socket_memory_read(getpid(), -1, true, 100 * 2048, &held), 0);
	ASSERT(box_socket_memory_is_over(&held, 100 * 2048));
	for (size_t i = 0; i < COUNT(fds); i++) {
		(void)close(fds[i]);
	}
}
