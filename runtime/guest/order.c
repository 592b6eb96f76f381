/* Owns the socket of the order and the place of the workspace, from exec to the order. */
#include "runtime/guest/order.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/guest/attach.h"
#include "runtime/guest/boot.h"

static int workspace_fd = -1;
static char order;

/* 0 with the fd that came, or -1 for none; or -errno. */
static int receive_order(int *ret_fd)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec part = {&order, 1};
	struct msghdr message = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	ssize_t got;
	do {
		got = recvmsg(BOX_GUEST_ORDERS_FD, &message, MSG_CMSG_CLOEXEC);
	} while (got < 0 && errno == EINTR);
	if (got != 1 || (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC))) {
		return got < 0 ? -errno : -EOWNERDEAD;
	}
	const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	*ret_fd = -1;
	if (header) {
		memcpy(ret_fd, CMSG_DATA(header), sizeof(*ret_fd));
	}
	return 0;
}

int box_order_await(void)
{
	int r = receive_order(&workspace_fd);
	(void)prctl(PR_SET_NAME, "box-init", 0L, 0L, 0L);
	(void)close(BOX_GUEST_ORDERS_FD);
	return r;
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
