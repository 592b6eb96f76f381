/* UTF-8, by the table of well-formed byte sequences in the Unicode standard. */
#include "base/utf8.h"

#include <string.h>

#define HIGH_BITS 0x8080808080808080ULL
#define BLOCK 32

/* Length of the well-formed sequence at p (which starts with a byte >= 0x80), or 0 if malformed. */
static size_t sequence_length(const unsigned char *p, const unsigned char *end)
{
	size_t left = (size_t)(end - p);
	if (p[0] >= 0xc2 && p[0] <= 0xdf) {
		return left >= 2 && (p[1] & 0xc0) == 0x80 ? 2 : 0;
	}
	if (p[0] >= 0xe0 && p[0] <= 0xef) {
		if (left < 3 || (p[1] & 0xc0) != 0x80 || (p[2] & 0xc0) != 0x80) {
			return 0;
		}
		bool overlong = p[0] == 0xe0 && p[1] < 0xa0;
		bool surrogate = p[0] == 0xed && p[1] > 0x9f;
		return overlong || surrogate ? 0 : 3;
	}
	if (p[0] >= 0xf0 && p[0] <= 0xf4) {
		if (left < 4 || (p[1] & 0xc0) != 0x80 || (p[2] & 0xc0) != 0x80 ||
			(p[3] & 0xc0) != 0x80) {
			return 0;
		}
		bool overlong = p[0] == 0xf0 && p[1] < 0x90;
		bool too_high = p[0] == 0xf4 && p[1] > 0x8f;
		return overlong || too_high ? 0 : 4;
	}
	return 0;
}

/* Skips ASCII block by block; stops at the first block that is not all ASCII, or near the end. */
static const unsigned char *skip_ascii(const unsigned char *p, const unsigned char *end)
{
	uint64_t words[BLOCK / sizeof(uint64_t)];
	while (end - p >= BLOCK) {
		memcpy(words, p, BLOCK);
		if ((words[0] | words[1] | words[2] | words[3]) & HIGH_BITS) {
			break;
		}
		p += BLOCK;
	}
	return p;
}

bool box_utf8_valid(const char *bytes, size_t len)
{
	if (len == 0) {
		return true;
	}
	const unsigned char *p = (const unsigned char *)bytes;
	const unsigned char *end = p + len;
	while ((p = skip_ascii(p, end)) < end) {
		/* Checks one block byte by byte before trying the fast path again. */
		const unsigned char *stop = end - p < BLOCK ? end : p + BLOCK;
		while (p < stop) {
			size_t sequence = *p < 0x80 ? 1 : sequence_length(p, end);
			if (sequence == 0) {
				return false;
			}
			p += sequence;
		}
	}
	return true;
}

size_t box_utf8_floor(const char *bytes, size_t len)
{
	size_t at = len;
	for (int back = 0; back < 4 && at > 0; back++) {
		unsigned char c = (unsigned char)bytes[at - 1];
		if (c < 0x80) {
			return len;
		}
		if (c >= 0xc0) {
			size_t need = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
			return at - 1 + need <= len ? len : at - 1;
		}
		at--;
	}
	return len;
}

size_t box_utf8_prefix(const char *bytes, size_t len, size_t characters)
{
	for (size_t i = 0; i < len; i++) {
		bool starts = ((unsigned char)bytes[i] & 0xc0) != 0x80;
		if (starts && characters-- == 0) {
			return i;
		}
	}
	return len;
}

size_t box_utf8_put(char *out, uint32_t code_point)
{
	if (code_point < 0x80) {
		out[0] = (char)code_point;
		return 1;
	}
	if (code_point < 0x800) {
		out[0] = (char)(0xc0 | (code_point >> 6));
		out[1] = (char)(0x80 | (code_point & 0x3f));
		return 2;
	}
	if (code_point < 0x10000) {
		out[0] = (char)(0xe0 | (code_point >> 12));
		out[1] = (char)(0x80 | ((code_point >> 6) & 0x3f));
		out[2] = (char)(0x80 | (code_point & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | (code_point >> 18));
	out[1] = (char)(0x80 | ((code_point >> 12) & 0x3f));
	out[2] = (char)(0x80 | ((code_point >> 6) & 0x3f));
	out[3] = (char)(0x80 | (code_point & 0x3f));
	return 4;
}
