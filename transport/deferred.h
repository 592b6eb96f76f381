/* Calls that run at the end of a turn of the event loop, when everything that had arrived was read and
 * its consequences are known. Used by the WebSocket adapter to send and to report complete messages. */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "base/list.h"

/* Embedded in the object that is called. */
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

/* Calls it once, at the end of this turn. A call that is scheduled by another call still runs in the same
 * turn, so a call must not schedule itself. */
void box_deferred_schedule(struct box_deferred *turn, struct box_deferred_call *call);
/* Unschedules it; harmless if it was not scheduled. */
void box_deferred_cancel(struct box_deferred_call *call);
