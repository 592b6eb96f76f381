/* Finds runs of characters in a JSON string that need no escape. Used by the decoder and the encoder. */
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

#define BOX_JSON_STEP 16 /* bytes compared, and copied, at a time */

/* A bit for each byte that needs an escape. */
static inline unsigned box_json_hits(__m128i bytes)
{
	const __m128i last_control = _mm_set1_epi8(0x1f);
	/* min(byte, 0x1f) == byte is an unsigned byte <= 0x1f. */
	__m128i hit = _mm_cmpeq_epi8(_mm_min_epu8(bytes, last_control), bytes);
	hit = _mm_or_si128(hit, _mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')));
	hit = _mm_or_si128(hit, _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\')));
	return (unsigned)_mm_movemask_epi8(hit);
}

/* Length of the run at `p` without quote, backslash or control character. */
static inline size_t box_json_plain_run(const char *p, const char *end)
{
	const char *start = p;
	while (end - p >= BOX_JSON_STEP) {
		unsigned hits = box_json_hits(_mm_loadu_si128((const __m128i *)(const void *)p));
		if (hits != 0) {
			return (size_t)(p - start) + (size_t)__builtin_ctz(hits);
		}
		p += BOX_JSON_STEP;
	}
	while (p < end && box_json_is_plain(*p)) {
		p++;
	}
	return (size_t)(p - start);
}

/* The same run, copied to `to` on the way. Up to BOX_JSON_STEP bytes after the run may be written too,
 * but never more in all than there are up to `end`. The two may overlap when `to` is at least
 * BOX_JSON_STEP before `p`. */
static inline size_t box_json_copy_run(char *to, const char *p, const char *end)
{
	const char *start = p;
	while (end - p >= BOX_JSON_STEP) {
		__m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)p);
		_mm_storeu_si128((__m128i *)(void *)to, bytes);
		unsigned hits = box_json_hits(bytes);
		if (hits != 0) {
			return (size_t)(p - start) + (size_t)__builtin_ctz(hits);
		}
		p += BOX_JSON_STEP;
		to += BOX_JSON_STEP;
	}
	while (p < end && box_json_is_plain(*p)) {
		*to++ = *p++;
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
		/* A borrow can set a wrong bit only after a byte whose bit is set correctly. */
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

#define BOX_JSON_STEP 8

/* The same in two passes. */
static inline size_t box_json_copy_run(char *to, const char *p, const char *end)
{
	size_t run = box_json_plain_run(p, end);
	memmove(to, p, run);
	return run;
}

#endif
