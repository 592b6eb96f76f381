/* A native box, number 7, and requests to its managed processes. */
#pragma once

#include "runtime/backend/backend_process.h"
#include "tests/unit/lib/local_fixture.h"

#define NUMBER 5 /* of the process */

static struct played played;
static const struct box_backend_process_ops *ops;

static inline void start_box(void)
{
	start();
	make_played(&played, 7);
	ops = backend->ops->processes;
}

static inline void finish_box(void)
{
	end_played(&played, 7);
	finish();
}
