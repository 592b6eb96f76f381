/* The libyaml adapter: a configuration text becomes a value tree, or an error with its position.
 *
 * Works on libyaml's events, not on its documents, so that everything is checked before it is stored, and
 * depth and count are limited while reading. Only the operator's files and environment are read this way.
 */
#include "worker/config_text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "base/macros.h"

#define NUMBER_TEXT_MAX 400 /* a longer plain scalar is text, whatever its digits */

struct reader {
	struct box_arena *arena;
	yaml_parser_t parser;
	yaml_event_t event; /* the current one */
	bool has_event;
	const char *text;
	size_t len;
	size_t values;
	struct box_err *err;
};

struct seen_key {
	struct box_str key;
	yaml_mark_t mark;
};

static void reader_close(struct reader *reader)
{
	if (reader->has_event) {
		yaml_event_delete(&reader->event);
	}
	yaml_parser_delete(&reader->parser);
}

static int reader_open(struct reader *reader)
{
	if (!yaml_parser_initialize(&reader->parser)) {
		return -ENOMEM;
	}
	/* Set, not detected: a byte order mark must not turn the text into UTF-16. */
	yaml_parser_set_encoding(&reader->parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&reader->parser,
		(const unsigned char *)(reader->text ? reader->text : ""), reader->len);
	return 0;
}

static int refuse(struct reader *reader, yaml_mark_t mark, const char *text)
{
	return box_err_set(reader->err, BOX_ERR_VALUE, EINVAL, "%zu:%zu: %s", mark.line + 1,
		mark.column + 1, text);
}

static int refuse_event(struct reader *reader, const char *text)
{
	return refuse(reader, reader->event.start_mark, text);
}

/* libyaml gives an offset instead of a mark for bytes that it cannot read. */
static yaml_mark_t mark_of_offset(const struct reader *reader, size_t offset)
{
	yaml_mark_t mark = {0};
	for (size_t i = 0; i < offset && i < reader->len; i++) {
		if (reader->text[i] == '\n') {
			mark.line++;
			mark.column = 0;
		} else {
			mark.column++;
		}
	}
	return mark;
}

static int next_event(struct reader *reader)
{
	if (reader->has_event) {
		yaml_event_delete(&reader->event);
		reader->has_event = false;
	}
	if (yaml_parser_parse(&reader->parser, &reader->event)) {
		reader->has_event = true;
		return 0;
	}
	const yaml_parser_t *parser = &reader->parser;
	yaml_mark_t mark = parser->error == YAML_READER_ERROR
		? mark_of_offset(reader, parser->problem_offset)
		: parser->problem_mark;
	return refuse(reader, mark, parser->problem ? parser->problem : "cannot be read");
}

/* -- plain scalars ---------------------------------------------------------------------------- */

static bool is_one_of(struct box_str text, const char *const *words)
{
	for (; *words; words++) {
		if (box_str_eq(text, *words)) {
			return true;
		}
	}
	return false;
}

/* 0o17 and 0x1f, which cannot have a sign in the core schema. */
static bool read_based(const char *text, struct box_value *ret_value)
{
	int base = strncmp(text, "0o", 2) == 0 ? 8 : strncmp(text, "0x", 2) == 0 ? 16 : 0;
	const char *digits = base == 8 ? "01234567" : "0123456789abcdefABCDEF";
	if (base == 0 || text[2] == '\0' || text[2 + strspn(text + 2, digits)] != '\0') {
		return false;
	}
	errno = 0;
	unsigned long long number = strtoull(text + 2, NULL, base);
	*ret_value = errno == ERANGE || number > INT64_MAX ? box_real((double)number)
							   : box_int((int64_t)number);
	return true;
}

static bool read_decimal(const char *text, struct box_value *ret_value)
{
	const char *p = text + (*text == '+' || *text == '-');
	size_t whole = strspn(p, "0123456789");
	size_t fraction = 0;
	bool integer = whole > 0;
	p += whole;
	if (*p == '.') {
		fraction = strspn(p + 1, "0123456789");
		p += 1 + fraction;
		integer = false;
	}
	if (whole + fraction == 0) {
		return false;
	}
	if (*p == 'e' || *p == 'E') {
		p += 1 + (p[1] == '+' || p[1] == '-');
		size_t exponent = strspn(p, "0123456789");
		if (exponent == 0) {
			return false;
		}
		p += exponent;
		integer = false;
	}
	if (*p != '\0') {
		return false;
	}
	errno = 0;
	long long number = integer ? strtoll(text, NULL, 10) : 0;
	bool fits = integer && errno == 0;
	*ret_value = fits ? box_int(number) : box_real(strtod(text, NULL));
	return true;
}

static bool read_special_real(struct box_str text, struct box_value *ret_value)
{
	static const char *const nan_words[] = {".nan", ".NaN", ".NAN", NULL};
	static const char *const inf_words[] = {".inf", ".Inf", ".INF", NULL};
	if (is_one_of(text, nan_words)) {
		*ret_value = box_real((double)NAN);
		return true;
	}
	bool negative = text.len > 0 && text.bytes[0] == '-';
	if (text.len > 0 && (negative || text.bytes[0] == '+')) {
		text = (struct box_str){text.bytes + 1, text.len - 1};
	}
	if (is_one_of(text, inf_words)) {
		*ret_value = box_real(negative ? -(double)INFINITY : (double)INFINITY);
		return true;
	}
	return false;
}

/* The YAML 1.2 core schema: no yes, no, on, off, no octal by a leading 0. */
static struct box_value plain_scalar(struct box_str text)
{
	static const char *const null_words[] = {"", "~", "null", "Null", "NULL", NULL};
	static const char *const true_words[] = {"true", "True", "TRUE", NULL};
	static const char *const false_words[] = {"false", "False", "FALSE", NULL};
	struct box_value value = box_text(text);
	if (is_one_of(text, null_words)) {
		return box_null();
	}
	if (is_one_of(text, true_words) || is_one_of(text, false_words)) {
		return box_bool(text.bytes[0] == 't' || text.bytes[0] == 'T');
	}
	if (text.len > NUMBER_TEXT_MAX || box_str_has_nul(text)) {
		return value;
	}
	if (!read_based(text.bytes, &value) && !read_decimal(text.bytes, &value)) {
		(void)read_special_real(text, &value);
	}
	return value;
}

/* -- nodes ------------------------------------------------------------------------------------ */

static int read_node(struct reader *reader, unsigned depth, struct box_value *ret_value);

static struct box_str scalar_text(struct reader *reader)
{
	size_t len = reader->event.data.scalar.length;
	const char *bytes = (const char *)reader->event.data.scalar.value;
	return (struct box_str){box_arena_strndup(reader->arena, bytes, len), len};
}

static int by_key_and_place(const void *a, const void *b)
{
	const struct seen_key *left = a;
	const struct seen_key *right = b;
	size_t shorter = BOX_MIN(left->key.len, right->key.len);
	int order = memcmp(left->key.bytes, right->key.bytes, shorter);
	if (order == 0) {
		order = (left->key.len > right->key.len) - (left->key.len < right->key.len);
	}
	if (order == 0) {
		order = (left->mark.index > right->mark.index) -
			(left->mark.index < right->mark.index);
	}
	return order;
}

static int check_unique(struct reader *reader, struct seen_key *keys, size_t count)
{
	if (count > 1) {
		qsort(keys, count, sizeof(*keys), by_key_and_place);
	}
	for (size_t i = 1; i < count; i++) {
		if (box_str_same(keys[i - 1].key, keys[i].key)) {
			char text[160];
			(void)snprintf(text, sizeof(text), "%.*s is defined twice",
				(int)(keys[i].key.len < 100 ? keys[i].key.len : 100),
				keys[i].key.bytes);
			return refuse(reader, keys[i].mark, text);
		}
	}
	return 0;
}

static int read_map(struct reader *reader, unsigned depth, struct box_value *ret_value)
{
	struct box_value map = box_map_value();
	_cleanup_(box_free_p) struct seen_key *keys = NULL;
	size_t room = 0;
	for (;;) {
		int result = next_event(reader);
		if (result < 0) {
			return result;
		}
		if (reader->event.type == YAML_MAPPING_END_EVENT) {
			break;
		}
		if (reader->event.type != YAML_SCALAR_EVENT) {
			return refuse_event(reader, "a key must be text");
		}
		if (reader->event.data.scalar.tag) {
			return refuse_event(reader, "tags are not supported");
		}
		if (map.count == room) {
			room = room ? room * 2 : 8;
			keys = box_realloc(keys, room * sizeof(*keys));
		}
		keys[map.count].key = scalar_text(reader);
		keys[map.count].mark = reader->event.start_mark;
		struct box_str key = keys[map.count].key;
		struct box_value value = box_null();
		result = next_event(reader);
		if (result == 0) {
			result = read_node(reader, depth, &value);
		}
		if (result < 0) {
			return result;
		}
		box_map_add_str(reader->arena, &map, key, value);
	}
	int result = check_unique(reader, keys, map.count);
	if (result == 0) {
		*ret_value = map;
	}
	return result;
}

static int read_list(struct reader *reader, unsigned depth, struct box_value *ret_value)
{
	struct box_value list = box_list_value();
	for (;;) {
		int result = next_event(reader);
		if (result < 0) {
			return result;
		}
		if (reader->event.type == YAML_SEQUENCE_END_EVENT) {
			break;
		}
		struct box_value value = box_null();
		result = read_node(reader, depth, &value);
		if (result < 0) {
			return result;
		}
		box_list_add(reader->arena, &list, value);
	}
	*ret_value = list;
	return 0;
}

/* Reads the node that begins with the current event. */
static int read_node(struct reader *reader, unsigned depth, struct box_value *ret_value)
{
	const yaml_event_t *event = &reader->event;
	if (depth >= BOX_MESSAGE_DEPTH_MAX) {
		return refuse_event(reader, "nested too deeply");
	}
	if (++reader->values > BOX_MESSAGE_VALUES_MAX) {
		return refuse_event(reader, "too many values");
	}
	switch (event->type) {
	case YAML_SCALAR_EVENT:
		if (event->data.scalar.tag) {
			return refuse_event(reader, "tags are not supported");
		}
		*ret_value = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE
			? plain_scalar(scalar_text(reader))
			: box_text(scalar_text(reader));
		return 0;
	case YAML_MAPPING_START_EVENT:
		return event->data.mapping_start.tag
			? refuse_event(reader, "tags are not supported")
			: read_map(reader, depth + 1, ret_value);
	case YAML_SEQUENCE_START_EVENT:
		return event->data.sequence_start.tag
			? refuse_event(reader, "tags are not supported")
			: read_list(reader, depth + 1, ret_value);
	case YAML_ALIAS_EVENT:
		return refuse_event(reader, "aliases are not supported");
	default:
		return refuse_event(reader, "unexpected here");
	}
}

static bool is_empty_document(const yaml_event_t *event)
{
	return event->type == YAML_SCALAR_EVENT && event->data.scalar.length == 0 &&
		event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && !event->data.scalar.tag;
}

/* Reads the only document of the stream; the current event is its start. */
static int read_document(struct reader *reader, struct box_value *ret_map)
{
	int result = next_event(reader);
	if (result == 0 && !is_empty_document(&reader->event)) {
		if (reader->event.type != YAML_MAPPING_START_EVENT) {
			return refuse_event(reader, "the configuration must be a map");
		}
		result = read_node(reader, 0, ret_map);
	}
	if (result == 0) {
		result = next_event(reader);
	}
	if (result == 0) {
		result = next_event(reader);
	}
	if (result == 0 && reader->event.type != YAML_STREAM_END_EVENT) {
		result = refuse_event(reader, "only one document is allowed");
	}
	return result;
}

int box_config_text_parse(struct box_arena *arena, const char *text, size_t len,
	struct box_value *ret_map, struct box_err *err)
{
	if (len > BOX_CONFIG_BYTES_MAX) {
		return box_err_set(err, BOX_ERR_VALUE, EINVAL,
			"1:1: the configuration is longer than %lu bytes", BOX_CONFIG_BYTES_MAX);
	}
	struct reader reader = {.arena = arena, .text = text, .len = len, .err = err};
	struct box_value map = box_map_value();
	int result = reader_open(&reader);
	if (result < 0) {
		return box_err_set(err, BOX_ERR_OS, ENOMEM, "the YAML reader cannot be created");
	}
	result = next_event(&reader);
	if (result == 0) {
		result = next_event(&reader);
	}
	if (result == 0 && reader.event.type == YAML_DOCUMENT_START_EVENT) {
		result = read_document(&reader, &map);
	}
	reader_close(&reader);
	if (result == 0) {
		*ret_map = map;
	}
	return result;
}

/* -- finding a member's line ------------------------------------------------------------------ */

/* Skips to the last event of the node that begins with the current one. */
static int skip_node(struct reader *reader)
{
	size_t open = 0;
	for (;;) {
		yaml_event_type_t type = reader->event.type;
		open += type == YAML_MAPPING_START_EVENT || type == YAML_SEQUENCE_START_EVENT;
		open -= type == YAML_MAPPING_END_EVENT || type == YAML_SEQUENCE_END_EVENT;
		if (open == 0) {
			return 0;
		}
		int result = next_event(reader);
		if (result < 0) {
			return result;
		}
	}
}

/* The rest of the dotted key after this one; NULL if this one does not lead there. */
static const char *rest_after(const yaml_event_t *key, const char *dotted)
{
	size_t len = key->data.scalar.length;
	if (strlen(dotted) < len || memcmp(dotted, key->data.scalar.value, len) != 0) {
		return NULL;
	}
	return dotted[len] == '\0' || dotted[len] == '.' ? dotted + len : NULL;
}

/* The line of `dotted` in the map whose start event is the current one; 0 if it is not there (then the
 * current event is the map's end). */
static size_t find_in_map(struct reader *reader, const char *dotted, unsigned depth)
{
	while (next_event(reader) == 0 && reader->event.type == YAML_SCALAR_EVENT) {
		const char *rest = rest_after(&reader->event, dotted);
		size_t line = reader->event.start_mark.line + 1;
		if (rest && *rest == '\0') {
			return line;
		}
		if (next_event(reader) < 0) {
			return 0;
		}
		if (rest && reader->event.type == YAML_MAPPING_START_EVENT &&
			depth < BOX_MESSAGE_DEPTH_MAX) {
			line = find_in_map(reader, rest + 1, depth + 1);
			if (line > 0) {
				return line;
			}
		} else if (skip_node(reader) < 0) {
			return 0;
		}
	}
	return 0;
}

size_t box_config_text_line(const char *text, size_t len, const char *dotted_key)
{
	struct reader reader = {.text = text, .len = len};
	size_t line = 0;
	if (len > BOX_CONFIG_BYTES_MAX || reader_open(&reader) < 0) {
		return 0;
	}
	/* Start of the stream, start of the document, start of its map. */
	int r = 0;
	for (int i = 0; i < 3 && r == 0; i++) {
		r = next_event(&reader);
	}
	if (r == 0 && reader.event.type == YAML_MAPPING_START_EVENT) {
		line = find_in_map(&reader, dotted_key, 0);
	}
	reader_close(&reader);
	return line;
}
