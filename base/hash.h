/* SHA-256, and bytes as hexadecimal digits. */
#pragma once

#include <stddef.h>

#include "base/value.h"

#define BOX_HASH_SHA256_BYTES 32

void box_hash_sha256(const void *bytes, size_t len, unsigned char out[BOX_HASH_SHA256_BYTES]);

/* The hash of the concatenation of all parts. */
void box_hash_sha256_parts(
	const struct box_str *parts, size_t count, unsigned char out[BOX_HASH_SHA256_BYTES]);

/* Writes 2 * len lower-case digits and a NUL. */
void box_hash_hex(const void *bytes, size_t len, char *out);
