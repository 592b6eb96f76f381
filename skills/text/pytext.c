/* Implements Python's text rules; utf8proc knows the categories of Unicode. */
#include "skills/text/pytext.h"

#include <math.h>
#include <stdio.h>
#include <time.h>
#include <utf8proc.h>

#include "base/macros.h"

uint32_t box_pytext_next(struct box_str *rest)
{
	const unsigned char *p = (const unsigned char *)rest->bytes;
	size_t len = p[0] < 0x80 ? 1 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	uint32_t c = len == 1 ? p[0] : p[0] & (0x7fU >> len);
	for (size_t i = 1; i < len && i < rest->len; i++) {
		c = c << 6 | (p[i] & 0x3fU);
	}
	len = BOX_MIN(len, rest->len);
	rest->bytes += len;
	rest->len -= len;
	return c;
}

size_t box_pytext_length(struct box_str text)
{
	size_t count = 0;
	for (size_t i = 0; i < text.len; i++) {
		count += ((unsigned char)text.bytes[i] & 0xc0) != 0x80;
	}
	return count;
}

bool box_pytext_is_space(uint32_t c)
{
	return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 ||
		c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
		c == 0x202f || c == 0x205f || c == 0x3000;
}

bool box_pytext_is_letter_or_digit(uint32_t c)
{
	if (c < 0x80) {
		return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
	}
	switch (utf8proc_category((utf8proc_int32_t)c)) {
	case UTF8PROC_CATEGORY_LU:
	case UTF8PROC_CATEGORY_LL:
	case UTF8PROC_CATEGORY_LT:
	case UTF8PROC_CATEGORY_LM:
	case UTF8PROC_CATEGORY_LO:
	case UTF8PROC_CATEGORY_ND:
	case UTF8PROC_CATEGORY_NL:
	case UTF8PROC_CATEGORY_NO:
		return true;
	default:
		return false;
	}
}

struct box_str box_pytext_strip(struct box_str text)
{
	struct box_str rest = text;
	while (rest.len > 0 && box_pytext_is_space(box_pytext_next(&rest))) {
		text = rest;
	}
	while (text.len > 0) {
		size_t at = text.len - 1;
		while (at > 0 && ((unsigned char)text.bytes[at] & 0xc0) == 0x80) {
			at--;
		}
		struct box_str last = {text.bytes + at, text.len - at};
		if (!box_pytext_is_space(box_pytext_next(&last))) {
			break;
		}
		text.len = at;
	}
	return text;
}

static bool is_line_end(uint32_t c)
{
	return (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 ||
		c == 0x2029;
}

struct box_str box_pytext_line(struct box_str *rest)
{
	struct box_str line = {rest->bytes, 0};
	while (rest->len > 0) {
		uint32_t c = box_pytext_next(rest);
		if (c == '\r' && rest->len > 0 && rest->bytes[0] == '\n') {
			(void)box_pytext_next(rest);
		}
		if (is_line_end(c)) {
			break;
		}
	}
	line.len = (size_t)(rest->bytes - line.bytes);
	return line;
}

/* -- times ------------------------------------------------------------------------------------ */

bool box_pytext_isoformat(int64_t sec, uint32_t nsec, char out[BOX_PYTEXT_ISOFORMAT_SIZE])
{
	/* Python keeps the time as a float, which cannot hold nanoseconds: the microseconds are what is
	 * left after rounding twice. */
	double stamp = (double)sec + 1e-9 * nsec;
	double whole = 0;
	double micros = nearbyint(modf(stamp, &whole) * 1e6);
	if (micros >= 1e6) {
		micros -= 1e6;
		whole += 1;
	} else if (micros < 0) {
		micros += 1e6;
		whole -= 1;
	}
	time_t seconds = (time_t)whole;
	struct tm tm;
	if (!gmtime_r(&seconds, &tm) || tm.tm_year < 1 - 1900 || tm.tm_year > 9999 - 1900) {
		return false;
	}
	int len = snprintf(out, BOX_PYTEXT_ISOFORMAT_SIZE, "%04d-%02d-%02dT%02d:%02d:%02d",
		tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec);
	if (micros > 0) {
		len += snprintf(
			out + len, BOX_PYTEXT_ISOFORMAT_SIZE - (size_t)len, ".%06d", (int)micros);
	}
	(void)snprintf(out + len, BOX_PYTEXT_ISOFORMAT_SIZE - (size_t)len, "+00:00");
	return true;
}

/* -- values ----------------------------------------------------------------------------------- */

const char *box_pytext_type_name(enum box_type type)
{
	switch (type) {
	case BOX_NULL:
		return "NoneType";
	case BOX_MAP:
		return "dict";
	default:
		return box_type_name(type); /* all others have the same name in Python */
	}
}

bool box_pytext_is_true(const struct box_value *value)
{
	switch (value->type) {
	case BOX_NULL:
		return false;
	case BOX_BOOL:
		return value->boolean;
	case BOX_INT:
		return value->integer != 0;
	case BOX_REAL:
		return value->real != 0;
	case BOX_STR:
	case BOX_BIN:
		return value->str.len > 0;
	default:
		return value->count > 0;
	}
}
