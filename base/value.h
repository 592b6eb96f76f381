/* The value tree: the content of a message, whichever format it came in.
 *
 * JSON and msgpack are decoded into it and encoded from it (codec/). Trees live in an arena and are
 * never freed piece by piece. Strings are valid UTF-8 with a length, not NUL-terminated, and may
 * contain NUL; bin is arbitrary bytes and exists in msgpack only.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#pragma GCC visibility push(default)

struct box_arena;

enum box_type {
	BOX_NULL,
	BOX_BOOL,
	BOX_INT,
	BOX_REAL,
	BOX_STR,
	BOX_BIN,
	BOX_LIST,
	BOX_MAP,
};

struct box_str {
	const char *bytes;
	size_t len;
};

struct box_value {
	enum box_type type;
	uint32_t count; /* items of a list, pairs of a map */
	union {
		bool boolean;
		int64_t integer;
		double real;
		struct box_str str; /* BOX_STR and BOX_BIN */
		struct {
			struct box_value *items;
			uint32_t items_room;
		};
		struct {
			struct box_pair *pairs; /* keys are unique, order is kept */
			uint32_t pairs_room;
		};
	};
};

struct box_pair {
	struct box_str key;
	struct box_value value;
};

static inline struct box_str box_str(const char *text)
{
	return (struct box_str){text, strlen(text)};
}
static inline bool box_str_eq(struct box_str a, const char *b)
{
	return a.len == strlen(b) && memcmp(a.bytes, b, a.len) == 0;
}
static inline bool box_str_same(struct box_str a, struct box_str b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.bytes, b.bytes, a.len) == 0);
}
/* True when the string contains NUL and so cannot become a path, an argument or a variable. */
static inline bool box_str_has_nul(struct box_str s)
{
	return s.len > 0 && memchr(s.bytes, '\0', s.len) != NULL;
}
/* Without ASCII white space at both ends. */
struct box_str box_str_strip(struct box_str s);

static inline struct box_value box_null(void)
{
	return (struct box_value){.type = BOX_NULL};
}
static inline struct box_value box_bool(bool boolean)
{
	return (struct box_value){.type = BOX_BOOL, .boolean = boolean};
}
static inline struct box_value box_int(int64_t integer)
{
	return (struct box_value){.type = BOX_INT, .integer = integer};
}
static inline struct box_value box_real(double real)
{
	return (struct box_value){.type = BOX_REAL, .real = real};
}
static inline struct box_value box_bin(struct box_str str)
{
	return (struct box_value){.type = BOX_BIN, .str = str};
}
static inline struct box_value box_text(struct box_str str)
{
	return (struct box_value){.type = BOX_STR, .str = str};
}
/* The text is not copied: it must outlive the tree. NULL becomes null. */
static inline struct box_value box_cstr(const char *text)
{
	return text ? box_text(box_str(text)) : box_null();
}
static inline struct box_value box_list_value(void)
{
	return (struct box_value){.type = BOX_LIST};
}
static inline struct box_value box_map_value(void)
{
	return (struct box_value){.type = BOX_MAP};
}

/* Appends to a list or a map. `key` is not copied and must not be in the map yet. The returned pointer
 * is valid until the next append to the same list or map. */
struct box_value *box_list_add(
	struct box_arena *arena, struct box_value *list, struct box_value item);
struct box_value *box_map_add(
	struct box_arena *arena, struct box_value *map, const char *key, struct box_value value);
/* As box_map_add, for keys that are not literals. */
struct box_value *box_map_add_str(
	struct box_arena *arena, struct box_value *map, struct box_str key, struct box_value value);
/* As box_map_add, but replaces the value of an existing key. */
void box_map_set(
	struct box_arena *arena, struct box_value *map, struct box_str key, struct box_value value);

/* The value of a key, or NULL when `map` is not a map or lacks the key. */
const struct box_value *box_map_get(const struct box_value *map, const char *key);

/* A deep copy into another arena. */
struct box_value box_value_copy(struct box_arena *arena, const struct box_value *value);

/* "null", "bool", "int", "float", "str", "bytes", "list", "map": for error messages. */
const char *box_type_name(enum box_type type);

#pragma GCC visibility pop
