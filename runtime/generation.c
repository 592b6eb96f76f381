/* A table from "instance NUL workspace" to the generation. Instance ids contain no NUL, which was checked before, so
 * the key is unambiguous. */
#include "runtime/generation.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/table.h"

struct box_generations {
	struct box_table by_workspace; /* values are int64_t on the heap */
};

struct box_generations *box_generations_new(void)
{
	return box_alloc(sizeof(struct box_generations));
}

void box_generations_free(struct box_generations *generations)
{
	if (!generations) {
		return;
	}
	uint64_t position = 0;
	void *generation;
	while ((generation = box_table_next(&generations->by_workspace, &position, NULL))) {
		free(generation);
	}
	box_table_free(&generations->by_workspace);
	free(generations);
}

static struct box_str key_of(struct box_arena *arena, const struct box_context *context)
{
	size_t len = context->instance.len + 1 + context->workspace.len;
	char *key = box_arena_bytes(arena, len);
	memcpy(key, context->instance.bytes, context->instance.len);
	key[context->instance.len] = '\0';
	if (context->workspace.len > 0) {
		memcpy(key + context->instance.len + 1, context->workspace.bytes,
			context->workspace.len);
	}
	return (struct box_str){key, len};
}

static int64_t *find(const struct box_generations *generations, const struct box_context *context)
{
	struct box_arena *arena = box_arena_new();
	int64_t *generation = box_table_get(&generations->by_workspace, key_of(arena, context));
	box_arena_free(arena);
	return generation;
}

static int refuse_stale(struct box_err *err)
{
	return box_err_set(err, BOX_ERR_PERMISSION, EPERM, "Stale Box placement generation");
}

int box_generations_observe(struct box_generations *generations, const struct box_context *context,
	size_t max_records, bool *ret_advanced, struct box_err *err)
{
	int64_t *current = find(generations, context);
	if (current) {
		if (context->generation < *current) {
			return refuse_stale(err);
		}
		*ret_advanced = context->generation > *current;
		*current = context->generation;
		return 0;
	}
	if (generations->by_workspace.count >= max_records) {
		return box_err_set(err, BOX_ERR_PERMISSION, EPERM,
			"Box generation fence capacity reached; "
			"refusing an unbounded Workspace allocation");
	}
	current = box_alloc(sizeof(*current));
	*current = context->generation;
	struct box_arena *arena = box_arena_new();
	box_table_put(&generations->by_workspace, key_of(arena, context), current);
	box_arena_free(arena);
	*ret_advanced = true;
	return 0;
}

int64_t box_generations_current(
	const struct box_generations *generations, const struct box_context *context)
{
	const int64_t *current = find(generations, context);
	return current ? *current : 0;
}

int box_generations_require_current(const struct box_generations *generations,
	const struct box_context *context, struct box_err *err)
{
	return box_generations_current(generations, context) == context->generation
		? 0
		: refuse_stale(err);
}

bool box_generations_next(const struct box_generations *generations, uint64_t *position,
	struct box_context *ret_context)
{
	struct box_str key;
	const int64_t *generation = box_table_next(&generations->by_workspace, position, &key);
	if (!generation) {
		return false;
	}
	size_t instance_len = strnlen(key.bytes, key.len);
	*ret_context = (struct box_context){
		.instance = {key.bytes, instance_len},
		.workspace = {key.bytes + instance_len + 1, key.len - instance_len - 1},
		.generation = *generation,
	};
	return true;
}
