/* The raw output of a command, and how it ended, as values for an answer. Pure. */
#pragma once

#include <stdint.h>

#include "base/value.h"
#include "runtime/backend/backend.h"

struct box_arena;

/* The bytes as UTF-8, with U+FFFD for invalid ones; the same bytes when all are valid. */
struct box_str box_output_repair(struct box_arena *arena, struct box_str raw);
/* The size of the repaired text. */
size_t box_output_repaired_size(struct box_str raw);

/* {reason, signal}: how a command or a process ended. */
struct box_value box_output_end(
	struct box_arena *arena, enum box_backend_end_reason reason, int signal);

/* Decoded as UTF-8 with U+FFFD for invalid bytes, without white space at its ends, cut at `limit` bytes of raw
 * output, followed by the clip line if anything was discarded, here or earlier (`discarded`). */
struct box_str box_output_text(
	struct box_arena *arena, struct box_str raw, uint64_t discarded, size_t limit);
