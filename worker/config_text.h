/* Converts a configuration text (YAML, which includes JSON) into a value tree, with libyaml. For settings.c.
 *
 * Aliases, tags, several documents and duplicate keys are refused; depth and number of values are limited as
 * in messages. Plain scalars follow the YAML 1.2 core schema (null, true, false, numbers).
 */
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "base/value.h"

struct box_arena;

/* 0, or -EINVAL with a text that begins with line and column ("3:5: ..."). An empty text is an empty map; a
 * document that is not a map is refused. */
int box_config_text_parse(struct box_arena *arena, const char *text, size_t len,
	struct box_value *ret_map, struct box_err *err);

/* The line of the member "a.b.c" in the text, 0 if it is not found: for errors about a value's
 * position. */
size_t box_config_text_line(const char *text, size_t len, const char *dotted_key);
