/* The end of the guest's console output, made printable. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"

struct box_console {
	char bytes[BOX_VMM_CONSOLE_BYTES];
	uint64_t total; /* how many bytes were ever added */
};

/* Adds bytes; the last BOX_VMM_CONSOLE_BYTES of all are kept. */
void box_console_add(struct box_console *console, const char *bytes, size_t size);

/* Ends the current line, if there is one. */
void box_console_end_line(struct box_console *console);

/* Writes the last complete lines that fit into `size` bytes with a NUL; a single line that does not fit is cut at its
 * beginning. Carriage returns are removed; other bytes that are neither printable ASCII nor line feeds become question
 * marks. */
void box_console_text(const struct box_console *console, char *text, size_t size);
