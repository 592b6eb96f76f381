/* Which values count as an integer, a number, a boolean or a text.
 *
 * The forms are those of the reference's models: clients send what came from a form field or an
 * environment variable. Pure, no allocation, every text is read once.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/macros.h"
#include "base/utf8.h"
#include "runtime/spec/fields.h"

/* The longest text accepted as a number; sensible ones are far shorter. */
#define NUMBER_TEXT_MAX 400

#define NOT_INT "Input should be a valid integer"
#define NOT_INT_TEXT "Input should be a valid integer, unable to parse string as an integer"
#define INT_TOO_LARGE "Unable to parse input string as an integer, exceeded maximum size"
#define NOT_REAL "Input should be a valid number"
#define NOT_REAL_TEXT "Input should be a valid number, unable to parse string as a number"
#define NOT_FINITE "Input should be a finite number"
#define NOT_BOOL "Input should be a valid boolean"
#define NOT_BOOL_WORD "Input should be a valid boolean, unable to interpret input"

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

const char *box_fields_to_str(const struct box_value *value, struct box_str *ret_str)
{
	if (value->type == BOX_BIN && !box_utf8_valid(value->str.bytes, value->str.len)) {
		return "Input should be a valid string, unable to parse raw data as a unicode "
		       "string";
	}
	if (value->type != BOX_STR && value->type != BOX_BIN) {
		return "Input should be a valid string";
	}
	*ret_str = value->str;
	return NULL;
}

/* `.0`, `.00` after the digits: a whole number written as a float. */
static bool only_zero_fraction(const char *p, const char *end)
{
	if (p == end) {
		return true;
	}
	if (*p != '.' || p + 1 == end) {
		return false;
	}
	while (++p < end) {
		if (*p != '0') {
			return false;
		}
	}
	return true;
}

static const char *text_to_int(struct box_str text, int64_t *ret_integer)
{
	text = box_str_strip(text);
	if (text.len == 0) {
		return NOT_INT_TEXT;
	}
	const char *p = text.bytes;
	const char *end = p + text.len;
	bool negative = *p == '-';
	if (*p == '-' || *p == '+') {
		p++;
	}
	if (p == end || !is_digit(*p)) {
		return NOT_INT_TEXT;
	}
	/* Accumulated as a negative number, because that range is larger by one. */
	int64_t sum = 0;
	bool overflow = false;
	for (; p < end && (is_digit(*p) || *p == '_'); p++) {
		if (*p == '_') {
			if (p + 1 == end || !is_digit(p[1])) {
				return NOT_INT_TEXT;
			}
			continue;
		}
		overflow = overflow || __builtin_mul_overflow(sum, 10, &sum) ||
			__builtin_sub_overflow(sum, *p - '0', &sum);
	}
	if (!only_zero_fraction(p, end)) {
		return NOT_INT_TEXT;
	}
	if (overflow || (!negative && sum == INT64_MIN)) {
		return INT_TOO_LARGE;
	}
	*ret_integer = negative ? sum : -sum;
	return NULL;
}

static const char *real_to_int(double real, int64_t *ret_integer)
{
	if (!isfinite(real)) {
		return NOT_FINITE;
	}
	if (real != trunc(real)) {
		return NOT_INT ", got a number with a fractional part";
	}
	/* 2^63 is exact as a double, INT64_MAX is not. */
	if (real >= 0x1p63 || real <= -0x1p63) {
		return INT_TOO_LARGE;
	}
	*ret_integer = (int64_t)real;
	return NULL;
}

const char *box_fields_to_int(const struct box_value *value, int64_t *ret_integer)
{
	struct box_str text = {NULL, 0};
	switch (value->type) {
	case BOX_INT:
		*ret_integer = value->integer;
		return NULL;
	case BOX_BOOL:
		*ret_integer = value->boolean ? 1 : 0;
		return NULL;
	case BOX_REAL:
		return real_to_int(value->real, ret_integer);
	case BOX_STR:
	case BOX_BIN:
		return box_fields_to_str(value, &text) ? NOT_INT_TEXT
						       : text_to_int(text, ret_integer);
	default:
		return NOT_INT;
	}
}

/* Copies a number without its underscores, which may stand anywhere but first, last and twice. */
static bool without_underscores(struct box_str text, char *out)
{
	size_t len = 0;
	for (size_t i = 0; i < text.len; i++) {
		char c = text.bytes[i];
		if (c == '_') {
			if (i == 0 || i + 1 == text.len || text.bytes[i + 1] == '_') {
				return false;
			}
			continue;
		}
		out[len++] = c;
	}
	out[len] = '\0';
	return true;
}

static const char *skip_digits(const char *p, bool *seen)
{
	for (; is_digit(*p); p++) {
		*seen = true;
	}
	return p;
}

/* [+-] digits [. digits] [e [+-] digits], with a digit before or after the point: strtod accepts
 * more than that (hexadecimal, white space). */
static bool is_decimal(const char *p)
{
	bool digits = false;
	bool exponent = true;
	if (*p == '+' || *p == '-') {
		p++;
	}
	p = skip_digits(p, &digits);
	if (*p == '.') {
		p = skip_digits(p + 1, &digits);
	}
	if (*p == 'e' || *p == 'E') {
		exponent = false;
		p++;
		if (*p == '+' || *p == '-') {
			p++;
		}
		p = skip_digits(p, &exponent);
	}
	return digits && exponent && *p == '\0';
}

static bool names_no_finite(const char *p)
{
	if (*p == '+' || *p == '-') {
		p++;
	}
	return strcasecmp(p, "inf") == 0 || strcasecmp(p, "infinity") == 0 ||
		strcasecmp(p, "nan") == 0;
}

static const char *text_to_real(struct box_str text, double *ret_real)
{
	char copy[NUMBER_TEXT_MAX + 1];
	text = box_str_strip(text);
	if (text.len > NUMBER_TEXT_MAX || box_str_has_nul(text) ||
		!without_underscores(text, copy)) {
		return NOT_REAL_TEXT;
	}
	if (names_no_finite(copy)) {
		return NOT_FINITE;
	}
	if (!is_decimal(copy)) {
		return NOT_REAL_TEXT;
	}
	double real = strtod(copy, NULL);
	if (!isfinite(real)) {
		return NOT_FINITE;
	}
	*ret_real = real;
	return NULL;
}

const char *box_fields_to_real(const struct box_value *value, double *ret_real)
{
	struct box_str text = {NULL, 0};
	switch (value->type) {
	case BOX_INT:
		*ret_real = (double)value->integer;
		return NULL;
	case BOX_BOOL:
		*ret_real = value->boolean ? 1 : 0;
		return NULL;
	case BOX_REAL:
		/* The reference accepts these, after which every later spec conflicts with a NaN. */
		if (!isfinite(value->real)) {
			return NOT_FINITE;
		}
		*ret_real = value->real;
		return NULL;
	case BOX_STR:
	case BOX_BIN:
		return box_fields_to_str(value, &text) ? NOT_REAL_TEXT
						       : text_to_real(text, ret_real);
	default:
		return NOT_REAL;
	}
}

static const char *text_to_bool(struct box_str text, bool *ret_boolean)
{
	static const struct {
		const char *word;
		bool means;
	} words[] = {
		{"true", true},
		{"t", true},
		{"yes", true},
		{"y", true},
		{"on", true},
		{"1", true},
		{"false", false},
		{"f", false},
		{"no", false},
		{"n", false},
		{"off", false},
		{"0", false},
	};
	for (size_t i = 0; i < BOX_COUNT_OF(words); i++) {
		if (text.len == strlen(words[i].word) &&
			strncasecmp(text.bytes, words[i].word, text.len) == 0) {
			*ret_boolean = words[i].means;
			return NULL;
		}
	}
	return NOT_BOOL_WORD;
}

const char *box_fields_to_bool(const struct box_value *value, bool *ret_boolean)
{
	struct box_str text = {NULL, 0};
	int64_t integer = 0;
	switch (value->type) {
	case BOX_BOOL:
		*ret_boolean = value->boolean;
		return NULL;
	case BOX_INT:
	case BOX_REAL:
		if (box_fields_to_int(value, &integer)) {
			return NOT_BOOL;
		}
		if (integer != 0 && integer != 1) {
			return NOT_BOOL_WORD;
		}
		*ret_boolean = integer == 1;
		return NULL;
	case BOX_STR:
	case BOX_BIN:
		return box_fields_to_str(value, &text) ? NOT_BOOL_WORD
						       : text_to_bool(text, ret_boolean);
	default:
		return NOT_BOOL;
	}
}
