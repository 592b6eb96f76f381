/* What is done in the network namespace of a box, by whoever is there. Async-signal-safe. */
#include <fcntl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "boxd/net/netlink.h"
#include "boxd/net/network.h"

#define LO_INDEX 1
/* The most that TCP may make of the buffer of a socket, the last number: error queues can be as long,
 * and nobody is charged for those. Whoever a box speaks to is on this host, and as near as pasta: loopback
 * is as quick with it as with the usual 6 MiB. */
#define TCP_BUFFERS "4096 131072 425984"

static int configure(struct box_netlink_batch *batch)
{
	_cleanup_(box_close_p) int fd = -1;
	int r = box_netlink_open(&fd);
	return r < 0 ? r : box_netlink_send(fd, batch);
}

/* Without it they are longer, which a look at the box finds out: see socket_memory_inside.c. */
static void limit_buffers(void)
{
	_cleanup_(box_close_p) int fd = open("/proc/sys/net/ipv4/tcp_rmem", O_WRONLY | O_CLOEXEC);
	ssize_t written = fd < 0 ? -1 : write(fd, TCP_BUFFERS, sizeof(TCP_BUFFERS) - 1);
	(void)written;
}

int box_network_configure(const struct box_network_slot *seat)
{
	struct box_netlink_batch batch = {0};
	limit_buffers();
	box_netlink_up(&batch, LO_INDEX);
	box_netlink_disable_ipv6_autoconf(&batch, BOX_NETWORK_ETH0_INDEX);
	box_netlink_address(&batch, BOX_NETWORK_ETH0_INDEX, seat->box_address, 31);
	box_netlink_up(&batch, BOX_NETWORK_ETH0_INDEX);
	box_netlink_default_route(&batch, BOX_NETWORK_ETH0_INDEX, seat->router_address);
	return configure(&batch);
}

int box_network_configure_off(void)
{
	struct box_netlink_batch batch = {0};
	limit_buffers();
	box_netlink_up(&batch, LO_INDEX);
	return configure(&batch);
}
