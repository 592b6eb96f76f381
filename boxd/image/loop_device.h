/* Loop devices: a file as a block device. It goes with its last user. */
#pragma once

#include <stdbool.h>

/* Puts an opened file on a free one. 0 or -errno. */
int box_loop_device_attach(int file, bool read_only, int *ret_loop);
/* Opens one by its name in /dev: an fd, or -1 and errno. */
int box_loop_device_open(const char *name);
