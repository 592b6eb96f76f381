/* JSON text -> value tree, strictly by RFC 8259. Written by hand because jansson takes 13 ms per MiB,
 * which is too slow here. The decoder goes over the text once, points into it where a string has no
 * escape, and unescapes in place otherwise. Numbers go through strtod: no program of Box leaves the C
 * locale. The encoder is in json_encode.c.
 */
#include "codec/json.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/limits.h"
#include "base/utf8.h"
#include "codec/json_run.h"
#include "codec/keys.h"

#define FIRST_STACK 64
#define NUMBER_ROOM 64
#define REPLACEMENT 0xfffdU

struct decoder {
	struct box_arena *arena;
	char *at;
	char *end;
	/* Members of the lists and maps that are still open. They are moved to the arena when their
	 * number is known, so that a tree takes no more memory than it needs. */
	struct box_pair *stack;
	size_t stack_len;
	size_t stack_room;
	uint32_t values;
	uint32_t depth;
	const char *why;
};

static int decode_value(struct decoder *d, struct box_value *ret_value);

static int fail(struct decoder *d, int code, const char *why)
{
	d->why = why;
	return code;
}

static void skip_space(struct decoder *d)
{
	while (d->at < d->end &&
		(*d->at == ' ' || *d->at == '\n' || *d->at == '\r' || *d->at == '\t')) {
		d->at++;
	}
}

static bool take_char(struct decoder *d, char c)
{
	if (d->at < d->end && *d->at == c) {
		d->at++;
		return true;
	}
	return false;
}

/* Four hex digits at `p`, or -1. */
static int32_t hex4(const char *p, const char *end)
{
	if (end - p < 4) {
		return -1;
	}
	int32_t code = 0;
	for (int i = 0; i < 4; i++) {
		int digit;
		if (p[i] >= '0' && p[i] <= '9') {
			digit = p[i] - '0';
		} else if ((p[i] | 0x20) >= 'a' && (p[i] | 0x20) <= 'f') {
			digit = (p[i] | 0x20) - 'a' + 10;
		} else {
			return -1;
		}
		code = code * 16 + digit;
	}
	return code;
}

/* d->at is after "\u". Never writes more bytes than the escape has. */
static int decode_unicode(struct decoder *d, char **to)
{
	int32_t code = hex4(d->at, d->end);
	if (code < 0) {
		return fail(d, -EBADMSG, "bad \\u escape");
	}
	d->at += 4;
	uint32_t point = (uint32_t)code;
	if (code >= 0xd800 && code <= 0xdfff) {
		point = REPLACEMENT;
		if (code < 0xdc00 && d->end - d->at >= 6 && d->at[0] == '\\' && d->at[1] == 'u') {
			int32_t low = hex4(d->at + 2, d->end);
			if (low >= 0xdc00 && low <= 0xdfff) {
				point = 0x10000U + ((uint32_t)(code - 0xd800) << 10) +
					(uint32_t)(low - 0xdc00);
				d->at += 6;
			}
		}
	}
	*to += box_utf8_put(*to, point);
	return 0;
}

/* d->at is at a backslash. */
static int decode_escape(struct decoder *d, char **to)
{
	if (d->end - d->at < 2) {
		return fail(d, -EBADMSG, "unterminated string");
	}
	char c = d->at[1];
	d->at += 2;
	switch (c) {
	case '"':
	case '\\':
	case '/':
		break;
	case 'b':
		c = '\b';
		break;
	case 'f':
		c = '\f';
		break;
	case 'n':
		c = '\n';
		break;
	case 'r':
		c = '\r';
		break;
	case 't':
		c = '\t';
		break;
	case 'u':
		return decode_unicode(d, to);
	default:
		return fail(d, -EBADMSG, "unknown escape");
	}
	*(*to)++ = c;
	return 0;
}

/* Length of the plain run at `at`, which is moved down to `to` if that is another address. */
static size_t move_run(char *to, const char *at, const char *end)
{
	ptrdiff_t gap = at - to;
	if (gap >= BOX_JSON_STEP) {
		return box_json_copy_run(to, at, end);
	}
	size_t run = box_json_plain_run(at, end);
	if (gap > 0) {
		memmove(to, at, run);
	}
	return run;
}

/* d->at is after the opening quote. */
static int decode_string(struct decoder *d, struct box_str *ret_str)
{
	char *start = d->at;
	char *to = start;
	for (;;) {
		size_t run = move_run(to, d->at, d->end);
		to += run;
		d->at += run;
		if (d->at == d->end) {
			return fail(d, -EBADMSG, "unterminated string");
		}
		if (*d->at == '"') {
			d->at++;
			*ret_str = (struct box_str){start, (size_t)(to - start)};
			return 0;
		}
		if (*d->at != '\\') {
			return fail(d, -EBADMSG, "control character in a string");
		}
		int r = decode_escape(d, &to);
		if (r < 0) {
			return r;
		}
	}
}

static int decode_real(struct decoder *d, const char *text, size_t len, struct box_value *ret_value)
{
	char room[NUMBER_ROOM];
	const char *terminated = room;
	if (len < sizeof(room)) {
		memcpy(room, text, len);
		room[len] = '\0';
	} else {
		terminated = box_arena_strndup(d->arena, text, len);
	}
	double real = strtod(terminated, NULL);
	if (!isfinite(real)) {
		return fail(d, -EBADMSG, "number out of range");
	}
	*ret_value = box_real(real);
	return 0;
}

static size_t skip_digits(struct decoder *d)
{
	char *start = d->at;
	while (d->at < d->end && *d->at >= '0' && *d->at <= '9') {
		d->at++;
	}
	return (size_t)(d->at - start);
}

/* The digits as an integer; false when it does not fit. */
static bool to_integer(const char *p, size_t len, bool negative, int64_t *ret_integer)
{
	uint64_t sum = 0;
	uint64_t most = (uint64_t)INT64_MAX + negative;
	for (size_t i = 0; i < len; i++) {
		uint64_t digit = (uint64_t)(p[i] - '0');
		if (sum > (most - digit) / 10) {
			return false;
		}
		sum = sum * 10 + digit;
	}
	*ret_integer = negative ? (int64_t)(0 - sum) : (int64_t)sum;
	return true;
}

static int decode_number(struct decoder *d, struct box_value *ret_value)
{
	const char *start = d->at;
	bool negative = take_char(d, '-');
	const char *whole = d->at;
	size_t whole_len = skip_digits(d);
	if (whole_len == 0 || (whole_len > 1 && *whole == '0')) {
		return fail(d, -EBADMSG, "not a value");
	}
	bool is_real = false;
	if (take_char(d, '.')) {
		is_real = true;
		if (skip_digits(d) == 0) {
			return fail(d, -EBADMSG, "number ends with a point");
		}
	}
	if (take_char(d, 'e') || take_char(d, 'E')) {
		is_real = true;
		(void)(take_char(d, '+') || take_char(d, '-'));
		if (skip_digits(d) == 0) {
			return fail(d, -EBADMSG, "exponent has no digits");
		}
	}
	int64_t integer;
	if (!is_real && to_integer(whole, whole_len, negative, &integer)) {
		*ret_value = box_int(integer);
		return 0;
	}
	return decode_real(d, start, (size_t)(d->at - start), ret_value);
}

static int decode_word(
	struct decoder *d, const char *word, struct box_value meaning, struct box_value *ret_value)
{
	size_t len = strlen(word);
	if ((size_t)(d->end - d->at) < len || memcmp(d->at, word, len) != 0) {
		return fail(d, -EBADMSG, "not a value");
	}
	d->at += len;
	*ret_value = meaning;
	return 0;
}

static void push(struct decoder *d, struct box_str key, struct box_value value)
{
	if (d->stack_len == d->stack_room) {
		d->stack_room = d->stack_room ? d->stack_room * 2 : FIRST_STACK;
		d->stack = box_realloc(d->stack, d->stack_room * sizeof(*d->stack));
	}
	d->stack[d->stack_len++] = (struct box_pair){key, value};
}

/* One member, with its key when it is a map's. */
static int decode_member(struct decoder *d, bool is_map)
{
	struct box_str key = {NULL, 0};
	skip_space(d);
	if (is_map) {
		if (!take_char(d, '"')) {
			return fail(d, -EBADMSG, "key expected");
		}
		int r = decode_string(d, &key);
		if (r < 0) {
			return r;
		}
		skip_space(d);
		if (!take_char(d, ':')) {
			return fail(d, -EBADMSG, "':' expected");
		}
	}
	struct box_value value;
	int r = decode_value(d, &value);
	if (r < 0) {
		return r;
	}
	push(d, key, value);
	skip_space(d);
	return 0;
}

/* Moves the members from stack[base] on into the arena. */
static int close_container(struct decoder *d, bool is_map, size_t base, struct box_value *ret_value)
{
	uint32_t count = (uint32_t)(d->stack_len - base);
	const struct box_pair *members = count > 0 ? d->stack + base : NULL;
	struct box_value value = is_map ? box_map_value() : box_list_value();
	value.count = count;
	if (is_map && count > 0) {
		if (!box_keys_unique(d->arena, members, count)) {
			return fail(d, -EBADMSG, "duplicate map key");
		}
		value.pairs = box_arena_alloc(d->arena, count * sizeof(*value.pairs));
		value.pairs_room = count;
		memcpy(value.pairs, members, count * sizeof(*value.pairs));
	} else if (count > 0) {
		value.items = box_arena_alloc(d->arena, count * sizeof(*value.items));
		value.items_room = count;
		for (uint32_t i = 0; i < count; i++) {
			value.items[i] = members[i].value;
		}
	}
	d->stack_len = base;
	*ret_value = value;
	return 0;
}

static int decode_container(struct decoder *d, bool is_map, struct box_value *ret_value)
{
	char closing = is_map ? '}' : ']';
	size_t base = d->stack_len;
	if (++d->depth > BOX_MESSAGE_DEPTH_MAX) {
		return fail(d, -E2BIG, "too deep");
	}
	d->at++;
	skip_space(d);
	if (!take_char(d, closing)) {
		do {
			int r = decode_member(d, is_map);
			if (r < 0) {
				return r;
			}
		} while (take_char(d, ','));
		if (!take_char(d, closing)) {
			return fail(d, -EBADMSG, "',' or the end of a list or map expected");
		}
	}
	d->depth--;
	return close_container(d, is_map, base, ret_value);
}

static int decode_value(struct decoder *d, struct box_value *ret_value)
{
	skip_space(d);
	if (d->at == d->end) {
		return fail(d, -EBADMSG, "unexpected end of text");
	}
	if (++d->values > BOX_MESSAGE_VALUES_MAX) {
		return fail(d, -E2BIG, "too many values");
	}
	switch (*d->at) {
	case '{':
		return decode_container(d, true, ret_value);
	case '[':
		return decode_container(d, false, ret_value);
	case '"': {
		struct box_str str;
		d->at++;
		int r = decode_string(d, &str);
		if (r < 0) {
			return r;
		}
		*ret_value = box_text(str);
		return 0;
	}
	case 't':
		return decode_word(d, "true", box_bool(true), ret_value);
	case 'f':
		return decode_word(d, "false", box_bool(false), ret_value);
	case 'n':
		return decode_word(d, "null", box_null(), ret_value);
	default:
		return decode_number(d, ret_value);
	}
}

int box_json_decode(struct box_arena *arena, char *text, size_t len, struct box_value *ret_value,
	const char **ret_why)
{
	struct decoder d = {.arena = arena, .at = text, .end = len > 0 ? text + len : text};
	struct box_value value;
	int r;
	if (len == 0) {
		r = fail(&d, -EBADMSG, "empty text");
	} else if (!box_utf8_valid(text, len)) {
		r = fail(&d, -EILSEQ, "not UTF-8");
	} else {
		r = decode_value(&d, &value);
	}
	if (r == 0) {
		skip_space(&d);
		if (d.at != d.end) {
			r = fail(&d, -EBADMSG, "text after the document");
		}
	}
	free(d.stack);
	if (r < 0) {
		*ret_why = d.why;
		return r;
	}
	*ret_value = value;
	return 0;
}
