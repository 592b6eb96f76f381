/* Integers in messages: big-endian, unaligned. */
#pragma once

#include <stdint.h>

static inline void box_bytes_put_be64(char *to, uint64_t value)
{
	for (int i = 0; i < 8; i++) {
		to[i] = (char)(value >> (8 * (7 - i)));
	}
}

static inline uint64_t box_bytes_get_be64(const char *from)
{
	uint64_t value = 0;
	for (int i = 0; i < 8; i++) {
		value = value << 8 | (unsigned char)from[i];
	}
	return value;
}
