/* The generation fence: which placement of each workspace is the present one.
 *
 * It only moves forward. Every tenant action passes it; a higher generation advances it and whoever
 * asked then retires what the older ones left. Bounded by max_admission_records.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "runtime/tenant.h"

struct box_generations;

struct box_generations *box_generations_new(void);
void box_generations_free(struct box_generations *fence);

/* 0, or -EPERM with BOX_ERR_PERMISSION for a stale generation or a full fence. */
int box_generations_observe(struct box_generations *fence, const struct box_context *context,
	size_t max_records, bool *ret_advanced, struct box_err *err);

/* The generation seen last, 0 for a workspace never seen. */
int64_t box_generations_current(
	const struct box_generations *fence, const struct box_context *context);

/* As -EPERM with the stale text, unless the context is of the present generation. */
int box_generations_require_current(const struct box_generations *fence,
	const struct box_context *context, struct box_err *err);

/* Walks all workspaces: start with *position = 0. The strings are the fence's. */
bool box_generations_next(
	const struct box_generations *fence, uint64_t *position, struct box_context *ret_context);
