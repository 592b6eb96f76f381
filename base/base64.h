/* Base64 of RFC 4648, the standard alphabet with padding. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/value.h"

struct box_buf;

/* Appends the text of the bytes. 0 or -EMSGSIZE. */
int box_base64_encode(struct box_buf *out, const void *bytes, size_t len);

/* Decodes the whole text into `out` and returns the number of bytes. Strict: -EBADMSG for white space,
 * missing padding, invalid characters or non-zero unused bits; -EMSGSIZE when `room` is too small.
 * After an error the content of `out` is undefined. */
ssize_t box_base64_decode(struct box_str text, void *out, size_t room);
