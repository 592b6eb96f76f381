/* Value tree -> JSON text without white space. Runs that need no escape are copied whole, what is
 * beyond ASCII goes out as it is. A failed call leaves the buffer as long as it was.
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
#include "transport/json.h"
#include "transport/json_run.h"

/* The escape of a quote, a backslash or a control character. */
static int encode_escape(struct box_buf *out, unsigned char c)
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
	if (letters[c] != '\0') {
		char letter[] = {'\\', letters[c]};
		return box_buf_append(out, letter, sizeof(letter));
	}
	char escape[] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
	return box_buf_append(out, escape, sizeof(escape));
}

int box_json_encode_str(struct box_buf *out, struct box_str str)
{
	if (str.len == 0) {
		return box_buf_append(out, "\"\"", 2);
	}
	size_t before = out->len;
	const char *at = str.bytes;
	const char *end = at + str.len;
	int r = box_buf_append(out, "\"", 1);
	while (r == 0 && at < end) {
		size_t run = box_json_plain_run(at, end);
		r = box_buf_append(out, at, run);
		at += run;
		if (r == 0 && at < end) {
			r = encode_escape(out, (unsigned char)*at++);
		}
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

/* The fewest digits that read back equal; 15 always survive the way through a normal double, so no
 * shorter text is missed by starting there. (At a power of two a neighbour one digit shorter can
 * exist; it is not looked for.) */
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
