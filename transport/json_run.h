/* The run of characters that stand for themselves in a JSON string; shared by both directions. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Length of the run at `p` without quote, backslash or control character. */
static inline size_t box_json_plain_run(const char *p, const char *end)
{
	const uint64_t ones = 0x0101010101010101ULL;
	const char *start = p;
	uint64_t word;
	while (end - p >= (ptrdiff_t)sizeof(word)) {
		memcpy(&word, p, sizeof(word));
		uint64_t quote = word ^ ones * '"';
		uint64_t backslash = word ^ ones * '\\';
		/* A borrow can only flag a byte behind one that is flagged rightly. */
		uint64_t hit = ((quote - ones) & ~quote) | ((backslash - ones) & ~backslash) |
			((word - ones * 0x20) & ~word);
		if (hit & (ones * 0x80)) {
			break;
		}
		p += sizeof(word);
	}
	while (p < end && *p != '"' && *p != '\\' && (unsigned char)*p >= 0x20) {
		p++;
	}
	return (size_t)(p - start);
}
