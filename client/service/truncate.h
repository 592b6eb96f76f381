/* Cuts long output for a reader with limited room, such as a language model. Pure. For service_spec.c. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/value.h"

struct box_arena;

/* False and the text itself if it has no more than chars_max characters (code points). Otherwise true and its
 * head and tail with a line between them that says how many characters are missing, together no more than
 * chars_max. If the limit is too small for that line, only its start is returned, or nothing. A character is
 * never split. */
bool box_truncate(
	struct box_arena *arena, struct box_str text, size_t chars_max, struct box_str *ret_text);
