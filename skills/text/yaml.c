/* The libyaml adapter of skills: front matter becomes a tree. Its authors are untrusted, so depth, count,
 * anchors and aliases are limited while reading; an alias shares the node that it stands for and copies
 * nothing. Repeated keys and merges ("<<") mean what they mean to other readers of YAML 1.1.
 */
#include "skills/text/yaml.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/limits.h"
#include "base/macros.h"
#include "base/table.h"

#define FEW_KEYS 8 /* compared one by one */

struct anchor {
	const char *name;
	struct box_yaml node;
};

struct items {
	struct box_yaml *items; /* from malloc */
	size_t count, room;
};

struct reader {
	struct box_arena *arena;
	yaml_parser_t parser;
	yaml_event_t event;
	bool has_event;
	size_t first_line;
	size_t values;
	size_t aliases;
	struct items pending; /* of the lists and maps that are being read, outermost first */
	struct anchor anchors[BOX_SKILL_META_ANCHORS_MAX];
	size_t anchor_count;
	struct box_str field; /* of the outermost map, for messages */
	struct box_err *err;
};

static int refuse_at(struct reader *reader, yaml_mark_t mark, const char *text)
{
	if (reader->field.len > 0) {
		return box_err_set(reader->err, BOX_ERR_VALIDATION, EINVAL,
			"Skill front matter, field \"%.*s\", line %zu, column %zu: %s",
			(int)reader->field.len, reader->field.bytes, reader->first_line + mark.line,
			mark.column + 1, text);
	}
	return box_err_set(reader->err, BOX_ERR_VALIDATION, EINVAL,
		"Skill front matter, line %zu, column %zu: %s", reader->first_line + mark.line,
		mark.column + 1, text);
}

static int refuse(struct reader *reader, const char *text)
{
	return refuse_at(reader, reader->event.start_mark, text);
}

static int next_event(struct reader *reader)
{
	if (reader->has_event) {
		yaml_event_delete(&reader->event);
		reader->has_event = false;
	}
	if (!yaml_parser_parse(&reader->parser, &reader->event)) {
		const char *problem = reader->parser.problem;
		return refuse_at(reader, reader->parser.problem_mark,
			problem ? problem : "is not valid YAML");
	}
	reader->has_event = true;
	return 0;
}

static int count_values(struct reader *reader, size_t more)
{
	reader->values += more;
	return reader->values > BOX_SKILL_META_VALUES_MAX ? refuse(reader, "has too many values")
							  : 0;
}

static void add_item(struct items *items, struct box_yaml item)
{
	if (items->count == items->room) {
		items->room = items->room ? items->room * 2 : 64;
		items->items = box_realloc(items->items, items->room * sizeof(*items->items));
	}
	items->items[items->count++] = item;
}

/* The items after `from`, copied into the arena once: an array that grew there would leave every smaller
 * copy behind. */
static struct box_yaml *take_items(struct reader *reader, size_t from)
{
	size_t size = (reader->pending.count - from) * sizeof(struct box_yaml);
	struct box_yaml *items = NULL;
	if (size > 0) {
		items = box_arena_alloc(reader->arena, size);
		memcpy(items, reader->pending.items + from, size);
	}
	reader->pending.count = from;
	return items;
}

/* -- anchors ---------------------------------------------------------------------------------- */

static struct anchor *find_anchor(struct reader *reader, const char *name)
{
	for (size_t i = 0; i < reader->anchor_count; i++) {
		if (strcmp(reader->anchors[i].name, name) == 0) {
			return &reader->anchors[i];
		}
	}
	return NULL;
}

/* An anchor is known from the end of its node on, so no node can contain itself. */
static int set_anchor(struct reader *reader, const char *name, const struct box_yaml *node)
{
	if (find_anchor(reader, name)) {
		return refuse(reader, "this anchor is defined twice");
	}
	if (reader->anchor_count == BOX_SKILL_META_ANCHORS_MAX) {
		return refuse(reader, "has too many anchors");
	}
	reader->anchors[reader->anchor_count++] = (struct anchor){name, *node};
	return 0;
}

static int read_alias(struct reader *reader, struct box_yaml *ret_node)
{
	const struct anchor *anchor = find_anchor(
		reader, (const char *)reader->event.data.alias.anchor);
	if (!anchor) {
		return refuse(reader, "this alias has no complete anchor");
	}
	if (++reader->aliases > BOX_SKILL_META_ALIASES_MAX) {
		return refuse(reader, "has too many aliases");
	}
	*ret_node = anchor->node;
	return 0;
}

/* -- nodes ------------------------------------------------------------------------------------ */

static int read_node(struct reader *reader, unsigned depth, bool is_key, struct box_yaml *ret_node);

static bool is_word(struct box_str text, const char *const *words)
{
	for (; *words; words++) {
		if (box_str_eq(text, *words)) {
			return true;
		}
	}
	return false;
}

/* The tags of YAML's own scalar types are allowed, and but for null they change nothing. */
static int tagged_type(struct reader *reader, const char *tag, enum box_yaml_type *ret_type)
{
	static const char *const known[] = {YAML_STR_TAG, "!", YAML_BOOL_TAG, YAML_INT_TAG,
		YAML_FLOAT_TAG, YAML_TIMESTAMP_TAG, NULL};
	if (strcmp(tag, YAML_NULL_TAG) == 0) {
		*ret_type = BOX_YAML_NULL;
		return 0;
	}
	if (!is_word(box_str(tag), known)) {
		return refuse(reader, "unknown tag");
	}
	*ret_type = BOX_YAML_TEXT;
	return 0;
}

static enum box_yaml_type plain_type(struct box_str text, bool is_key)
{
	static const char *const null_words[] = {"", "~", "null", "Null", "NULL", NULL};
	if (is_word(text, null_words)) {
		return BOX_YAML_NULL;
	}
	return is_key && box_str_eq(text, "<<") ? BOX_YAML_MERGE : BOX_YAML_TEXT;
}

static int read_scalar(struct reader *reader, bool is_key, struct box_yaml *ret_node)
{
	size_t len = reader->event.data.scalar.length;
	const char *value = (const char *)reader->event.data.scalar.value;
	const char *tag = (const char *)reader->event.data.scalar.tag;
	struct box_yaml node = {
		.type = BOX_YAML_TEXT, .text = {box_arena_strndup(reader->arena, value, len), len}};
	if (tag) {
		int r = tagged_type(reader, tag, &node.type);
		if (r < 0) {
			return r;
		}
	} else if (reader->event.data.scalar.plain_implicit) {
		node.type = plain_type(node.text, is_key);
	}
	*ret_node = node;
	return 0;
}

static int read_list(struct reader *reader, unsigned depth, struct box_yaml *ret_node)
{
	size_t from = reader->pending.count;
	for (;;) {
		struct box_yaml item;
		int r = next_event(reader);
		if (r < 0) {
			return r;
		}
		if (reader->event.type == YAML_SEQUENCE_END_EVENT) {
			break;
		}
		r = read_node(reader, depth, false, &item);
		if (r < 0) {
			return r;
		}
		add_item(&reader->pending, item);
	}
	size_t count = reader->pending.count - from;
	*ret_node = (struct box_yaml){
		.type = BOX_YAML_LIST, .items = take_items(reader, from), .count = count};
	return 0;
}

static int merge_map(struct reader *reader, struct items *merged, const struct box_yaml *map)
{
	if (map->type != BOX_YAML_MAP) {
		return refuse(reader, "only maps can be merged");
	}
	for (size_t i = 0; i < 2 * map->count; i++) {
		add_item(merged, map->items[i]);
	}
	return count_values(reader, map->count);
}

/* In a list of maps the first one has precedence, so it is added last. */
static int merge(struct reader *reader, struct items *merged, const struct box_yaml *value)
{
	if (value->type != BOX_YAML_LIST) {
		return merge_map(reader, merged, value);
	}
	int r = 0;
	for (size_t i = value->count; i > 0 && r == 0; i--) {
		r = merge_map(reader, merged, &value->items[i - 1]);
	}
	return r;
}

static bool same_key(const struct box_yaml *a, const struct box_yaml *b)
{
	return a->type == b->type && box_str_same(a->text, b->text);
}

static size_t find_key(const struct box_yaml *kept, size_t count, const struct box_yaml *key)
{
	for (size_t i = 0; i < count; i += 2) {
		if (same_key(&kept[i], key)) {
			return i;
		}
	}
	return count;
}

/* The index of a key in the map; `next` for a new key. */
static size_t index_of(
	struct reader *reader, struct box_table *indices, const struct box_yaml *key, size_t next)
{
	char *name = box_arena_bytes(reader->arena, key->text.len + 1);
	name[0] = (char)('a' + (int)key->type);
	memcpy(name + 1, key->text.bytes, key->text.len);
	struct box_str whole = {name, key->text.len + 1};
	size_t *index = box_table_get(indices, whole);
	if (!index) {
		index = box_arena_alloc(reader->arena, sizeof(*index));
		*index = next;
		(void)box_table_put(indices, whole, index);
	}
	return *index;
}

/* For a repeated key the first position and the last value count, as in other readers. Works in place and
 * returns how many pairs are left. */
static size_t settle_keys(struct reader *reader, struct box_yaml *pairs, size_t count)
{
	struct box_table indices = {0};
	bool many = count > (size_t)2 * FEW_KEYS;
	size_t kept = 0;
	for (size_t i = 0; i < count; i += 2) {
		size_t index = many ? index_of(reader, &indices, &pairs[i], kept)
				    : find_key(pairs, kept, &pairs[i]);
		if (index == kept) {
			pairs[kept++] = pairs[i];
			pairs[kept++] = pairs[i + 1];
		} else {
			pairs[index + 1] = pairs[i + 1];
		}
	}
	box_table_free(&indices);
	return kept;
}

/* The pairs after `from` become a map, whose own keys override merged ones. */
static struct box_yaml make_map(struct reader *reader, size_t from, struct items *merged)
{
	struct items *pending = &reader->pending;
	size_t own = pending->count - from;
	size_t count = own > 0 ? settle_keys(reader, pending->items + from, own) : 0;
	pending->count = from + count;
	if (merged->count > 0) {
		for (size_t i = 0; i < count; i++) {
			add_item(merged, pending->items[from + i]);
		}
		pending->count = from;
		count = settle_keys(reader, merged->items, merged->count);
		for (size_t i = 0; i < count; i++) {
			add_item(pending, merged->items[i]);
		}
	}
	return (struct box_yaml){
		.type = BOX_YAML_MAP, .items = take_items(reader, from), .count = count / 2};
}

/* Reads a key with its value and appends both to `pending`, or the pairs of a merged map to `merged`. */
static int read_pair(struct reader *reader, unsigned depth, struct items *merged)
{
	struct box_yaml key = {0};
	struct box_yaml value = {0};
	int r = read_node(reader, depth, true, &key);
	if (r < 0) {
		return r;
	}
	if (key.type == BOX_YAML_LIST || key.type == BOX_YAML_MAP) {
		return refuse(reader, "a key must be text");
	}
	if (depth == 1) {
		reader->field = key.text;
	}
	r = next_event(reader);
	if (r < 0) {
		return r;
	}
	r = read_node(reader, depth, false, &value);
	if (r < 0) {
		return r;
	}
	if (key.type == BOX_YAML_MERGE) {
		return merge(reader, merged, &value);
	}
	add_item(&reader->pending, key);
	add_item(&reader->pending, value);
	return 0;
}

static int read_pairs(struct reader *reader, unsigned depth, struct items *merged)
{
	for (;;) {
		int r = next_event(reader);
		if (r < 0 || reader->event.type == YAML_MAPPING_END_EVENT) {
			return r;
		}
		r = read_pair(reader, depth, merged);
		if (r < 0) {
			return r;
		}
	}
}

static int read_map(struct reader *reader, unsigned depth, struct box_yaml *ret_node)
{
	struct items merged = {0};
	size_t from = reader->pending.count;
	int r = read_pairs(reader, depth, &merged);
	if (r == 0) {
		*ret_node = make_map(reader, from, &merged);
	}
	free(merged.items);
	return r;
}

static bool is_tagged(const yaml_char_t *tag, const char *allowed)
{
	return tag && strcmp((const char *)tag, allowed) != 0;
}

static int read_whole(struct reader *reader, unsigned depth, bool is_key, struct box_yaml *ret_node)
{
	switch (reader->event.type) {
	case YAML_SCALAR_EVENT:
		return read_scalar(reader, is_key, ret_node);
	case YAML_SEQUENCE_START_EVENT:
		if (is_tagged(reader->event.data.sequence_start.tag, YAML_SEQ_TAG)) {
			return refuse(reader, "unknown tag");
		}
		return read_list(reader, depth + 1, ret_node);
	case YAML_MAPPING_START_EVENT:
		if (is_tagged(reader->event.data.mapping_start.tag, YAML_MAP_TAG)) {
			return refuse(reader, "unknown tag");
		}
		return read_map(reader, depth + 1, ret_node);
	default:
		return refuse(reader, "is not valid YAML");
	}
}

static const yaml_char_t *anchor_of(const yaml_event_t *event)
{
	switch (event->type) {
	case YAML_SCALAR_EVENT:
		return event->data.scalar.anchor;
	case YAML_SEQUENCE_START_EVENT:
		return event->data.sequence_start.anchor;
	case YAML_MAPPING_START_EVENT:
		return event->data.mapping_start.anchor;
	default:
		return NULL;
	}
}

static int read_node(struct reader *reader, unsigned depth, bool is_key, struct box_yaml *ret_node)
{
	int r = count_values(reader, 1);
	if (r < 0) {
		return r;
	}
	if (depth >= BOX_SKILL_META_DEPTH_MAX) {
		return refuse(reader, "lists and maps are too deep");
	}
	if (reader->event.type == YAML_ALIAS_EVENT) {
		return read_alias(reader, ret_node);
	}
	const char *anchor = (const char *)anchor_of(&reader->event);
	if (anchor) {
		anchor = box_arena_strndup(reader->arena, anchor, strlen(anchor));
	}
	r = read_whole(reader, depth, is_key, ret_node);
	return r < 0 || !anchor ? r : set_anchor(reader, anchor, ret_node);
}

/* The next event, which must not be another document. */
static int expect_end(struct reader *reader)
{
	reader->field = (struct box_str){NULL, 0};
	int r = next_event(reader); /* the end of the document */
	if (r < 0) {
		return r;
	}
	r = next_event(reader);
	if (r < 0) {
		return r;
	}
	return reader->event.type == YAML_STREAM_END_EVENT
		? 0
		: refuse(reader, "only one document is allowed");
}

static int read_stream(struct reader *reader, struct box_yaml *ret_root)
{
	int r = next_event(reader); /* the start of the stream */
	if (r < 0) {
		return r;
	}
	r = next_event(reader);
	if (r < 0 || reader->event.type == YAML_STREAM_END_EVENT) {
		return r;
	}
	r = next_event(reader);
	if (r < 0) {
		return r;
	}
	r = read_node(reader, 0, false, ret_root);
	return r < 0 ? r : expect_end(reader);
}

int box_yaml_read(struct box_arena *arena, struct box_str text, size_t first_line,
	struct box_yaml *ret_root, size_t *ret_values, struct box_err *err)
{
	struct reader reader = {.arena = arena, .first_line = first_line, .err = err};
	struct box_yaml root = {.type = BOX_YAML_NULL};
	*ret_values = 0;
	if (text.len > BOX_SKILL_META_BYTES_MAX) {
		return box_err_set(err, BOX_ERR_VALIDATION, EINVAL,
			"Skill front matter exceeds the %lu-byte limit", BOX_SKILL_META_BYTES_MAX);
	}
	if (!yaml_parser_initialize(&reader.parser)) {
		return box_err_set(err, BOX_ERR_VALIDATION, ENOMEM, "out of memory");
	}
	/* Set, not detected: a byte order mark must not turn the text into UTF-16. */
	yaml_parser_set_encoding(&reader.parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&reader.parser, (const unsigned char *)text.bytes, text.len);
	int r = read_stream(&reader, &root);
	if (reader.has_event) {
		yaml_event_delete(&reader.event);
	}
	yaml_parser_delete(&reader.parser);
	free(reader.pending.items);
	*ret_values = reader.values;
	if (r == 0) {
		*ret_root = root;
	}
	return r;
}

const struct box_yaml *box_yaml_get(const struct box_yaml *map, const char *key)
{
	if (map->type != BOX_YAML_MAP) {
		return NULL;
	}
	for (size_t i = 0; i < map->count; i++) {
		const struct box_yaml *at = &map->items[2 * i];
		if (at->type == BOX_YAML_TEXT && box_str_eq(at->text, key)) {
			return at + 1;
		}
	}
	return NULL;
}

/* -- as text ---------------------------------------------------------------------------------- */

static struct box_yaml text_node(const char *text)
{
	return (struct box_yaml){.type = BOX_YAML_TEXT, .text = box_str(text)};
}

static struct box_yaml list_of_value(struct box_arena *arena, const struct box_value *value)
{
	struct box_yaml node = {.type = BOX_YAML_LIST, .count = value->count};
	node.items = box_arena_alloc(arena, value->count * sizeof(node));
	for (size_t i = 0; i < value->count; i++) {
		node.items[i] = box_yaml_of_value(arena, &value->items[i]);
	}
	return node;
}

static struct box_yaml map_of_value(struct box_arena *arena, const struct box_value *value)
{
	struct box_yaml node = {.type = BOX_YAML_MAP, .count = value->count};
	node.items = box_arena_alloc(arena, value->count * 2 * sizeof(node));
	for (size_t i = 0; i < value->count; i++) {
		struct box_value key = box_text(value->pairs[i].key);
		node.items[2 * i] = box_yaml_of_value(arena, &key);
		node.items[2 * i + 1] = box_yaml_of_value(arena, &value->pairs[i].value);
	}
	return node;
}

struct box_yaml box_yaml_of_value(struct box_arena *arena, const struct box_value *value)
{
	switch (value->type) {
	case BOX_NULL:
		return (struct box_yaml){.type = BOX_YAML_NULL};
	case BOX_BOOL:
		return text_node(value->boolean ? "true" : "false");
	case BOX_INT:
		return text_node(box_arena_printf(arena, "%" PRId64, value->integer));
	case BOX_REAL:
		return text_node(box_arena_printf(arena, "%.15g", value->real));
	case BOX_LIST:
		return list_of_value(arena, value);
	case BOX_MAP:
		return map_of_value(arena, value);
	default:
		return (struct box_yaml){.type = BOX_YAML_TEXT, .text = value->str};
	}
}

static int append_many(struct box_buf *out, const struct box_yaml *node)
{
	bool is_map = node->type == BOX_YAML_MAP;
	size_t count = is_map ? 2 * node->count : node->count;
	int r = box_buf_append_str(out, is_map ? "{" : "[");
	for (size_t i = 0; i < count && r == 0; i++) {
		const char *before = i == 0 ? "" : is_map && i % 2 == 1 ? ": " : ", ";
		r = box_buf_append_str(out, before);
		if (r == 0) {
			r = box_yaml_append_text(out, &node->items[i]);
		}
	}
	if (r < 0) {
		return r;
	}
	return box_buf_append_str(out, is_map ? "}" : "]");
}

int box_yaml_append_text(struct box_buf *out, const struct box_yaml *node)
{
	switch (node->type) {
	case BOX_YAML_LIST:
	case BOX_YAML_MAP:
		return append_many(out, node);
	case BOX_YAML_TEXT:
		return box_buf_append(out, node->text.bytes, node->text.len);
	default:
		return box_buf_append_str(out, "null");
	}
}
