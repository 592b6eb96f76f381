/* The last errors of a service, with time and kind. Pure: the caller passes the time. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/value.h"

struct box_arena;

struct box_error_ring {
	/* A ring that starts at `first`. */
	struct box_error_entry *entries[BOX_SERVICE_ERRORS_KEPT];
	size_t first;
	size_t count;
};

void box_error_ring_free(struct box_error_ring *ring);

/* Adds an error, replacing the oldest if the ring is full. query_id is the query's id and may be empty. A
 * long text is cut. */
void box_error_ring_add(struct box_error_ring *ring, int64_t utc_us, const struct box_err *err,
	struct box_str query_id);

/* A list of {timestamp, type, message, query_id}, the oldest first, in the arena. */
struct box_value box_error_ring_list(const struct box_error_ring *ring, struct box_arena *arena);
