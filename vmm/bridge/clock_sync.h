/* Keeps the guest's clock synchronised with the host's. The bridge queries the guest's time; from the answer and the
 * duration until it arrived a step is computed and sent. A step is correct however late it arrives, so a guest that
 * was suspended meanwhile is not set back. Pure: the caller reads the clocks. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "protocol/microvm.h"

struct box_clock_sync_clocks {
	uint64_t real_ns;   /* CLOCK_REALTIME */
	uint64_t steady_ns; /* CLOCK_MONOTONIC */
};

struct box_clock_sync {
	bool due;        /* a packet must be sent to the guest */
	int64_t step_ns; /* with this step; 0: with a request for its time */
	bool asked;      /* a request is not answered yet */
	uint64_t token;  /* of the last request */
	struct box_clock_sync_clocks asked_at;
	unsigned tries; /* how many requests were sent in this round */
};

/* Begins a round: at the start, periodically, and when the host's clock was set. */
void box_clock_sync_begin(struct box_clock_sync *sync);
/* The packet that is due; it must be sent now. */
struct box_microvm_clock box_clock_sync_next(
	struct box_clock_sync *sync, const struct box_clock_sync_clocks *now);
/* Handles the guest's answer. An answer without a request is ignored. */
void box_clock_sync_take(struct box_clock_sync *sync, const struct box_microvm_time *time,
	const struct box_clock_sync_clocks *now);
