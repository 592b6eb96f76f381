/* The run of characters that stand for themselves in a JSON string; shared by both directions. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

static inline int box_json_is_plain(char c)
{
	return c != '"' && c != '\\' && (unsigned char)c >= 0x20;
}

#ifdef __SSE2__

/* Length of the run at `p` without quote, backslash or control character. */
static inline size_t box_json_plain_run(const char *p, const char *end)
{
	const __m128i quote = _mm_set1_epi8('"');
	const __m128i backslash = _mm_set1_epi8('\\');
	const __m128i last_control = _mm_set1_epi8(0x1f);
	const char *start = p;
	while (end - p >= (ptrdiff_t)sizeof(__m128i)) {
		__m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)p);
		/* min(byte, 0x1f) == byte is an unsigned byte <= 0x1f. */
		__m128i control = _mm_cmpeq_epi8(_mm_min_epu8(bytes, last_control), bytes);
		__m128i hit = _mm_or_si128(control,
			_mm_or_si128(
				_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, backslash)));
		unsigned mask = (unsigned)_mm_movemask_epi8(hit);
		if (mask != 0) {
			return (size_t)(p - start) + (size_t)__builtin_ctz(mask);
		}
		p += sizeof(__m128i);
	}
	while (p < end && box_json_is_plain(*p)) {
		p++;
	}
	return (size_t)(p - start);
}

#else

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
	while (p < end && box_json_is_plain(*p)) {
		p++;
	}
	return (size_t)(p - start);
}

#endif
