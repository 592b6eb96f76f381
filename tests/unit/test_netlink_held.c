/* What the netlink sockets of a box hold, from the text of the kernel. */
#include <linux/netlink.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/limits.h"
#include "runtime/keeper/netlink_held.h"
#include "tests/unit/test.h"

#define HEAD \
	"sk               Eth Pid        Groups   Rmem     Wmem     Dump  Locks    Drops    Inode\n"
#define LINE(rmem)                                       \
	"00000000a76f5ab1 0   1234567890 00000000 " rmem \
	"        0        0     2        0        7\n"

static struct box_netlink_held add(const char *text)
{
	struct box_netlink_held held = {0};
	ASSERT_INT(box_netlink_held_add(&held, text, strlen(text)), strlen(text));
	return held;
}

TEST(rmem_is_added_up)
{
	struct box_netlink_held held = add(HEAD LINE("0") LINE("212992") LINE("8"));
	ASSERT_INT(held.sockets, 3);
	ASSERT_INT(held.bytes, 3 * 2048 + 213000);
}

TEST(nothing_is_nothing)
{
	struct box_netlink_held held = add(HEAD);
	ASSERT_INT(held.sockets, 0);
	ASSERT_INT(held.bytes, 0);
	ASSERT_INT(add("").sockets, 0);
}

TEST(a_line_that_is_not_whole_waits)
{
	struct box_netlink_held held = {0};
	static const char text[] = LINE("5") "00000000 0 12";
	ASSERT_INT(box_netlink_held_add(&held, text, strlen(text)), strlen(LINE("5")));
	ASSERT_INT(held.sockets, 1);
}

TEST(what_is_too_much)
{
	struct box_netlink_held held = {.bytes = 64 * BOX_MIB, .sockets = BOX_NETLINK_SOCKETS_MAX};
	ASSERT(!box_netlink_held_is_over(&held, 64 * BOX_MIB));
	held.bytes++;
	ASSERT(box_netlink_held_is_over(&held, 64 * BOX_MIB));
	held.bytes = 0;
	held.sockets++;
	ASSERT(box_netlink_held_is_over(&held, 64 * BOX_MIB));
}

/* Our own namespace, whose text is longer than one read. */
TEST(a_look_sees_our_own_sockets)
{
	int fds[200];
	struct box_netlink_held before;
	struct box_netlink_held held;
	ASSERT_INT(box_netlink_held_look(getpid(), UINT64_MAX, &before), 0);
	for (size_t i = 0; i < COUNT(fds); i++) {
		fds[i] = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0);
		ASSERT(fds[i] >= 0);
		/* One without an address is not listed, and gets nothing. */
		const struct sockaddr_nl any = {.nl_family = AF_NETLINK};
		ASSERT_INT(bind(fds[i], (const struct sockaddr *)&any, sizeof(any)), 0);
	}
	ASSERT_INT(box_netlink_held_look(getpid(), UINT64_MAX, &held), 0);
	ASSERT(held.sockets >= COUNT(fds));
	ASSERT_INT(box_netlink_held_look(getpid(), 100 * 2048, &held), 0);
	ASSERT(box_netlink_held_is_over(&held, 100 * 2048));
	for (size_t i = 0; i < COUNT(fds); i++) {
		(void)close(fds[i]);
	}
}
