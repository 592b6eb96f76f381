/* The boot file of a microVM: what boxd wrote of it, and what goes to the guest. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "runtime/guest/machine.h"

struct box_image {
	struct box_guest_boot guest;
	struct box_machine_boot machine;
	char *bytes; /* the file, and room for the order behind it */
	size_t size; /* of both */
};

/* Reads all of a file. 0, -EBADMSG for one that is no boot file of a microVM, or another -errno. */
int box_image_read(int fd, struct box_image *ret_image);

/* Says what was ordered, and when. */
void box_image_order(struct box_image *image, uint32_t order, uint64_t realtime_ns);

void box_image_free(struct box_image *image);
