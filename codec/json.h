/* JSON text <-> value tree. */
#pragma once

#include <stddef.h>

#include "base/value.h"

struct box_arena;
struct box_buf;

/* Decodes one JSON document. The text is modified (strings are unescaped in place) and must live as
 * long as the tree, which points into it. Returns 0; -EILSEQ for invalid UTF-8; -EBADMSG for invalid
 * JSON and duplicate keys in a map; -E2BIG when it is nested deeper than BOX_MESSAGE_DEPTH_MAX or has
 * more than BOX_MESSAGE_VALUES_MAX values; with a reason for the log in *ret_why. An escaped lone
 * surrogate becomes U+FFFD; an integer that does not fit 64 bits becomes a float. */
int box_json_decode(struct box_arena *arena, char *text, size_t len, struct box_value *ret_value,
	const char **ret_why);

/* Appends the document without white space. Bin becomes base64. 0 or -EMSGSIZE. */
int box_json_encode(struct box_buf *out, const struct box_value *value);

/* Appends a quoted, escaped string. */
int box_json_encode_str(struct box_buf *out, struct box_str str);
