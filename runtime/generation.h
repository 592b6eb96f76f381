/* Generations: which placement of each workspace is the current one.
 *
 * The current generation only grows. Every tenant action is checked against it; a request of a higher one
 * advances it, and the caller then ends requests and sessions of the older ones. How many workspaces are
 * remembered is limited by max_admission_records.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "runtime/tenant.h"

struct box_generations;

struct box_generations *box_generations_new(void);
void box_generations_free(struct box_generations *generations);

/* 0, or -EPERM with BOX_ERR_PERMISSION for a stale generation or a full table. */
int box_generations_observe(struct box_generations *generations, const struct box_context *context,
	size_t max_records, bool *ret_advanced, struct box_err *err);

/* The current generation; 0 for an unknown workspace. */
int64_t box_generations_current(
	const struct box_generations *generations, const struct box_context *context);

/* 0, or -EPERM as above if the context is not of the current generation. */
int box_generations_require_current(const struct box_generations *generations,
	const struct box_context *context, struct box_err *err);

/* Walks all workspaces: start with *position = 0. The strings belong to the table. */
bool box_generations_next(const struct box_generations *generations, uint64_t *position,
	struct box_context *ret_context);
