/* UTF-8: validation, and cutting without splitting a code point. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* True when the bytes are well-formed UTF-8 (no surrogates, no overlong forms, <= U+10FFFF). */
bool box_utf8_valid(const char *bytes, size_t len);

/* The longest length <= len at which `bytes` may be cut without splitting a code point. */
size_t box_utf8_floor(const char *bytes, size_t len);

/* The length of the first `characters` code points, or `len` when there are fewer. */
size_t box_utf8_prefix(const char *bytes, size_t len, size_t characters);

/* Writes a code point (<= U+10FFFF, no surrogate) as 1 to 4 bytes and returns how many. */
size_t box_utf8_put(char *out, uint32_t code_point);
