/* Makes untrusted texts safe for a terminal: without control characters, and within a number of columns. Pure. */
#pragma once

#include <stddef.h>

#include "base/buf.h"
#include "base/value.h"

#define BOX_SAFE_TEXT_WHOLE ((size_t)-1)

/* Appends the text as one line of at most `columns`, with "..." at its end where it was cut: white space becomes
 * one space, control characters "?". Gives the columns that it takes. */
size_t box_safe_text_line(struct box_buf *out, struct box_str text, size_t columns);

/* The same, but keeps line ends and tabs, and cuts nothing. */
void box_safe_text_lines(struct box_buf *out, struct box_str text);

/* Runtimes put the tenant and generation before the name of a session ("ws-...-g1-work" for "work"). Removes
 * these prefixes from the text, in place. */
void box_safe_text_own_names(char *text);
