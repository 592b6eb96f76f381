/* Finds a key that a map names twice. Two readers of such a message could see two different things,
 * so both codecs refuse it. Small maps, nearly all there are, are compared pair by pair; larger ones
 * go through a hash table. The hash (SipHash-1-3) has a secret key of this process: without it
 * nobody can prepare keys that fall into one place.
 */
#include "transport/keys.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/arena.h"

#define PAIRWISE_MAX 16

struct slot {
	uint32_t hash;
	uint32_t place; /* index of the pair plus 1, 0: free */
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

static uint32_t hash_of(struct box_str key)
{
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
	uint64_t sum = v[0] ^ v[1] ^ v[2] ^ v[3];
	return (uint32_t)(sum ^ sum >> 32);
}

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
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	(void)pthread_once(&once, take_secret);

	size_t slots = PAIRWISE_MAX * 2;
	while (slots < (size_t)count * 2) {
		slots *= 2;
	}
	struct slot *table = box_arena_alloc(arena, slots * sizeof(*table));
	for (uint32_t i = 0; i < count; i++) {
		uint32_t hash = hash_of(pairs[i].key);
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
