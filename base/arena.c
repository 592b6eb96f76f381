/* A bump allocator whose blocks grow. */
#include "base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_BLOCK 2048
#define LARGEST_BLOCK 65536
#define ALIGNMENT _Alignof(max_align_t)

struct block {
	struct block *next;
	size_t used;
	size_t size;
	_Alignas(max_align_t) char bytes[];
};

struct adopted {
	struct adopted *next;
	void *memory;
};

struct box_arena {
	struct block *blocks;
	struct adopted *adopted;
};

void *box_alloc(size_t size)
{
	void *memory = calloc(1, size ? size : 1);
	if (!memory) {
		abort();
	}
	return memory;
}

void *box_realloc(void *memory, size_t size)
{
	void *grown = realloc(memory, size ? size : 1);
	if (!grown) {
		abort();
	}
	return grown;
}

char *box_strdup(const char *text)
{
	size_t size = strlen(text) + 1;
	return memcpy(box_alloc(size), text, size);
}

static struct block *block_new(size_t size)
{
	struct block *block = malloc(sizeof(*block) + size);
	if (!block) {
		abort();
	}
	block->next = NULL;
	block->used = 0;
	block->size = size;
	return block;
}

struct box_arena *box_arena_new(void)
{
	/* The arena itself lives in its first block, so a small message costs one malloc. */
	struct block *block = block_new(FIRST_BLOCK);
	struct box_arena *arena = (struct box_arena *)(void *)block->bytes;
	block->used = sizeof(*arena);
	arena->blocks = block;
	arena->adopted = NULL;
	return arena;
}

void box_arena_free(struct box_arena *arena)
{
	if (!arena) {
		return;
	}
	for (struct adopted *a = arena->adopted; a; a = a->next) {
		free(a->memory);
	}
	struct block *block = arena->blocks;
	while (block) {
		struct block *next = block->next;
		free(block);
		block = next;
	}
}

static void *take(struct box_arena *arena, size_t size, size_t alignment)
{
	struct block *block = arena->blocks;
	size_t at = (block->used + alignment - 1) & ~(alignment - 1);
	if (at > block->size || size > block->size - at) {
		size_t wanted = block->size < LARGEST_BLOCK ? block->size * 2 : LARGEST_BLOCK;
		struct block *fresh = block_new(size > wanted ? size : wanted);
		fresh->next = block;
		arena->blocks = fresh;
		block = fresh;
		at = 0;
	}
	block->used = at + size;
	return block->bytes + at;
}

void *box_arena_alloc(struct box_arena *arena, size_t size)
{
	return memset(take(arena, size, ALIGNMENT), 0, size);
}

char *box_arena_bytes(struct box_arena *arena, size_t size)
{
	return take(arena, size, 1);
}

char *box_arena_strndup(struct box_arena *arena, const char *bytes, size_t len)
{
	char *copy = box_arena_bytes(arena, len + 1);
	if (len > 0) {
		memcpy(copy, bytes, len);
	}
	copy[len] = '\0';
	return copy;
}

char *box_arena_printf(struct box_arena *arena, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	va_list again;
	va_copy(again, args);
	int len = vsnprintf(NULL, 0, format, args);
	va_end(args);
	char *text = box_arena_bytes(arena, (size_t)(len < 0 ? 0 : len) + 1);
	text[0] = '\0';
	if (len >= 0) {
		(void)vsnprintf(text, (size_t)len + 1, format, again);
	}
	va_end(again);
	return text;
}

size_t box_arena_size(const struct box_arena *arena)
{
	size_t size = 0;
	for (const struct block *block = arena->blocks; block; block = block->next) {
		size += sizeof(*block) + block->size;
	}
	return size;
}

void box_arena_adopt(struct box_arena *arena, void *memory)
{
	struct adopted *adopted = box_arena_alloc(arena, sizeof(*adopted));
	adopted->memory = memory;
	adopted->next = arena->adopted;
	arena->adopted = adopted;
}
