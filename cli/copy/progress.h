/* The progress of a transfer as one line for a terminal. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define BOX_PROGRESS_LINE_MAX 512

struct box_progress {
	uint64_t done;  /* bytes */
	int64_t total;  /* -1: not known */
	uint64_t ms;    /* since it began */
	size_t columns; /* of the terminal */
};

/* With a bar where the size is known and the terminal is wide enough; always narrower than the terminal. Pure. */
void box_progress_line(const struct box_progress *progress, char line[BOX_PROGRESS_LINE_MAX]);
