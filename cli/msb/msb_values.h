/* Parses the values of msb's options. Pure. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "cli/path_argument.h"

struct box_arena;

/* "512M", "1G", "512": MiB, at least 1. `flag` names it in errors. */
int box_msb_values_memory(const char *flag, const char *text, int64_t *ret_mb, struct box_err *err);
/* "30s", "5m", "1h", "2d", "90": seconds, at least 1. */
int box_msb_values_duration(
	const char *flag, const char *text, int64_t *ret_sec, struct box_err *err);

/* HOST:GUEST[:ro|rw]; the texts are in the arena. */
int box_msb_values_volume(struct box_arena *arena, const char *text,
	struct box_path_argument_mount *ret_volume, struct box_err *err);
