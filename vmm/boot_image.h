/* The boot file of a microVM: read from boxd, completed, and given to the guest. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "protocol/microvm.h"

struct box_boot_image {
	struct box_init_boot guest;
	struct box_microvm_boot microvm;
	char *bytes; /* the file, then a struct box_microvm_order */
	size_t size; /* of both */
};

/* Reads and checks a boot file. 0, -EBADMSG if it is not valid, or another -errno. */
int box_boot_image_read(int fd, struct box_boot_image *ret_image);

/* Fills in the order and the time. */
void box_boot_image_add_order(struct box_boot_image *image, uint32_t order, uint64_t realtime_ns);

void box_boot_image_free(struct box_boot_image *image);
