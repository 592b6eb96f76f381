/* A configuration text (YAML, of which JSON is a part) -> value tree, by libyaml.
 *
 * Aliases, tags, several documents and duplicate keys are refused; depth and values are bounded as
 * for messages. Plain scalars are read by the YAML 1.2 core schema (null, true, false, numbers).
 */
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "base/value.h"

struct box_arena;

/* 0, or -EINVAL with a text that begins with line and column ("3:5: ..."). An empty text
 * is an empty map; a document that is no map is refused. */
int box_config_text_parse(struct box_arena *arena, const char *text, size_t len,
	struct box_value *ret_map, struct box_err *err);

/* The line on which the member "a.b.c" of the text stands, 0 when it is not found: so that a wrong
 * value can be named with its place. */
size_t box_config_text_line(const char *text, size_t len, const char *dotted_key);
