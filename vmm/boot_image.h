/* The boot file of a microVM: what boxd wrote of it, and what goes to the guest. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "protocol/microvm.h"

struct box_boot_image {
	struct box_init_boot guest;
	struct box_microvm_boot machine;
	char *bytes; /* the file, and room for the order behind it */
	size_t size; /* of both */
};

/* Reads all of a file. 0, -EBADMSG for one that is no boot file of a microVM, or another -errno. */
int box_boot_image_read(int fd, struct box_boot_image *ret_image);

/* Says what was ordered, and when. */
void box_boot_image_add_order(struct box_boot_image *image, uint32_t order, uint64_t realtime_ns);

void box_boot_image_free(struct box_boot_image *image);
