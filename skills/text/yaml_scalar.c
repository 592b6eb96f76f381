/* Plain scalars: which type PyYAML's resolver (YAML 1.1) gives them, and what str() says of the value.
 * The writer asks here too, because text that would be read as something else must be quoted.
 */
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/macros.h"
#include "skills/text/pytext.h"
#include "skills/text/yaml.h"

#define DIGITS "0123456789"
#define LONGEST_NUMBER 128 /* digits of what is computed with; longer decimals are only copied */

static bool is_one_of(struct box_str text, const char *const *words)
{
	for (; *words; words++) {
		if (box_str_eq(text, *words)) {
			return true;
		}
	}
	return false;
}

/* Takes off what is in `set`; how many that were. */
static size_t take(struct box_str *rest, const char *set)
{
	size_t len = 0;
	while (len < rest->len && rest->bytes[len] != '\0' && strchr(set, rest->bytes[len])) {
		len++;
	}
	rest->bytes += len;
	rest->len -= len;
	return len;
}

static bool take_one(struct box_str *rest, const char *set)
{
	struct box_str first = {rest->bytes, rest->len < 1 ? rest->len : 1};
	if (take(&first, set) == 0) {
		return false;
	}
	rest->bytes++;
	rest->len--;
	return true;
}

/* (?::[0-5]?[0-9])+ */
static bool take_sixties(struct box_str *rest)
{
	bool any = false;
	while (rest->len > 1 && rest->bytes[0] == ':') {
		struct box_str part = {rest->bytes + 1, rest->len - 1};
		struct box_str two = part;
		if (take_one(&two, "012345") && take_one(&two, DIGITS)) {
			part = two;
		} else if (!take_one(&part, DIGITS)) {
			break;
		}
		*rest = part;
		any = true;
	}
	return any;
}

static bool take_exponent(struct box_str *rest)
{
	return rest->len == 0 ||
		(take_one(rest, "eE") && take_one(rest, "-+") && take(rest, DIGITS) > 0);
}

static bool is_real(struct box_str text)
{
	static const char *const inf_words[] = {".inf", ".Inf", ".INF", NULL};
	static const char *const nan_words[] = {".nan", ".NaN", ".NAN", NULL};
	struct box_str rest = text;
	if (is_one_of(text, nan_words)) {
		return true;
	}
	bool is_signed = take_one(&rest, "-+");
	if (is_one_of(rest, inf_words)) {
		return true;
	}
	if (take_one(&rest, ".")) {
		return !is_signed && take_one(&rest, DIGITS) && (take(&rest, DIGITS "_"), true) &&
			take_exponent(&rest) && rest.len == 0;
	}
	if (!take_one(&rest, DIGITS)) {
		return false;
	}
	(void)take(&rest, DIGITS "_");
	bool sixties = take_sixties(&rest);
	if (!take_one(&rest, ".")) {
		return false;
	}
	(void)take(&rest, DIGITS "_");
	return sixties ? rest.len == 0 : take_exponent(&rest) && rest.len == 0;
}

static bool is_int(struct box_str text)
{
	struct box_str rest = text;
	(void)take_one(&rest, "-+");
	if (take_one(&rest, "0")) {
		if (rest.len == 0) {
			return true;
		}
		const char *set = take_one(&rest, "b") ? "01_"
			: take_one(&rest, "x")         ? DIGITS "abcdefABCDEF_"
						       : "01234567_";
		return take(&rest, set) > 0 && rest.len == 0;
	}
	if (!take_one(&rest, "123456789")) {
		return false;
	}
	(void)take(&rest, DIGITS "_");
	return rest.len == 0 || (take_sixties(&rest) && rest.len == 0);
}

enum box_yaml_type box_yaml_type_of(struct box_str plain)
{
	static const char *const null_words[] = {"", "~", "null", "Null", "NULL", NULL};
	static const char *const bool_words[] = {"yes", "Yes", "YES", "no", "No", "NO", "true",
		"True", "TRUE", "false", "False", "FALSE", "on", "On", "ON", "off", "Off", "OFF",
		NULL};
	/* Most are text, and are seen to be so by their first character. */
	if (plain.len > 0 && !strchr("~nNyYtTfFoO<=+-." DIGITS, plain.bytes[0])) {
		return BOX_YAML_TEXT;
	}
	if (is_one_of(plain, null_words)) {
		return BOX_YAML_NULL;
	}
	if (is_one_of(plain, bool_words)) {
		return BOX_YAML_BOOL;
	}
	if (box_str_eq(plain, "<<")) {
		return BOX_YAML_MERGE;
	}
	if (box_str_eq(plain, "=")) {
		return BOX_YAML_VALUE;
	}
	if (is_real(plain)) {
		return BOX_YAML_REAL;
	}
	if (is_int(plain)) {
		return BOX_YAML_INT;
	}
	return box_yaml_is_time(plain) ? BOX_YAML_TIME : BOX_YAML_TEXT;
}

/* -- values ----------------------------------------------------------------------------------- */

/* Without underscores and sign, as a C string. */
static char *bare_number(struct box_arena *arena, struct box_str text, bool *ret_negative)
{
	char *bare = box_arena_bytes(arena, text.len + 1);
	size_t len = 0;
	*ret_negative = text.bytes[0] == '-';
	for (size_t i = *ret_negative || text.bytes[0] == '+'; i < text.len; i++) {
		if (text.bytes[i] != '_') {
			bare[len++] = text.bytes[i];
		}
	}
	bare[len] = '\0';
	return bare;
}

static struct box_str printed_int(struct box_arena *arena, unsigned __int128 number, bool negative)
{
	char text[48];
	size_t at = sizeof(text) - 1;
	text[at] = '\0';
	do {
		text[--at] = (char)('0' + (int)(number % 10));
		number /= 10;
	} while (number > 0);
	if (negative) {
		text[--at] = '-';
	}
	size_t len = sizeof(text) - 1 - at;
	return (struct box_str){box_arena_strndup(arena, text + at, len), len};
}

/* Digits in a base, or parts of sixty. False when it does not fit. */
static bool read_digits(const char *digits, unsigned base, unsigned __int128 *ret_number)
{
	const unsigned __int128 most = ~(unsigned __int128)0 / 128;
	unsigned __int128 done = 0; /* parts before a colon */
	unsigned __int128 part = 0;
	for (; *digits; digits++) {
		if (*digits == ':') {
			done = (done + part) * 60;
			part = 0;
			continue;
		}
		int c = *digits | 0x20;
		part = part * base + (unsigned)(c >= 'a' ? c - 'a' + 10 : *digits - '0');
		if (part > most || done > most) {
			return false;
		}
	}
	*ret_number = done + part;
	return true;
}

static const char *int_scalar(struct box_arena *arena, struct box_str text, struct box_yaml *node)
{
	bool negative = false;
	if (!is_int(text)) {
		return "is no whole number";
	}
	char *bare = bare_number(arena, text, &negative);
	size_t len = strlen(bare);
	if (bare[0] != '0' && !strchr(bare, ':')) {
		node->is_true = true;
		node->text.bytes = negative ? box_arena_printf(arena, "-%s", bare) : bare;
		node->text.len = len + negative;
		return len > BOX_SKILL_META_DIGITS_MAX ? "is too large a number" : NULL;
	}
	unsigned base = 10;
	if (bare[0] == '0') {
		base = bare[1] == 'b' ? 2 : bare[1] == 'x' ? 16 : 8;
		bare += base == 8 ? 0 : 2;
		if (*bare == '\0') {
			return "is a number without digits";
		}
	}
	unsigned __int128 number = 0;
	if (strlen(bare) > LONGEST_NUMBER || !read_digits(bare, base, &number)) {
		return "is too large a number";
	}
	node->is_true = number != 0;
	node->text = printed_int(arena, number, negative && number != 0);
	return NULL;
}

/* Parts of sixty, summed up from the last as Python does. */
static double read_sixties(char *text)
{
	double base = 1;
	double sum = 0;
	for (char *colon = strrchr(text, ':'); colon; colon = strrchr(text, ':')) {
		sum += strtod(colon + 1, NULL) * base;
		base *= 60;
		*colon = '\0';
	}
	return sum + strtod(text, NULL) * base;
}

static const char *real_scalar(struct box_arena *arena, struct box_str text, struct box_yaml *node)
{
	bool negative = false;
	if (!is_real(text)) {
		return "is no number";
	}
	char *bare = bare_number(arena, text, &negative);
	double real = 0;
	if (bare[0] == '.' && (bare[1] | 0x20) == 'i') {
		real = (double)INFINITY;
	} else if (bare[0] == '.' && (bare[1] | 0x20) == 'n') {
		real = (double)NAN;
	} else if (strlen(bare) > BOX_SKILL_META_DIGITS_MAX) {
		return "is too long a number";
	} else {
		real = strchr(bare, ':') ? read_sixties(bare) : strtod(bare, NULL);
	}
	struct box_buf out = box_buf(LONGEST_NUMBER);
	(void)box_pytext_repr_real(&out, negative ? -real : real);
	node->is_true = real != 0;
	node->text = (struct box_str){box_arena_strndup(arena, out.bytes, out.len), out.len};
	box_buf_free(&out);
	return NULL;
}

static const char *bool_scalar(struct box_str text, struct box_yaml *node)
{
	static const char *const words[] = {"yes", "true", "on", "no", "false", "off"};
	for (size_t i = 0; i < BOX_COUNT_OF(words); i++) {
		if (text.len == strlen(words[i]) &&
			strncasecmp(text.bytes, words[i], text.len) == 0) {
			node->is_true = i < 3;
			node->text = box_str(i < 3 ? "True" : "False");
			return NULL;
		}
	}
	return "is neither true nor false";
}

const char *box_yaml_scalar(struct box_arena *arena, enum box_yaml_type type, struct box_str text,
	struct box_yaml *ret_scalar)
{
	struct box_yaml node = {.type = type, .text = text, .is_true = text.len > 0};
	const char *why = NULL;
	if (type == BOX_YAML_NULL) {
		node.is_true = false;
		node.text = box_str("None");
	} else if (type == BOX_YAML_BOOL) {
		why = bool_scalar(text, &node);
	} else if (type == BOX_YAML_INT) {
		why = int_scalar(arena, text, &node);
	} else if (type == BOX_YAML_REAL) {
		why = real_scalar(arena, text, &node);
	} else if (type == BOX_YAML_TIME) {
		why = box_yaml_time(arena, text, &node);
	}
	if (!why) {
		*ret_scalar = node;
	}
	return why;
}
