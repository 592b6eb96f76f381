/* Texts of strangers as a terminal may have them: they take the place that they are given, and steer
 * nothing. Pure. */
#pragma once

#include <stddef.h>

#include "base/buf.h"
#include "base/value.h"

#define BOX_SAFE_TEXT_WHOLE ((size_t)-1)

/* Appends the text as one line of at most `columns`, "..." at its end where it was cut: white space
 * becomes one space, other controls "?". Gives the columns that it takes. */
size_t box_safe_text_line(struct box_buf *out, struct box_str text, size_t columns);

/* Appends it with its lines and tabs as they are. */
void box_safe_text_lines(struct box_buf *out, struct box_str text);

/* Runtimes name a session with its tenant and generation before it ("ws-...-g1-work"); people have
 * called it "work". Takes the rest out of the text, in its place. */
void box_safe_text_own_names(char *text);
