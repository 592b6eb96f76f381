/* The hash table. */
#include "base/table.h"
#include "base/value.h"
#include "tests/unit/lib/test.h"

#define KEYS 10000

static struct box_str key_of(int i, char *room, size_t size)
{
	int len = snprintf(room, size, "key-%d", i);
	return (struct box_str){room, (size_t)len};
}

static void fill(struct box_table *table, int *numbers)
{
	char room[32];
	for (int i = 0; i < KEYS; i++) {
		ASSERT(box_table_put(table, key_of(i, room, sizeof(room)), &numbers[i]) == NULL);
	}
	ASSERT_INT(table->count, KEYS);
}

TEST(table_many)
{
	static int numbers[KEYS];
	struct box_table table = {0};
	char room[32];
	ASSERT(box_table_get(&table, box_str("x")) == NULL);
	ASSERT(box_table_remove(&table, box_str("x")) == NULL);
	fill(&table, numbers);
	for (int i = 0; i < KEYS; i++) {
		ASSERT(box_table_get(&table, key_of(i, room, sizeof(room))) == &numbers[i]);
	}
	ASSERT(box_table_put(&table, box_str("key-5"), &numbers[6]) == &numbers[5]);
	ASSERT_INT(table.count, KEYS);
	ASSERT(box_table_put(&table, box_str("key-5"), &numbers[5]) == &numbers[6]);
	for (int i = 0; i < KEYS; i += 2) {
		ASSERT(box_table_remove(&table, key_of(i, room, sizeof(room))) == &numbers[i]);
	}
	ASSERT_INT(table.count, KEYS / 2);
	for (int i = 0; i < KEYS; i++) {
		void *expected = i % 2 ? &numbers[i] : NULL;
		ASSERT(box_table_get(&table, key_of(i, room, sizeof(room))) == expected);
		ASSERT(box_table_remove(&table, key_of(i, room, sizeof(room))) == expected);
	}
	ASSERT_INT(table.count, 0);
	box_table_free(&table);
	ASSERT(table.buckets == NULL);
	box_table_free(&table);
}

/* Walks the table and removes every entry for which i % keep != 0; each must be seen once. */
static void walk_removing(int keep)
{
	static int seen[KEYS];
	struct box_table table = {0};
	struct box_str key;
	uint64_t position = 0;
	int *number;
	memset(seen, 0, sizeof(seen));
	fill(&table, seen);
	while ((number = box_table_next(&table, &position, &key))) {
		char room[32];
		int i = (int)(number - seen);
		ASSERT(box_str_same(key, key_of(i, room, sizeof(room))));
		ASSERT_INT(++*number, 1);
		if (keep == 0 || i % keep != 0) {
			ASSERT(box_table_remove(&table, key_of(i, room, sizeof(room))) == number);
		}
	}
	for (int i = 0; i < KEYS; i++) {
		ASSERT_INT(seen[i], 1);
	}
	ASSERT_INT(table.count, keep ? (KEYS + keep - 1) / keep : 0);
	ASSERT(box_table_next(&table, &position, NULL) == NULL);
	box_table_free(&table);
}

TEST(table_walk)
{
	walk_removing(1); /* removes none */
	walk_removing(2);
	walk_removing(3);
	walk_removing(0); /* removes all */
	struct box_table empty = {0};
	uint64_t position = 0;
	ASSERT(box_table_next(&empty, &position, NULL) == NULL);
}

TEST(table_odd_keys)
{
	const struct box_str keys[] = {{"", 0}, {"\0", 1}, {"\0\0", 2}, {"a", 1}, {"a\0", 2},
		{"a\0b", 3}, {"a\0c", 3}, {"12345678", 8}, {"12345678\0", 9}};
	int numbers[COUNT(keys)];
	struct box_table table = {0};
	for (size_t i = 0; i < COUNT(keys); i++) {
		ASSERT(box_table_put(&table, keys[i], &numbers[i]) == NULL);
	}
	for (size_t i = 0; i < COUNT(keys); i++) {
		ASSERT(box_table_get(&table, keys[i]) == &numbers[i]);
		ASSERT(box_table_hash(keys[i]) == box_table_hash(keys[i]));
	}
	ASSERT(box_table_get(&table, (struct box_str){NULL, 0}) == &numbers[0]);
	ASSERT(box_table_remove(&table, keys[0]) == &numbers[0]);
	ASSERT(box_table_get(&table, keys[1]) == &numbers[1]);
	ASSERT(box_table_put(&table, (struct box_str){NULL, 0}, &numbers[0]) == NULL);
	ASSERT(box_table_get(&table, keys[0]) == &numbers[0]);
	box_table_free(&table);
}
