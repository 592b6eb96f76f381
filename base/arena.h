/* Memory that is freed all at once: one arena per message, request or answer.
 *
 * Allocation never returns NULL: a process that cannot get a few KiB cannot do anything useful, so it
 * aborts and boxd restarts it. Sizes that a client chooses are checked against base/limits.h before
 * they get here.
 */
#pragma once

#include <stddef.h>

#pragma GCC visibility push(default)

struct box_arena;

struct box_arena *box_arena_new(void);
void box_arena_free(struct box_arena *arena);
static inline void box_arena_free_p(struct box_arena **arena)
{
	box_arena_free(*arena);
}

/* Aligned for any type, zeroed. */
void *box_arena_alloc(struct box_arena *arena, size_t size);

/* Not zeroed, not aligned. */
char *box_arena_bytes(struct box_arena *arena, size_t size);

/* A copy of len bytes followed by a NUL. */
char *box_arena_strndup(struct box_arena *arena, const char *bytes, size_t len);
char *box_arena_printf(struct box_arena *arena, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Makes the arena the owner of memory from malloc. */
void box_arena_adopt(struct box_arena *arena, void *memory);

/* Bytes allocated so far, without adopted memory. */
size_t box_arena_size(const struct box_arena *arena);

/* malloc and realloc that abort instead of returning NULL, for memory that outlives an arena. */
void *box_alloc(size_t size);
void *box_realloc(void *memory, size_t size);
char *box_strdup(const char *text);

#pragma GCC visibility pop
