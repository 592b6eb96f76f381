/* How the guest's clock is kept at the host's. The guest is asked for its time and answers; from that
 * and the time that it took comes the step that it is told. A step is the same however late it comes:
 * a guest that stood still meanwhile is not set back. Pure: the caller has the clocks. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "protocol/microvm.h"

struct box_clock_sync_clocks {
	uint64_t real_ns;   /* the time of day */
	uint64_t steady_ns; /* since whenever, never set */
};

struct box_clock_sync {
	bool due;        /* something is to be sent to the guest */
	int64_t step_ns; /* this, when it is not 0; else a question */
	bool asked;      /* and not answered yet */
	uint64_t token;
	struct box_clock_sync_clocks asked_at;
	unsigned tries;
};

/* The clocks may be apart from now on: the beginning, a while, the host's was set. */
void box_clock_sync_begin(struct box_clock_sync *timing);
/* What is due, to be sent now. */
struct box_microvm_clock box_clock_sync_next(
	struct box_clock_sync *timing, const struct box_clock_sync_clocks *now);
/* The guest's answer. What nobody has asked for is passed over. */
void box_clock_sync_take(struct box_clock_sync *timing, const struct box_microvm_time *time,
	const struct box_clock_sync_clocks *now);
