/* Long output, cut for a reader that has little room. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/value.h"

struct box_arena;

/* The text itself when it has no more than chars_max characters (code points): false. Else its head
 * and its tail with a line between them that says how many characters are missing, together no more
 * than chars_max: true. A limit that has no room for that line leaves the start of the line, or
 * nothing. A character is never split. */
bool box_truncate(
	struct box_arena *arena, struct box_str text, size_t chars_max, struct box_str *ret_text);
