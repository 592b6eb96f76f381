/* Attaches files to free loop devices. LOOP_CTL_GET_FREE is racy: another process may take the device
 * first, so EBUSY is tried again. */
#include "boxd/image/loop_device.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>

#include "base/cleanup.h"

#define CONFIGURE_TRIES 64

int box_loop_device_open(const char *name)
{
	char path[300];
	(void)snprintf(path, sizeof(path), "/dev/%s", name);
	return open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
}

/* Another process may take a free device first. */
int box_loop_device_attach(int file, bool read_only, int *ret_loop)
{
	_cleanup_(box_close_p) int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	struct loop_config config = {
		.fd = (uint32_t)file,
		.block_size = 0,
		.info = {.lo_flags = LO_FLAGS_AUTOCLEAR | (read_only ? LO_FLAGS_READ_ONLY : 0U)},
	};
	if (control < 0) {
		return -errno;
	}
	for (int i = 0; i < CONFIGURE_TRIES; i++) {
		char name[32];
		int number = ioctl(control, LOOP_CTL_GET_FREE);
		if (number < 0) {
			return -errno;
		}
		(void)snprintf(name, sizeof(name), "loop%d", number);
		_cleanup_(box_close_p) int loop = box_loop_device_open(name);
		if (loop < 0) {
			return -errno;
		}
		if (ioctl(loop, LOOP_CONFIGURE, &config) == 0) {
			*ret_loop = TAKE_FD(loop);
			return 0;
		}
		if (errno != EBUSY) {
			return -errno;
		}
	}
	return -EBUSY;
}
