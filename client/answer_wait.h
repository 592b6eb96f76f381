/* The one answer that a call waits for. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/value.h"

struct box_arena;

struct box_answer_wait {
	struct box_arena *arena; /* where the data goes */
	struct box_err *err;     /* where the reason goes, or NULL */
	bool done;
	int result; /* 0 or -errno, when it is done */
	struct box_value data;
};

/* Takes the answer; `arg` is the struct. */
void box_answer_wait_take(
	void *arg, const struct box_value *data, const struct box_err *err, bool last);
