/* The last 50 errors, oldest first, with time, kind and query. */
#include <errno.h>

#include "base/arena.h"
#include "client/service/error_ring.h"
#include "tests/unit/lib/test.h"

static const char *text_of(const struct box_value *list, uint32_t at, const char *key)
{
	static char copy[8192];
	const struct box_value *value = box_map_get(&list->items[at], key);
	ASSERT(value != NULL);
	ASSERT_INT(value->type, BOX_STR);
	ASSERT(value->str.len < sizeof(copy));
	memcpy(copy, value->str.bytes, value->str.len);
	copy[value->str.len] = '\0';
	return copy;
}

static void add(struct box_error_ring *ring, int number)
{
	struct box_err err;
	(void)box_err_set(&err, BOX_ERR_CAPACITY, EBUSY, "number %d", number);
	box_error_ring_add(ring, 1763000000000000 + number, &err, box_str("q1"));
}

TEST(nothing_at_first)
{
	struct box_error_ring ring = {0};
	struct box_arena *arena = box_arena_new();
	ASSERT_INT(box_error_ring_list(&ring, arena).count, 0);
	box_arena_free(arena);
	box_error_ring_free(&ring);
}

TEST(time_kind_text_and_query)
{
	struct box_error_ring ring = {0};
	struct box_arena *arena = box_arena_new();
	add(&ring, 7);
	struct box_value list = box_error_ring_list(&ring, arena);
	ASSERT_INT(list.count, 1);
	ASSERT_STR(text_of(&list, 0, "timestamp"), "2025-11-13T02:13:20.000007Z");
	ASSERT_STR(text_of(&list, 0, "type"), "BoxCapacityExceededError");
	ASSERT_STR(text_of(&list, 0, "message"), "number 7");
	ASSERT_STR(text_of(&list, 0, "query_id"), "q1");
	box_arena_free(arena);
	box_error_ring_free(&ring);
}

TEST(the_oldest_go)
{
	struct box_error_ring ring = {0};
	struct box_arena *arena = box_arena_new();
	for (int i = 0; i < 50; i++) {
		add(&ring, i);
	}
	struct box_value list = box_error_ring_list(&ring, arena);
	ASSERT_INT(list.count, 50);
	ASSERT_STR(text_of(&list, 0, "message"), "number 0");
	for (int i = 50; i < 123; i++) {
		add(&ring, i);
	}
	list = box_error_ring_list(&ring, arena);
	ASSERT_INT(list.count, 50);
	ASSERT_STR(text_of(&list, 0, "message"), "number 73");
	ASSERT_STR(text_of(&list, 49, "message"), "number 122");
	box_arena_free(arena);
	box_error_ring_free(&ring);
}

TEST(long_texts_are_cut_at_a_character)
{
	struct box_error_ring ring = {0};
	struct box_arena *arena = box_arena_new();
	struct box_err err = {.code = BOX_ERR_BUSY};
	for (size_t i = 0; i < 2000; i++) {
		memcpy(err.text + 3 * i, "\xe4\xb8\xad", 4);
	}
	box_error_ring_add(&ring, 0, &err, (struct box_str){"", 0});
	struct box_value list = box_error_ring_list(&ring, arena);
	ASSERT_INT(strlen(text_of(&list, 0, "message")), 3 * BOX_SERVICE_ERROR_CHARS_MAX);
	ASSERT_STR(text_of(&list, 0, "type"), "BoxError"); /* an error without a name of its own */
	ASSERT_STR(text_of(&list, 0, "query_id"), "");
	box_arena_free(arena);
	box_error_ring_free(&ring);
}
