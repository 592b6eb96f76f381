/* Chained buckets, doubled as they fill. Entries keep their hash, so growing copies nothing. */
#include "base/table.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/arena.h"

#define FIRST_BUCKETS 16

struct box_table_entry {
	struct box_table_entry *next;
	void *value;
	uint64_t hash;
	size_t key_len;
	char key[];
};

static uint64_t seed(void)
{
	static uint64_t value;
	while (value == 0) {
		if (getrandom(&value, sizeof(value), 0) != (ssize_t)sizeof(value)) {
			abort();
		}
	}
	return value;
}

/* FNV-1a over a secret start, with a final mix so that the low bits depend on every byte. */
static uint64_t hash_of(struct box_str key)
{
	uint64_t hash = seed();
	for (size_t i = 0; i < key.len; i++) {
		hash = (hash ^ (unsigned char)key.bytes[i]) * 0x100000001b3ULL;
	}
	hash ^= hash >> 32;
	hash *= 0x9e3779b97f4a7c15ULL;
	return hash ^ (hash >> 29);
}

static struct box_table_entry **find(const struct box_table *table, struct box_str key, uint64_t hash)
{
	struct box_table_entry **place = &table->buckets[hash & (table->bucket_count - 1)];
	while (*place) {
		struct box_table_entry *entry = *place;
		if (entry->hash == hash &&
			box_str_same((struct box_str){entry->key, entry->key_len}, key)) {
			break;
		}
		place = &entry->next;
	}
	return place;
}

static void grow(struct box_table *table)
{
	size_t count = table->bucket_count ? table->bucket_count * 2 : FIRST_BUCKETS;
	struct box_table_entry **buckets = box_alloc(count * sizeof(struct box_table_entry *));
	for (size_t i = 0; i < table->bucket_count; i++) {
		struct box_table_entry *entry = table->buckets[i];
		while (entry) {
			struct box_table_entry *next = entry->next;
			entry->next = buckets[entry->hash & (count - 1)];
			buckets[entry->hash & (count - 1)] = entry;
			entry = next;
		}
	}
	free(table->buckets);
	table->buckets = buckets;
	table->bucket_count = count;
}

void *box_table_get(const struct box_table *table, struct box_str key)
{
	if (table->count == 0) {
		return NULL;
	}
	struct box_table_entry *entry = *find(table, key, hash_of(key));
	return entry ? entry->value : NULL;
}

void *box_table_put(struct box_table *table, struct box_str key, void *value)
{
	if (table->count >= table->bucket_count) {
		grow(table);
	}
	uint64_t hash = hash_of(key);
	struct box_table_entry **place = find(table, key, hash);
	if (*place) {
		void *old = (*place)->value;
		(*place)->value = value;
		return old;
	}
	struct box_table_entry *entry = box_alloc(sizeof(*entry) + key.len);
	entry->value = value;
	entry->hash = hash;
	entry->key_len = key.len;
	memcpy(entry->key, key.bytes, key.len);
	*place = entry;
	table->count++;
	return NULL;
}

void *box_table_remove(struct box_table *table, struct box_str key)
{
	if (table->count == 0) {
		return NULL;
	}
	struct box_table_entry **place = find(table, key, hash_of(key));
	struct box_table_entry *entry = *place;
	if (!entry) {
		return NULL;
	}
	void *value = entry->value;
	*place = entry->next;
	free(entry);
	table->count--;
	return value;
}

/* A position is (bucket << 32 | index in chain): the entry before it may go without harm only when
 * the walk steps back by one, so the index counts entries still to skip from the chain's end. */
void *box_table_next(const struct box_table *table, uint64_t *position, struct box_str *ret_key)
{
	size_t bucket = (size_t)(*position >> 32);
	uint32_t left = (uint32_t)*position; /* 0: this bucket is not begun */
	for (; bucket < table->bucket_count; bucket++, left = 0) {
		uint32_t length = 0;
		for (struct box_table_entry *e = table->buckets[bucket]; e; e = e->next) {
			length++;
		}
		uint32_t remaining = left == 0 ? length : left - 1;
		if (remaining == 0) {
			continue;
		}
		struct box_table_entry *entry = table->buckets[bucket];
		for (uint32_t skip = length > remaining ? length - remaining : 0; skip > 0; skip--) {
			entry = entry->next;
		}
		*position = ((uint64_t)bucket << 32) | remaining;
		if (ret_key) {
			*ret_key = (struct box_str){entry->key, entry->key_len};
		}
		return entry->value;
	}
	*position = (uint64_t)bucket << 32;
	return NULL;
}

void box_table_free(struct box_table *table)
{
	for (size_t i = 0; i < table->bucket_count; i++) {
		struct box_table_entry *entry = table->buckets[i];
		while (entry) {
			struct box_table_entry *next = entry->next;
			free(entry);
			entry = next;
		}
	}
	free(table->buckets);
	*table = (struct box_table){0};
}
