/* What the sockets of a box hold, from the texts of the kernel. */
#include <linux/netlink.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/limits.h"
#include "runtime/keeper/sockets_held.h"
#include "tests/unit/test.h"

#define HEAD \
	"sk               Eth Pid        Groups   Rmem     Wmem     Dump  Locks    Drops    Inode\n"
#define LINE(rmem)                                       \
	"00000000a76f5ab1 0   1234567890 00000000 " rmem \
	"        0        0     2        0        7\n"

static struct box_sockets_held add(const char *text)
{
	struct box_sockets_held held = {0};
	ASSERT_INT(box_sockets_held_add_netlink(&held, text, strlen(text)), strlen(text));
	return held;
}

TEST(rmem_is_added_up)
{
	struct box_sockets_held held = add(HEAD LINE("0") LINE("212992") LINE("8"));
	ASSERT_INT(held.netlink_sockets, 3);
	ASSERT_INT(held.netlink_bytes, 3 * 2048 + 213000);
}

TEST(nothing_is_nothing)
{
	struct box_sockets_held held = add(HEAD);
	ASSERT_INT(held.netlink_sockets, 0);
	ASSERT_INT(held.netlink_bytes, 0);
	ASSERT_INT(add("").netlink_sockets, 0);
}

TEST(a_line_that_is_not_whole_waits)
{
	struct box_sockets_held held = {0};
	static const char text[] = LINE("5") "00000000 0 12";
	ASSERT_INT(box_sockets_held_add_netlink(&held, text, strlen(text)), strlen(LINE("5")));
	ASSERT_INT(held.netlink_sockets, 1);
}

TEST(what_is_too_much)
{
	struct box_sockets_held held = {
		.netlink_bytes = 64 * BOX_MIB, .netlink_sockets = BOX_NETLINK_SOCKETS_MAX};
	ASSERT(!box_sockets_held_is_over(&held, 64 * BOX_MIB));
	held.netlink_bytes++;
	ASSERT(box_sockets_held_is_over(&held, 64 * BOX_MIB));
	held.netlink_bytes = 0;
	held.netlink_sockets++;
	ASSERT(box_sockets_held_is_over(&held, 64 * BOX_MIB));
	held.netlink_sockets = 0;
	held.udp_bytes = 80 * BOX_MIB;
	ASSERT(!box_sockets_held_is_over(&held, 64 * BOX_MIB));
	held.udp_bytes++;
	ASSERT(box_sockets_held_is_over(&held, 64 * BOX_MIB));
}

TEST(received_bytes_of_udp_are_added_up)
{
	static const char text[] =
		"   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt\n"
		"  914: 00000000:C979 00000000:0000 07 00000001:004C2C00 00:00000000 00000000\n"
		" 2011: 0000000000000000FFFF00000100007F:0035 00000000000000000000000000000000:0000 "
		"07 00000000:00000300 00:00000000 00000000\n"
		" 2012: 0000";
	struct box_sockets_held held = {0};
	ASSERT_INT(box_sockets_held_add_udp(&held, text, strlen(text)), strlen(text) - 11);
	ASSERT_INT(held.udp_bytes, 0x4c2c00 + 0x300);
}

/* Our own namespace, whose text is longer than one read. */
TEST(a_look_sees_our_own_sockets)
{
	int fds[200];
	struct box_sockets_held before;
	struct box_sockets_held held;
	ASSERT_INT(box_sockets_held_look(getpid(), true, UINT64_MAX, &before), 0);
	for (size_t i = 0; i < COUNT(fds); i++) {
		fds[i] = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0);
		ASSERT(fds[i] >= 0);
		/* One without an address is not listed, and gets nothing. */
		const struct sockaddr_nl any = {.nl_family = AF_NETLINK};
		ASSERT_INT(bind(fds[i], (const struct sockaddr *)&any, sizeof(any)), 0);
	}
	ASSERT_INT(box_sockets_held_look(getpid(), true, UINT64_MAX, &held), 0);
	ASSERT(held.netlink_sockets >= COUNT(fds));
	ASSERT_INT(box_sockets_held_look(getpid(), true, 100 * 2048, &held), 0);
	ASSERT(box_sockets_held_is_over(&held, 100 * 2048));
	for (size_t i = 0; i < COUNT(fds); i++) {
		(void)close(fds[i]);
	}
}
