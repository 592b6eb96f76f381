/* What is said of a microVM that ends by itself, after it was ready. Pure. */
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
	enum box_microvm_end_cause ended; /* of the processes of the box, the first */
	int status;                       /* of it, as waitpid has it */
	int errnum;                       /* of what ended the bridge's work otherwise, or 0 */
};

/* One line of printable ASCII, with the last of the guest's console. */
void box_microvm_end_format(const struct box_microvm_end *words, const struct box_console *console,
	char *text, size_t size);
