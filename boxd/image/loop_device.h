/* Loop devices: a file as a block device, which is freed with its last user. Called by image_file.c and
 * boxd/quota. */
#pragma once

#include <stdbool.h>

/* Attaches an opened file to a free device. 0 or -errno. */
int box_loop_device_attach(int file, bool read_only, int *ret_loop);
/* Opens a device by its name in /dev: an fd, or -1 and errno. */
int box_loop_device_open(const char *name);
