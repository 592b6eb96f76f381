/* Value tree -> JSON text without white space. Runs that need no escape are copied whole; non-ASCII
 * characters are not escaped. A failed call leaves the buffer at its old length.
 */
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/macros.h"
#include "codec/json.h"
#include "codec/json_run.h"

#define ESCAPE_MAX 6       /* \u001f */
#define STRETCH_MAX 4096UL /* bytes of text for which room is reserved at a time */

/* Writes the escape of a quote, a backslash or a control character; returns its length. */
static size_t put_escape(char *to, unsigned char c)
{
	static const char letters[] = {
		['"'] = '"',
		['\\'] = '\\',
		['\b'] = 'b',
		['\f'] = 'f',
		['\n'] = 'n',
		['\r'] = 'r',
		['\t'] = 't',
	};
	static const char hex[] = "0123456789abcdef";
	to[0] = '\\';
	if (letters[c] != '\0') {
		to[1] = letters[c];
		return 2;
	}
	to[1] = 'u';
	to[2] = '0';
	to[3] = '0';
	to[4] = hex[c >> 4];
	to[5] = hex[c & 15];
	return ESCAPE_MAX;
}

/* Encodes text that fits into the room at `to` even if every character is escaped. */
static size_t put_stretch(char *to, const char *at, const char *end)
{
	char *start = to;
	while (at < end) {
		size_t run = box_json_copy_run(to, at, end);
		to += run;
		at += run;
		if (at < end) {
			to += put_escape(to, (unsigned char)*at++);
		}
	}
	return (size_t)(to - start);
}

/* Near the limit of the buffer there may be no room for the worst case: goes on one character at a
 * time. */
static int append_tightly(struct box_buf *out, const char *at, const char *end)
{
	int r = 0;
	for (; at < end && r == 0; at++) {
		char escape[ESCAPE_MAX];
		r = box_json_is_plain(*at)
			? box_buf_append(out, at, 1)
			: box_buf_append(out, escape, put_escape(escape, (unsigned char)*at));
	}
	return r;
}

static int append_escaped(struct box_buf *out, struct box_str str)
{
	if (str.len == 0) {
		return 0; /* the pointer of an empty string may be NULL */
	}
	const char *at = str.bytes;
	const char *end = at + str.len;
	if (str.len <= out->limit - out->len) {
		(void)box_buf_reserve(out, str.len); /* grow once, not in steps */
	}
	while (at < end) {
		size_t left = (size_t)(end - at);
		size_t stretch = BOX_MIN(left, STRETCH_MAX);
		if (stretch * ESCAPE_MAX > out->limit - out->len) {
			return append_tightly(out, at, end);
		}
		char *to = box_buf_reserve(out, stretch * ESCAPE_MAX);
		out->len += put_stretch(to, at, at + stretch);
		at += stretch;
	}
	return 0;
}

int box_json_encode_str(struct box_buf *out, struct box_str str)
{
	size_t before = out->len;
	int r = box_buf_append(out, "\"", 1);
	if (r == 0) {
		r = append_escaped(out, str);
	}
	if (r == 0) {
		r = box_buf_append(out, "\"", 1);
	}
	if (r < 0) {
		out->len = before;
	}
	return r;
}

static int encode_integer(struct box_buf *out, int64_t integer)
{
	char text[24];
	int len = snprintf(text, sizeof(text), "%" PRId64, integer);
	return box_buf_append(out, text, (size_t)len);
}

/* The shortest text that reads back equal, starting at 15 digits, which always survive a round trip
 * through a normal double. (At a power of two a shorter neighbour can exist; it is not searched for.) */
static int encode_real(struct box_buf *out, double real)
{
	char text[48];
	if (!isfinite(real)) {
		return box_buf_append_str(out, "null");
	}
	int precision = real != 0 && fabs(real) < DBL_MIN ? 1 : 15;
	do {
		(void)snprintf(text, sizeof(text), "%.*g", precision, real);
	} while (strtod(text, NULL) != real && ++precision <= 17);
	int r = box_buf_append_str(out, text);
	if (r == 0 && !strpbrk(text, ".e")) {
		r = box_buf_append_str(out, ".0");
	}
	return r;
}

static int encode_bin(struct box_buf *out, struct box_str bin)
{
	int r = box_buf_append(out, "\"", 1);
	if (r == 0) {
		r = box_base64_encode(out, bin.bytes, bin.len);
	}
	return r < 0 ? r : box_buf_append(out, "\"", 1);
}

static int encode_value(struct box_buf *out, const struct box_value *value);

static int encode_list(struct box_buf *out, const struct box_value *list)
{
	int r = box_buf_append(out, "[", 1);
	for (uint32_t i = 0; r == 0 && i < list->count; i++) {
		r = i > 0 ? box_buf_append(out, ",", 1) : 0;
		if (r == 0) {
			r = encode_value(out, &list->items[i]);
		}
	}
	return r < 0 ? r : box_buf_append(out, "]", 1);
}

static int encode_map(struct box_buf *out, const struct box_value *map)
{
	int r = box_buf_append(out, "{", 1);
	for (uint32_t i = 0; r == 0 && i < map->count; i++) {
		r = i > 0 ? box_buf_append(out, ",", 1) : 0;
		if (r == 0) {
			r = box_json_encode_str(out, map->pairs[i].key);
		}
		if (r == 0) {
			r = box_buf_append(out, ":", 1);
		}
		if (r == 0) {
			r = encode_value(out, &map->pairs[i].value);
		}
	}
	return r < 0 ? r : box_buf_append(out, "}", 1);
}

static int encode_value(struct box_buf *out, const struct box_value *value)
{
	switch (value->type) {
	case BOX_NULL:
		return box_buf_append_str(out, "null");
	case BOX_BOOL:
		return box_buf_append_str(out, value->boolean ? "true" : "false");
	case BOX_INT:
		return encode_integer(out, value->integer);
	case BOX_REAL:
		return encode_real(out, value->real);
	case BOX_STR:
		return box_json_encode_str(out, value->str);
	case BOX_BIN:
		return encode_bin(out, value->str);
	case BOX_LIST:
		return encode_list(out, value);
	case BOX_MAP:
		return encode_map(out, value);
	}
	return -EMSGSIZE;
}

int box_json_encode(struct box_buf *out, const struct box_value *value)
{
	size_t before = out->len;
	int r = encode_value(out, value);
	if (r < 0) {
		out->len = before;
	}
	return r;
}
