/* Builds, searches and copies value trees. */
#include "base/value.h"

#include "base/arena.h"

#define FIRST_ROOM 8

static bool is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

struct box_str box_str_strip(struct box_str s)
{
	while (s.len > 0 && is_space(s.bytes[0])) {
		s.bytes++;
		s.len--;
	}
	while (s.len > 0 && is_space(s.bytes[s.len - 1])) {
		s.len--;
	}
	return s;
}

/* An array of twice the size with the old content; the old array stays in the arena. */
static void *grown(
	struct box_arena *arena, const void *old, uint32_t count, uint32_t *room, size_t size)
{
	*room = *room ? *room * 2 : FIRST_ROOM;
	void *fresh = box_arena_alloc(arena, *room * size);
	if (count > 0) {
		memcpy(fresh, old, count * size);
	}
	return fresh;
}

struct box_value *box_list_add(
	struct box_arena *arena, struct box_value *list, struct box_value item)
{
	if (list->count >= list->items_room) {
		list->items = grown(
			arena, list->items, list->count, &list->items_room, sizeof(*list->items));
	}
	struct box_value *place = &list->items[list->count++];
	*place = item;
	return place;
}

struct box_value *box_map_add_str(
	struct box_arena *arena, struct box_value *map, struct box_str key, struct box_value value)
{
	if (map->count >= map->pairs_room) {
		map->pairs = grown(
			arena, map->pairs, map->count, &map->pairs_room, sizeof(*map->pairs));
	}
	struct box_pair *pair = &map->pairs[map->count++];
	pair->key = key;
	pair->value = value;
	return &pair->value;
}

struct box_value *box_map_add(
	struct box_arena *arena, struct box_value *map, const char *key, struct box_value value)
{
	return box_map_add_str(arena, map, box_str(key), value);
}

void box_map_set(
	struct box_arena *arena, struct box_value *map, struct box_str key, struct box_value value)
{
	for (uint32_t i = 0; i < map->count; i++) {
		if (box_str_same(map->pairs[i].key, key)) {
			map->pairs[i].value = value;
			return;
		}
	}
	box_map_add_str(arena, map, key, value);
}

const struct box_value *box_map_get(const struct box_value *map, const char *key)
{
	if (!map || map->type != BOX_MAP) {
		return NULL;
	}
	struct box_str wanted = box_str(key);
	for (uint32_t i = 0; i < map->count; i++) {
		if (box_str_same(map->pairs[i].key, wanted)) {
			return &map->pairs[i].value;
		}
	}
	return NULL;
}

static struct box_str str_copy(struct box_arena *arena, struct box_str s)
{
	return (struct box_str){box_arena_strndup(arena, s.bytes, s.len), s.len};
}

/* Depth is at most BOX_MESSAGE_DEPTH_MAX: every tree comes from a decoder or from our own code. */
struct box_value box_value_copy(struct box_arena *arena, const struct box_value *value)
{
	struct box_value copy = *value;
	switch (value->type) {
	case BOX_STR:
	case BOX_BIN:
		copy.str = str_copy(arena, value->str);
		break;
	case BOX_LIST:
		copy = box_list_value();
		for (uint32_t i = 0; i < value->count; i++) {
			box_list_add(arena, &copy, box_value_copy(arena, &value->items[i]));
		}
		break;
	case BOX_MAP:
		copy = box_map_value();
		for (uint32_t i = 0; i < value->count; i++) {
			box_map_add_str(arena, &copy, str_copy(arena, value->pairs[i].key),
				box_value_copy(arena, &value->pairs[i].value));
		}
		break;
	default:
		break;
	}
	return copy;
}

const char *box_type_name(enum box_type type)
{
	static const char *const names[] = {
		[BOX_NULL] = "null",
		[BOX_BOOL] = "bool",
		[BOX_INT] = "int",
		[BOX_REAL] = "float",
		[BOX_STR] = "str",
		[BOX_BIN] = "bytes",
		[BOX_LIST] = "list",
		[BOX_MAP] = "map",
	};
	return names[type];
}
