/* Made by going there and coming back: nothing else of boxd may happen in between. */
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
#include "boxd/net/network.h"

struct box_netns {
	int home; /* our own */
};

static int open_present(int *ret_fd)
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
	/* The way home is tried before it is needed. */
	if (open_present(&home) < 0 || setns(home, CLONE_NEWNET) < 0) {
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
	int r = open_present(&fd);
	r = r < 0 ? r : box_network_configure_off();
	box_netns_return(netns);
	if (r == 0) {
		*ret_fd = TAKE_FD(fd);
	}
	return r;
}
