/* str() and repr() of YAML trees and of values in messages, as Python prints them. */
#include <errno.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/buf.h"
#include "skills/text/pytext.h"
#include "skills/text/yaml.h"

#define REAL_TEXT_MAX 64

struct box_yaml box_yaml_of_value(struct box_arena *arena, const struct box_value *value)
{
	struct box_yaml node = {.is_true = box_pytext_is_true(value)};
	struct box_buf real = box_buf(REAL_TEXT_MAX);
	switch (value->type) {
	case BOX_NULL:
		node.type = BOX_YAML_NULL;
		node.text = box_str("None");
		break;
	case BOX_BOOL:
		node.type = BOX_YAML_BOOL;
		node.text = box_str(value->boolean ? "True" : "False");
		break;
	case BOX_INT:
		node.type = BOX_YAML_INT;
		node.text = box_str(box_arena_printf(arena, "%lld", (long long)value->integer));
		break;
	case BOX_REAL:
		node.type = BOX_YAML_REAL;
		(void)box_pytext_repr_real(&real, value->real);
		node.text = (struct box_str){
			box_arena_strndup(arena, real.bytes, real.len), real.len};
		box_buf_free(&real);
		break;
	case BOX_STR:
	case BOX_BIN:
		node.type = value->type == BOX_STR ? BOX_YAML_TEXT : BOX_YAML_BYTES;
		node.text = value->str;
		break;
	case BOX_LIST:
		node.type = BOX_YAML_LIST;
		node.count = value->count;
		node.items = box_arena_alloc(arena, value->count * sizeof(node));
		for (size_t i = 0; i < value->count; i++) {
			node.items[i] = box_yaml_of_value(arena, &value->items[i]);
		}
		break;
	case BOX_MAP:
		node.type = BOX_YAML_MAP;
		node.count = value->count;
		node.items = box_arena_alloc(arena, value->count * 2 * sizeof(node));
		for (size_t i = 0; i < value->count; i++) {
			struct box_value key = box_text(value->pairs[i].key);
			node.items[2 * i] = box_yaml_of_value(arena, &key);
			node.items[2 * i + 1] = box_yaml_of_value(arena, &value->pairs[i].value);
		}
		break;
	}
	return node;
}

static int repr_many(struct box_buf *out, const struct box_yaml *node)
{
	bool is_map = node->type == BOX_YAML_MAP;
	int r = box_buf_append(out, is_map ? "{" : "[", 1);
	for (size_t i = 0; i < node->count && r == 0; i++) {
		r = i > 0 ? box_buf_append(out, ", ", 2) : 0;
		if (r == 0 && is_map) {
			r = box_yaml_repr(out, &node->items[2 * i]);
			r = r < 0 ? r : box_buf_append(out, ": ", 2);
		}
		r = r < 0 ? r : box_yaml_repr(out, &node->items[is_map ? 2 * i + 1 : i]);
	}
	return r < 0 ? r : box_buf_append(out, is_map ? "}" : "]", 1);
}

int box_yaml_repr(struct box_buf *out, const struct box_yaml *node)
{
	switch (node->type) {
	case BOX_YAML_TEXT:
		return box_pytext_repr_text(out, node->text);
	case BOX_YAML_BYTES:
		return box_pytext_repr_bytes(out, node->text);
	case BOX_YAML_TIME:
		return box_buf_append(out, node->repr.bytes, node->repr.len);
	case BOX_YAML_LIST:
	case BOX_YAML_MAP:
		return repr_many(out, node);
	default:
		return box_buf_append(out, node->text.bytes, node->text.len);
	}
}

int box_yaml_str(struct box_buf *out, const struct box_yaml *node)
{
	if (node->type == BOX_YAML_TEXT || node->type == BOX_YAML_TIME) {
		return box_buf_append(out, node->text.bytes, node->text.len);
	}
	return box_yaml_repr(out, node);
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
