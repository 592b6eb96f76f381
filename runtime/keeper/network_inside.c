/* What is done in the network namespace of a box, by whoever is there. Async-signal-safe. */
#include "base/cleanup.h"
#include "runtime/keeper/netlink.h"
#include "runtime/keeper/network.h"

#define LO_INDEX 1

static int configure(struct box_netlink_batch *batch)
{
	_cleanup_(box_close_p) int fd = -1;
	int r = box_netlink_open(&fd);
	return r < 0 ? r : box_netlink_run(fd, batch);
}

int box_network_enter(const struct box_network_seat *seat)
{
	struct box_netlink_batch batch = {0};
	box_netlink_up(&batch, LO_INDEX);
	box_netlink_quiet(&batch, BOX_NETWORK_INDEX);
	box_netlink_address(&batch, BOX_NETWORK_INDEX, seat->box_address, 31);
	box_netlink_up(&batch, BOX_NETWORK_INDEX);
	box_netlink_default_route(&batch, BOX_NETWORK_INDEX, seat->router_address);
	return configure(&batch);
}

int box_network_enter_off(void)
{
	struct box_netlink_batch batch = {0};
	box_netlink_up(&batch, LO_INDEX);
	return configure(&batch);
}
