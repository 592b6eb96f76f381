/* Makes a namespace by entering it and coming back: boxd does nothing else in between. Called by
 * boxd/box; knows nothing of the router. */
#include "boxd/net/netns.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "boxd/net/netlink.h"

#define LO_INDEX 1
/* For net.ipv4.tcp_rmem. The last number is the maximum size of a socket's receive buffer: error queues
 * can be as long, and are charged to nobody. All peers of a box are on this host, or pasta: loopback is
 * as fast with this as with the default of 6 MiB. */
#define TCP_BUFFERS "4096 131072 425984"

struct box_netns {
	int home; /* our own */
};

static int open_current(int *ret_fd)
{
	int fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		return -errno;
	}
	*ret_fd = fd;
	return 0;
}

struct box_netns *box_netns_new(void)
{
	_cleanup_(box_close_p) int home = -1;
	/* Returning is tested before it is needed. */
	if (open_current(&home) < 0 || setns(home, CLONE_NEWNET) < 0) {
		return NULL;
	}
	struct box_netns *netns = box_alloc(sizeof(*netns));
	netns->home = TAKE_FD(home);
	return netns;
}

void box_netns_free(struct box_netns *netns)
{
	if (!netns) {
		return;
	}
	box_close_p(&netns->home);
	free(netns);
}

int box_netns_enter(const struct box_netns *netns, int fd)
{
	(void)netns;
	return setns(fd, CLONE_NEWNET) < 0 ? -errno : 0;
}

void box_netns_return(const struct box_netns *netns)
{
	if (setns(netns->home, CLONE_NEWNET) < 0) {
		BOX_LOG(BOX_LOG_ERROR, "netns.lost", box_log_errno("why", errno));
		abort();
	}
}

int box_netns_make(const struct box_netns *netns, int *ret_fd)
{
	_cleanup_(box_close_p) int fd = -1;
	if (unshare(CLONE_NEWNET) < 0) {
		return -errno;
	}
	int r = open_current(&fd);
	if (r == 0) {
		r = box_netns_configure_off();
	}
	box_netns_return(netns);
	if (r < 0) {
		return r;
	}
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* --- in the namespace --- */

static int send_batch(struct box_netlink_batch *batch)
{
	_cleanup_(box_close_p) int fd = -1;
	int r = box_netlink_open(&fd);
	return r < 0 ? r : box_netlink_send(fd, batch);
}

/* If this fails, buffers are larger, which boxd's check of the box takes into account: see
 * boxd/box/socket_memory.c. */
static void limit_buffers(void)
{
	_cleanup_(box_close_p) int fd = open("/proc/sys/net/ipv4/tcp_rmem", O_WRONLY | O_CLOEXEC);
	ssize_t written = fd < 0 ? -1 : write(fd, TCP_BUFFERS, sizeof(TCP_BUFFERS) - 1);
	(void)written;
}

int box_netns_configure(uint32_t address, uint32_t gateway)
{
	struct box_netlink_batch batch = {0};
	limit_buffers();
	box_netlink_up(&batch, LO_INDEX);
	box_netlink_disable_ipv6_autoconf(&batch, BOX_NETNS_ETH0_INDEX);
	box_netlink_address(&batch, BOX_NETNS_ETH0_INDEX, address, 31);
	box_netlink_up(&batch, BOX_NETNS_ETH0_INDEX);
	box_netlink_default_route(&batch, BOX_NETNS_ETH0_INDEX, gateway);
	return send_batch(&batch);
}

int box_netns_configure_off(void)
{
	struct box_netlink_batch batch = {0};
	limit_buffers();
	box_netlink_up(&batch, LO_INDEX);
	return send_batch(&batch);
}
