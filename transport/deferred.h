/* What waits for the end of a turn of the loop: by then all that lay there was read, and what it led
 * to is known. */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "base/list.h"

/* Part of what waits. */
struct box_deferred_call {
	struct box_list links;
	bool waits;
	void (*call)(struct box_deferred_call *call);
};

struct box_deferred {
	uv_check_t check;
	uv_prepare_t prepare;
	struct box_list calls;
};

void box_deferred_init(struct box_deferred *turn, uv_loop_t *loop);

/* Has it called once, at the end of this turn. Who waits from inside a call is called in the same
 * turn, so that a call must not wait for itself. */
void box_deferred_schedule(struct box_deferred *turn, struct box_deferred_call *call);
/* Not any more; harmless for one that does not wait. */
void box_deferred_cancel(struct box_deferred_call *call);
