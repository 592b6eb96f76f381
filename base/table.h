/* A hash table from byte strings to pointers.
 *
 * Keys are copied. The hash has a random key per process, so clients cannot construct collisions.
 * During a walk with box_table_next the entry just returned may be removed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/value.h"

struct box_table_entry;

struct box_table {
	struct box_table_entry **buckets;
	size_t bucket_count;
	size_t count;
};

void *box_table_get(const struct box_table *table, struct box_str key);

/* Sets a value, which is not NULL, and returns the one it replaces, or NULL. */
void *box_table_put(struct box_table *table, struct box_str key, void *value);

/* Removes the entry and returns its value, or NULL. */
void *box_table_remove(struct box_table *table, struct box_str key);

/* Walks all entries: start with *position = 0. NULL at the end. */
void *box_table_next(const struct box_table *table, uint64_t *position, struct box_str *ret_key);

/* The table's hash function, with the secret key of this process. */
uint64_t box_table_hash(struct box_str key);

/* Frees the table, not the values. */
void box_table_free(struct box_table *table);
