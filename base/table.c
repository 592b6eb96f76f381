/* Chained buckets, doubled as they fill. Entries store their hash, so growing copies no keys. The hash
 * is SipHash-1-3 with a secret key per process. */
#include "base/table.h"

#include <errno.h>
#include <pthread.h>
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

static uint64_t secret[2];

static void take_secret(void)
{
	ssize_t got;
	do {
		got = getrandom(secret, sizeof(secret), 0);
	} while (got < 0 && errno == EINTR);
	if (got != (ssize_t)sizeof(secret)) {
		abort();
	}
}

static uint64_t rotated(uint64_t x, unsigned bits)
{
	return x << bits | x >> (64 - bits);
}

static void mix(uint64_t v[4])
{
	v[0] += v[1];
	v[2] += v[3];
	v[1] = rotated(v[1], 13) ^ v[0];
	v[3] = rotated(v[3], 16) ^ v[2];
	v[0] = rotated(v[0], 32);
	v[2] += v[1];
	v[0] += v[3];
	v[1] = rotated(v[1], 17) ^ v[2];
	v[3] = rotated(v[3], 21) ^ v[0];
	v[2] = rotated(v[2], 32);
}

uint64_t box_table_hash(struct box_str key)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	(void)pthread_once(&once, take_secret);
	uint64_t v[4] = {
		secret[0] ^ 0x736f6d6570736575ULL,
		secret[1] ^ 0x646f72616e646f6dULL,
		secret[0] ^ 0x6c7967656e657261ULL,
		secret[1] ^ 0x7465646279746573ULL,
	};
	size_t left = key.len;
	const char *at = key.bytes;
	uint64_t word = 0;
	for (; left >= sizeof(word); left -= sizeof(word), at += sizeof(word)) {
		memcpy(&word, at, sizeof(word));
		v[3] ^= word;
		mix(v);
		v[0] ^= word;
	}
	word = 0;
	if (left > 0) {
		memcpy(&word, at, left);
	}
	word |= (uint64_t)key.len << 56;
	v[3] ^= word;
	mix(v);
	v[0] ^= word;
	v[2] ^= 0xff;
	mix(v);
	mix(v);
	mix(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static struct box_table_entry **find(
	const struct box_table *table, struct box_str key, uint64_t hash)
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
	struct box_table_entry *entry = *find(table, key, box_table_hash(key));
	return entry ? entry->value : NULL;
}

void *box_table_put(struct box_table *table, struct box_str key, void *value)
{
	if (table->count >= table->bucket_count) {
		grow(table);
	}
	uint64_t hash = box_table_hash(key);
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
	if (key.len > 0) {
		memcpy(entry->key, key.bytes, key.len);
	}
	*place = entry;
	table->count++;
	return NULL;
}

void *box_table_remove(struct box_table *table, struct box_str key)
{
	if (table->count == 0) {
		return NULL;
	}
	struct box_table_entry **place = find(table, key, box_table_hash(key));
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

/* A position is (bucket << 32 | entries left in the chain). Counting from the end of the chain keeps
 * the position valid when the entry just returned is removed. */
void *box_table_next(const struct box_table *table, uint64_t *position, struct box_str *ret_key)
{
	size_t bucket = (size_t)(*position >> 32);
	uint32_t left = (uint32_t)*position; /* 0: the bucket is new */
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
		for (uint32_t skip = length > remaining ? length - remaining : 0; skip > 0;
			skip--) {
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
