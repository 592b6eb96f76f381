/* Finds duplicate keys in a map. Two readers of such a message could understand two different things,
 * so both decoders refuse it. Small maps, nearly all there are, are compared pair by pair; larger ones
 * use a hash table with the seeded hash of base/table.h, so that clients cannot construct colliding
 * keys.
 */
#include "codec/keys.h"

#include "base/arena.h"
#include "base/table.h"

#define PAIRWISE_MAX 16

struct slot {
	uint32_t hash;
	uint32_t place; /* index of the pair plus 1; 0: free */
};

static bool unique_pairwise(const struct box_pair *pairs, uint32_t count)
{
	for (uint32_t i = 1; i < count; i++) {
		for (uint32_t j = 0; j < i; j++) {
			if (box_str_same(pairs[i].key, pairs[j].key)) {
				return false;
			}
		}
	}
	return true;
}

bool box_keys_unique(struct box_arena *arena, const struct box_pair *pairs, uint32_t count)
{
	if (count <= PAIRWISE_MAX) {
		return unique_pairwise(pairs, count);
	}
	size_t slots = PAIRWISE_MAX * 2;
	while (slots < (size_t)count * 2) {
		slots *= 2;
	}
	struct slot *table = box_arena_alloc(arena, slots * sizeof(*table));
	for (uint32_t i = 0; i < count; i++) {
		uint32_t hash = (uint32_t)box_table_hash(pairs[i].key);
		size_t at = hash & (slots - 1);
		while (table[at].place != 0) {
			if (table[at].hash == hash &&
				box_str_same(pairs[table[at].place - 1].key, pairs[i].key)) {
				return false;
			}
			at = (at + 1) & (slots - 1);
		}
		table[at] = (struct slot){hash, i + 1};
	}
	return true;
}
