/* Blocks of ranges, locked by abstract sockets. Ids start at 0x70000000, above those of systemd-nspawn
 * and /etc/subuid, and end below 2^32 - 2. */
#include "boxd/box/id_ranges.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/arena.h"
#include "plan/plan.h"

#define FIRST_ID 0x70000000U
#define RANGES_IN_BLOCK 64U
#define BLOCKS 512U

struct block {
	int socket;     /* holds the lock; -1: the block is not ours */
	uint64_t taken; /* one bit for each range */
};

struct box_id_ranges {
	struct block blocks[BLOCKS];
	uint32_t start; /* where the search for a free block starts: random per process */
};

struct box_id_ranges *box_id_ranges_new(void)
{
	struct box_id_ranges *ids = box_alloc(sizeof(*ids));
	for (uint32_t i = 0; i < BLOCKS; i++) {
		ids->blocks[i].socket = -1;
	}
	if (getrandom(&ids->start, sizeof(ids->start), GRND_NONBLOCK) < 0) {
		ids->start = 0; /* harmless: the locks keep runtimes apart */
	}
	ids->start %= BLOCKS;
	return ids;
}

static void release(struct block *block)
{
	(void)close(block->socket);
	block->socket = -1;
}

void box_id_ranges_free(struct box_id_ranges *ids)
{
	for (uint32_t i = 0; ids && i < BLOCKS; i++) {
		if (ids->blocks[i].socket >= 0) {
			release(&ids->blocks[i]);
		}
	}
	free(ids);
}

static int claim(uint32_t number, struct block *block)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	int len = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "box-ids/%u", number);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		return -errno;
	}
	socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
	if (bind(fd, (const struct sockaddr *)&name, size) < 0) {
		int r = -errno;
		(void)close(fd);
		return r;
	}
	block->socket = fd;
	return 0;
}

static uint32_t take_in(struct box_id_ranges *ids, uint32_t number)
{
	struct block *block = &ids->blocks[number];
	uint32_t range = (uint32_t)__builtin_ctzll(~block->taken);
	block->taken |= 1ULL << range;
	return FIRST_ID + (number * RANGES_IN_BLOCK + range) * BOX_PLAN_ID_COUNT;
}

int box_id_ranges_take(struct box_id_ranges *ids, uint32_t *ret_first)
{
	for (uint32_t i = 0; i < BLOCKS; i++) {
		uint32_t number = (ids->start + i) % BLOCKS;
		struct block *block = &ids->blocks[number];
		if (block->taken == UINT64_MAX) {
			continue;
		}
		int r = block->socket >= 0 ? 0 : claim(number, block);
		if (r == 0) {
			*ret_first = take_in(ids, number);
			return 0;
		}
		if (r != -EADDRINUSE) {
			return r;
		}
	}
	return -EAGAIN;
}

void box_id_ranges_release(struct box_id_ranges *ids, uint32_t first)
{
	uint32_t range = (first - FIRST_ID) / BOX_PLAN_ID_COUNT;
	struct block *block = &ids->blocks[range / RANGES_IN_BLOCK];
	block->taken &= ~(1ULL << (range % RANGES_IN_BLOCK));
	if (block->taken == 0) {
		release(block);
	}
}
