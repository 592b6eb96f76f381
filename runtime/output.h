/* A command's raw output as text for an answer. Pure. */
#pragma once

#include <stdint.h>

#include "base/value.h"

struct box_arena;

/* Decoded as UTF-8 with U+FFFD for what is none, stripped of white space at both ends, cut at
 * `limit` bytes of raw output, with the clip line behind it when anything was discarded, here or
 * before (`discarded`). */
struct box_str box_output_text(
	struct box_arena *arena, struct box_str raw, uint64_t discarded, size_t limit);
