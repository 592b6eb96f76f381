/* Owns the socket of the order and the mount point of the workspace until the order has arrived. Called
 * by boot.c. */
#include "init/boot/boot_order.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/fds.h"
#include "base/fsmount.h"
#include "init/boot/boot.h"

static int workspace_fd = -1;
static char order;

int box_boot_await_order(void)
{
	int r = box_fds_receive_one(BOX_INIT_ORDER_FD, &order, sizeof(order), &workspace_fd, 0);
	(void)prctl(PR_SET_NAME, "box-init", 0L, 0L, 0L);
	(void)close(BOX_INIT_ORDER_FD);
	return r == -EPIPE || r == -EMSGSIZE ? -EOWNERDEAD : r;
}

bool box_boot_wants_quota(void)
{
	return order == BOX_INIT_ORDER_QUOTA;
}

void box_boot_close_order(void)
{
	(void)close(BOX_INIT_ORDER_FD);
	if (box_boot_facts()->facts.workspace) {
		(void)close(BOX_INIT_WORKSPACE_FD);
	}
}

int box_boot_attach_workspace(void)
{
	bool wanted = box_boot_facts()->facts.workspace != 0;
	if (wanted != (workspace_fd >= 0)) {
		return -EBADMSG;
	}
	if (!wanted) {
		return 0;
	}
	int r = box_fsmount_attach_at(workspace_fd, BOX_INIT_WORKSPACE_FD);
	(void)close(workspace_fd);
	(void)close(BOX_INIT_WORKSPACE_FD);
	return r;
}
