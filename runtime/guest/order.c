/* Owns the socket of the order and the place of the workspace, from exec to the order. */
#include "runtime/guest/order.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/fds.h"
#include "runtime/guest/attach.h"
#include "runtime/guest/boot.h"

static int workspace_fd = -1;
static char order;

int box_order_await(void)
{
	int r = box_fds_receive_one(BOX_GUEST_ORDERS_FD, &order, sizeof(order), &workspace_fd, 0);
	(void)prctl(PR_SET_NAME, "box-init", 0L, 0L, 0L);
	(void)close(BOX_GUEST_ORDERS_FD);
	return r == -EPIPE || r == -EMSGSIZE ? -EOWNERDEAD : r;
}

bool box_order_wants_room(void)
{
	return order == BOX_GUEST_ORDER_ROOM;
}

void box_order_close(void)
{
	(void)close(BOX_GUEST_ORDERS_FD);
	if (box_boot_facts()->facts.workspace) {
		(void)close(BOX_GUEST_PLACE_FD);
	}
}

int box_order_attach_workspace(void)
{
	bool wanted = box_boot_facts()->facts.workspace != 0;
	if (wanted != (workspace_fd >= 0)) {
		return -EBADMSG;
	}
	if (!wanted) {
		return 0;
	}
	int r = box_attach_at(workspace_fd, BOX_GUEST_PLACE_FD);
	(void)close(workspace_fd);
	(void)close(BOX_GUEST_PLACE_FD);
	return r;
}
