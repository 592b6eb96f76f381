/* What is said of a microVM that ends by itself, after it was ready. Pure. */
#pragma once

#include <stddef.h>

#include "runtime/vmm/console.h"

enum box_words_whom {
	BOX_WORDS_NOBODY,
	BOX_WORDS_MACHINE,
	BOX_WORDS_HANGER,
	BOX_WORDS_PASST,
};

struct box_words {
	enum box_words_whom ended; /* of the processes of the box, the first */
	int status;                /* of it, as waitpid has it */
	int errnum;                /* of what ended the bridge's work otherwise, or 0 */
};

/* One line of printable ASCII, with the last of the guest's console. */
void box_words_make(
	const struct box_words *words, const struct box_console *console, char *text, size_t size);
