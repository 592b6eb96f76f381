/* Text by Python's rules. The reference is written in Python, and what it answers shows it. */
#include "skills/text/pytext.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/macros.h"
#include "skills/text/letters.h"

#define REAL_DIGITS_MAX 17 /* always enough to read the same double again */

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

/* Assigned characters that have no form of their own. Those not assigned count as printable: which
 * they are depends on the version of Unicode. */
bool box_pytext_is_printable(uint32_t c)
{
	static const uint32_t hidden[][2] = {{0x0, 0x1f}, {0x7f, 0xa0}, {0xad, 0xad},
		{0x600, 0x605}, {0x61c, 0x61c}, {0x6dd, 0x6dd}, {0x70f, 0x70f}, {0x890, 0x891},
		{0x8e2, 0x8e2}, {0x1680, 0x1680}, {0x180e, 0x180e}, {0x2000, 0x200f},
		{0x2028, 0x202f}, {0x205f, 0x206f}, {0x3000, 0x3000}, {0xd800, 0xf8ff},
		{0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0x110bd, 0x110bd}, {0x110cd, 0x110cd},
		{0x13430, 0x13438}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0001, 0xe0001},
		{0xe0020, 0xe007f}, {0xf0000, 0xffffd}, {0x100000, 0x10fffd}};
	for (size_t i = 0; i < BOX_COUNT_OF(hidden); i++) {
		if (c >= hidden[i][0] && c <= hidden[i][1]) {
			return false;
		}
	}
	return true;
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

bool box_pytext_is_alnum(struct box_str text)
{
	if (text.len == 0) {
		return false;
	}
	while (text.len > 0) {
		if (!box_pytext_is_letter_or_digit(box_pytext_next(&text))) {
			return false;
		}
	}
	return true;
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

/* -- repr() ----------------------------------------------------------------------------------- */

static int put_escaped(struct box_buf *out, uint32_t c)
{
	switch (c) {
	case '\t':
		return box_buf_append_str(out, "\\t");
	case '\n':
		return box_buf_append_str(out, "\\n");
	case '\r':
		return box_buf_append_str(out, "\\r");
	default:
		return box_buf_printf(out,
			c > 0xffff         ? "\\U%08x"
				: c > 0xff ? "\\u%04x"
					   : "\\x%02x",
			c);
	}
}

/* Single quotes, unless the text has those and no double ones. */
static char quote_for(struct box_str text)
{
	bool single = text.len > 0 && memchr(text.bytes, '\'', text.len);
	bool both = single && memchr(text.bytes, '"', text.len);
	return single && !both ? '"' : '\'';
}

static int repr(struct box_buf *out, struct box_str text, bool is_bytes)
{
	char quote = quote_for(text);
	int r = box_buf_append(out, &quote, 1);
	while (text.len > 0 && r == 0) {
		const char *start = text.bytes;
		uint32_t c = (unsigned char)*start;
		if (is_bytes) {
			text = (struct box_str){text.bytes + 1, text.len - 1};
		} else {
			c = box_pytext_next(&text);
		}
		if (c == (uint32_t)quote || c == '\\') {
			r = box_buf_printf(out, "\\%c", (char)c);
		} else if (is_bytes ? c >= 0x20 && c < 0x7f : box_pytext_is_printable(c)) {
			r = box_buf_append(out, start, (size_t)(text.bytes - start));
		} else {
			r = put_escaped(out, c);
		}
	}
	return r < 0 ? r : box_buf_append(out, &quote, 1);
}

int box_pytext_repr_text(struct box_buf *out, struct box_str text)
{
	return repr(out, text, false);
}

int box_pytext_repr_bytes(struct box_buf *out, struct box_str bytes)
{
	int r = box_buf_append(out, "b", 1);
	return r < 0 ? r : repr(out, bytes, true);
}

/* The fewest digits that read as the same number, and the power of ten of the first one. */
static int shortest_digits(double real, char digits[REAL_DIGITS_MAX + 1])
{
	char text[40];
	for (int count = 1; count <= REAL_DIGITS_MAX; count++) {
		(void)snprintf(text, sizeof(text), "%.*e", count - 1, real);
		if (count == REAL_DIGITS_MAX || strtod(text, NULL) == real) {
			break;
		}
	}
	size_t len = 0;
	const char *p = text;
	for (; *p != 'e'; p++) {
		if (*p != '.') {
			digits[len++] = *p;
		}
	}
	digits[len] = '\0';
	return (int)strtol(p + 1, NULL, 10);
}

int box_pytext_repr_real(struct box_buf *out, double real)
{
	if (isnan(real)) {
		return box_buf_append_str(out, "nan");
	}
	const char *sign = signbit(real) ? "-" : "";
	if (isinf(real)) {
		return box_buf_printf(out, "%sinf", sign);
	}
	char digits[REAL_DIGITS_MAX + 1];
	int power = shortest_digits(fabs(real), digits);
	int count = (int)strlen(digits);
	if (power < -4 || power >= 16) {
		return box_buf_printf(out, "%s%c%s%se%c%02d", sign, digits[0], count > 1 ? "." : "",
			digits + 1, power < 0 ? '-' : '+', abs(power));
	}
	if (power < 0) {
		return box_buf_printf(out, "%s0.%.*s%s", sign, -power - 1, "000", digits);
	}
	if (count <= power + 1) {
		return box_buf_printf(
			out, "%s%s%.*s.0", sign, digits, power + 1 - count, "0000000000000000");
	}
	return box_buf_printf(out, "%s%.*s.%s", sign, power + 1, digits, digits + power + 1);
}

/* -- times ------------------------------------------------------------------------------------ */

bool box_pytext_isoformat(int64_t sec, uint32_t nsec, char out[BOX_PYTEXT_ISOFORMAT_SIZE])
{
	/* A float has no room for nanoseconds: the microsecond is what is left after rounding twice. */
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
		return box_type_name(type); /* the others are called what Python calls them */
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
