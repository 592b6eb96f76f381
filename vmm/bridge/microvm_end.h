/* The message about a microVM that ended unexpectedly after it was ready. Pure. */
#pragma once

#include <stddef.h>

#include "vmm/bridge/console.h"

enum box_microvm_end_cause {
	BOX_MICROVM_END_NOBODY,
	BOX_MICROVM_END_MICROVM,
	BOX_MICROVM_END_MOUNT_HELPER,
	BOX_MICROVM_END_PASST,
};

struct box_microvm_end {
	enum box_microvm_end_cause ended; /* the first process of the box that has ended */
	int status;                       /* its wait status */
	int errnum;                       /* otherwise, the error that ended the bridge, or 0 */
};

/* Writes one line of printable ASCII, including the end of the guest's console. */
void box_microvm_end_format(const struct box_microvm_end *end, const struct box_console *console,
	char *text, size_t size);
