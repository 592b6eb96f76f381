/* The libyaml adapter of skills: front matter becomes a tree. Strangers write front matter, so depth,
 * count, anchors and aliases are bounded while reading; an alias shares what it stands for and copies
 * nothing. Keys, merges and tags mean what they mean to PyYAML's safe_load.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/limits.h"
#include "base/macros.h"
#include "base/table.h"
#include "skills/text/yaml.h"

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
		return refuse_at(
			reader, reader->parser.problem_mark, problem ? problem : "is no YAML");
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

/* What came after `from`, in the arena and as large as it is: growing there would leave every smaller
 * array behind. */
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

/* An anchor counts from the end of its node on, so nothing can contain itself. */
static int set_anchor(struct reader *reader, const char *name, const struct box_yaml *node)
{
	if (find_anchor(reader, name)) {
		return refuse(reader, "this anchor stands here a second time");
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
		return refuse(reader, "this alias stands for nothing that is complete");
	}
	if (++reader->aliases > BOX_SKILL_META_ALIASES_MAX) {
		return refuse(reader, "has too many aliases");
	}
	*ret_node = anchor->node;
	return 0;
}

/* -- nodes ------------------------------------------------------------------------------------ */

static int read_node(struct reader *reader, unsigned depth, bool is_key, struct box_yaml *ret_node);

static int tagged_type(struct reader *reader, const char *tag, enum box_yaml_type *ret_type)
{
	static const struct {
		const char *tag;
		enum box_yaml_type type;
	} rows[] = {
		{YAML_STR_TAG, BOX_YAML_TEXT},
		{"!", BOX_YAML_TEXT},
		{YAML_NULL_TAG, BOX_YAML_NULL},
		{YAML_BOOL_TAG, BOX_YAML_BOOL},
		{YAML_INT_TAG, BOX_YAML_INT},
		{YAML_FLOAT_TAG, BOX_YAML_REAL},
		{YAML_TIMESTAMP_TAG, BOX_YAML_TIME},
	};
	for (size_t i = 0; i < BOX_COUNT_OF(rows); i++) {
		if (strcmp(tag, rows[i].tag) == 0) {
			*ret_type = rows[i].type;
			return 0;
		}
	}
	return refuse(reader, "this tag is not known");
}

static int read_scalar(struct reader *reader, bool is_key, struct box_yaml *ret_node)
{
	size_t len = reader->event.data.scalar.length;
	struct box_str text = {box_arena_strndup(reader->arena,
				       (const char *)reader->event.data.scalar.value, len),
		len};
	const char *tag = (const char *)reader->event.data.scalar.tag;
	enum box_yaml_type type = BOX_YAML_TEXT;
	if (tag) {
		int r = tagged_type(reader, tag, &type);
		if (r < 0) {
			return r;
		}
	} else if (reader->event.data.scalar.plain_implicit) {
		type = box_yaml_type_of(text);
	}
	if (type == BOX_YAML_VALUE && is_key) {
		type = BOX_YAML_TEXT;
	}
	if (type == BOX_YAML_VALUE || (type == BOX_YAML_MERGE && !is_key)) {
		return refuse(reader, "has a plain \"=\" or \"<<\", which is no value");
	}
	const char *why = box_yaml_scalar(reader->arena, type, text, ret_node);
	return why ? refuse(reader, why) : 0;
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
	*ret_node = (struct box_yaml){.type = BOX_YAML_LIST,
		.is_true = count > 0,
		.items = take_items(reader, from),
		.count = count};
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

/* Of a list the first map counts most, so it comes last. */
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

/* The place that a key had when it was first asked for; `next` for one that was not. */
static size_t place_in(
	struct reader *reader, struct box_table *places, const struct box_yaml *key, size_t next)
{
	char *name = box_arena_bytes(reader->arena, key->text.len + 1);
	name[0] = (char)('a' + (int)key->type);
	memcpy(name + 1, key->text.bytes, key->text.len);
	struct box_str whole = {name, key->text.len + 1};
	size_t *place = box_table_get(places, whole);
	if (!place) {
		place = box_arena_alloc(reader->arena, sizeof(*place));
		*place = next;
		(void)box_table_put(places, whole, place);
	}
	return *place;
}

/* A key stays where it was first, with the value that came last: a Python dict. In place; how much is
 * left of the keys and values. */
static size_t settle_keys(struct reader *reader, struct box_yaml *pairs, size_t count)
{
	struct box_table places = {0};
	bool many = count > (size_t)2 * FEW_KEYS;
	size_t kept = 0;
	for (size_t i = 0; i < count; i += 2) {
		size_t place = many ? place_in(reader, &places, &pairs[i], kept)
				    : find_key(pairs, kept, &pairs[i]);
		if (place == kept) {
			pairs[kept++] = pairs[i];
			pairs[kept++] = pairs[i + 1];
		} else {
			pairs[place + 1] = pairs[i + 1];
		}
	}
	box_table_free(&places);
	return kept;
}

/* The pairs after `from` become a map. What is merged counts before all that is the map's own. */
static struct box_yaml make_map(struct reader *reader, size_t from, struct items *merged)
{
	struct items *pending = &reader->pending;
	size_t own = pending->count - from;
	size_t count = settle_keys(reader, pending->items + from, own);
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
	return (struct box_yaml){.type = BOX_YAML_MAP,
		.is_true = count > 0,
		.items = take_items(reader, from),
		.count = count / 2};
}

/* One key with its value, both after the others; a merge goes where merges go. */
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
	r = r < 0 ? r : read_node(reader, depth, false, &value);
	if (r == 0 && key.type == BOX_YAML_MERGE) {
		return merge(reader, merged, &value);
	}
	if (r == 0) {
		add_item(&reader->pending, key);
		add_item(&reader->pending, value);
	}
	return r;
}

static int read_map(struct reader *reader, unsigned depth, struct box_yaml *ret_node)
{
	struct items merged = {0};
	size_t from = reader->pending.count;
	int r = next_event(reader);
	while (r == 0 && reader->event.type != YAML_MAPPING_END_EVENT) {
		r = read_pair(reader, depth, &merged);
		r = r < 0 ? r : next_event(reader);
	}
	if (r == 0) {
		*ret_node = make_map(reader, from, &merged);
	}
	free(merged.items);
	return r;
}

static bool is_tagged(const yaml_char_t *tag, const char *usual)
{
	return tag && strcmp((const char *)tag, usual) != 0;
}

static int read_whole(struct reader *reader, unsigned depth, bool is_key, struct box_yaml *ret_node)
{
	switch (reader->event.type) {
	case YAML_SCALAR_EVENT:
		return read_scalar(reader, is_key, ret_node);
	case YAML_SEQUENCE_START_EVENT:
		if (is_tagged(reader->event.data.sequence_start.tag, YAML_SEQ_TAG)) {
			return refuse(reader, "this tag is not known");
		}
		return read_list(reader, depth + 1, ret_node);
	case YAML_MAPPING_START_EVENT:
		if (is_tagged(reader->event.data.mapping_start.tag, YAML_MAP_TAG)) {
			return refuse(reader, "this tag is not known");
		}
		return read_map(reader, depth + 1, ret_node);
	default:
		return refuse(reader, "is no YAML");
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

static int read_stream(struct reader *reader, struct box_yaml *ret_root)
{
	int r = next_event(reader);
	r = r < 0 ? r : next_event(reader);
	if (r < 0 || reader->event.type == YAML_STREAM_END_EVENT) {
		return r;
	}
	r = next_event(reader);
	r = r < 0 ? r : read_node(reader, 0, false, ret_root);
	reader->field = (struct box_str){NULL, 0};
	r = r < 0 ? r : next_event(reader);
	r = r < 0 ? r : next_event(reader);
	if (r == 0 && reader->event.type != YAML_STREAM_END_EVENT) {
		return refuse(reader, "only one document is allowed");
	}
	return r;
}

int box_yaml_read(struct box_arena *arena, struct box_str text, size_t first_line,
	struct box_yaml *ret_root, size_t *ret_values, struct box_err *err)
{
	struct reader reader = {.arena = arena, .first_line = first_line, .err = err};
	struct box_yaml root = {.type = BOX_YAML_NULL, .text = box_str("None")};
	*ret_values = 0;
	if (text.len > BOX_SKILL_META_BYTES_MAX) {
		return box_err_set(err, BOX_ERR_VALIDATION, EINVAL,
			"Skill front matter exceeds the %lu-byte limit", BOX_SKILL_META_BYTES_MAX);
	}
	if (!yaml_parser_initialize(&reader.parser)) {
		return box_err_set(err, BOX_ERR_VALIDATION, ENOMEM, "out of memory");
	}
	/* Said, not guessed: a byte order mark must not turn the text into UTF-16. */
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
