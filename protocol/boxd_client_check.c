/* Sends one packet and waits for its answer. */
#include "protocol/boxd_client_check.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "plan/plan.h"
#include "protocol/packet.h"

int box_boxd_client_check_layout(const struct box_policy *policy, struct box_err *err)
{
	const struct box_boxd_plain packet = {BOX_BOXD_POLICY};
	_cleanup_(box_close_p) int fd = memfd_create("box-policy", MFD_CLOEXEC);
	if (fd < 0 || write(fd, policy, sizeof(*policy)) != (ssize_t)sizeof(*policy) ||
		box_packet_send(BOX_BOXD_FD, &packet, sizeof(packet), &fd, 1) < 0) {
		return box_err_set(
			err, BOX_ERR_OS, EIO, "the paths cannot be compared: boxd does not answer");
	}
	return box_boxd_client_check_path(BOX_BOXD_CHECK_LAYOUT, "", err);
}

int box_boxd_client_check_path(enum box_boxd_check_kind what, const char *path, struct box_err *err)
{
	struct box_boxd_check_path ask = {.kind = BOX_BOXD_CHECK_PATH, .what = what};
	struct box_packet packet = {0};
	(void)snprintf(ask.path, sizeof(ask.path), "%s", path);
	int r = box_packet_send(BOX_BOXD_FD, &ask, sizeof(ask), NULL, 0);
	if (r == 0) {
		struct pollfd polled = {.fd = BOX_BOXD_FD, .events = POLLIN};
		r = poll(&polled, 1, BOX_PATH_CHECK_MS) == 1 ? box_packet_recv(BOX_BOXD_FD, &packet)
							     : -ETIMEDOUT;
	}
	if (r < 0 || packet.kind != BOX_BOXD_PATH_CHECKED) {
		return box_err_set(err, BOX_ERR_OS, EIO, "%s: boxd does not answer", path);
	}
	packet.path_checked.failure.text[BOX_BOXD_TEXT_MAX - 1] = '\0';
	box_packet_close_fds(&packet);
	return packet.path_checked.failure.result == 0
		? 0
		: box_err_set(err, BOX_ERR_VALUE, EINVAL, "%s", packet.path_checked.failure.text);
}
