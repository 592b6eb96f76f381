/* The last errors, with time and kind. Pure: whoever adds one says when it was. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/value.h"

struct box_arena;

struct box_error_ring {
	struct box_error_entry *entries[BOX_SERVICE_ERRORS_KEPT]; /* from `first` on, around */
	size_t first;
	size_t count;
};

void box_error_ring_free(struct box_error_ring *ring);

/* Adds an error, the oldest goes when there are too many. query_id: whose it was, may be empty. A
 * long text is cut. */
void box_error_ring_add(struct box_error_ring *ring, int64_t utc_us, const struct box_err *err,
	struct box_str query_id);

/* A list of {timestamp, type, message, query_id}, the oldest first, in the arena. */
struct box_value box_error_ring_list(const struct box_error_ring *ring, struct box_arena *arena);
