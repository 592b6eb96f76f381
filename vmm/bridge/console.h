/* The end of what a guest's console said, as a person may read it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"

struct box_console {
	char bytes[BOX_VMM_CONSOLE_BYTES];
	uint64_t total; /* that ever came */
};

/* Takes bytes as they come; of all of them the last BOX_VMM_CONSOLE_BYTES are kept. */
void box_console_add(struct box_console *console, const char *bytes, size_t size);

/* What comes next is a line of its own. */
void box_console_end_line(struct box_console *console);

/* Writes the last whole lines that fit into `size` bytes with their NUL; one line alone that does not
 * fit is cut at its beginning. What is neither printable ASCII nor a line feed becomes a question
 * mark, or nothing where it is a carriage return. */
void box_console_text(const struct box_console *console, char *text, size_t size);
