/* Owns a ring of console output. A guest can write any bytes, and people read them in a terminal, so only
 * printable text may get out. Pure. Called by bridge.c and microvm_end.c. */
#include "vmm/bridge/console.h"

#include <stdbool.h>
#include <string.h>

#include "base/macros.h"

void box_console_add(struct box_console *console, const char *bytes, size_t size)
{
	if (size > sizeof(console->bytes)) {
		console->total += size - sizeof(console->bytes);
		bytes += size - sizeof(console->bytes);
		size = sizeof(console->bytes);
	}
	size_t at = console->total % sizeof(console->bytes);
	size_t first = sizeof(console->bytes) - at;
	first = BOX_MIN(size, first);
	memcpy(console->bytes + at, bytes, first);
	memcpy(console->bytes, bytes + first, size - first);
	console->total += size;
}

void box_console_end_line(struct box_console *console)
{
	uint64_t total = console->total;
	if (total > 0 && console->bytes[(total - 1) % sizeof(console->bytes)] != '\n') {
		box_console_add(console, "\n", 1);
	}
}

/* The character shown for a byte, or NUL for none. */
static char printable(char byte)
{
	if (byte == '\r') {
		return '\0';
	}
	return byte == '\n' || (byte >= ' ' && byte <= '~') ? byte : '?';
}

/* Copies all that is kept, in order. Returns its length. */
static size_t copy_ring(const struct box_console *console, char *text)
{
	bool wrapped = console->total > sizeof(console->bytes);
	uint64_t from = wrapped ? console->total - sizeof(console->bytes) : 0;
	size_t len = 0;
	for (uint64_t at = from; at < console->total; at++) {
		char c = printable(console->bytes[at % sizeof(console->bytes)]);
		if (c != '\0') {
			text[len++] = c;
		}
	}
	return len;
}

void box_console_text(const struct box_console *console, char *text, size_t size)
{
	char all[sizeof(console->bytes)];
	size_t len = copy_ring(console, all);
	bool cut = console->total > sizeof(console->bytes);
	while (len > 0 && all[len - 1] == '\n') {
		len--;
	}
	size_t start = 0;
	if (len > size - 1) {
		start = len - (size - 1);
		cut = all[start - 1] != '\n';
	}
	/* The first line is incomplete. */
	const char *next = cut ? memchr(all + start, '\n', len - start) : NULL;
	if (next) {
		start = (size_t)(next - all) + 1;
	}
	memcpy(text, all + start, len - start);
	text[len - start] = '\0';
}
