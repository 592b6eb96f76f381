/* Owns the decision which difference is corrected and which answer is too slow to be used. Called by bridge.c. */
#include "vmm/bridge/clock_sync.h"

#include "base/macros.h"

#define MS_NS 1000000ULL
#define OFF_NS (50 * MS_NS)   /* smaller differences are not corrected */
#define SLOW_NS (100 * MS_NS) /* after a slower answer the request is repeated */
#define TRIES_MAX 4

void box_clock_sync_begin(struct box_clock_sync *sync)
{
	sync->due = true;
	sync->step_ns = 0;
	sync->tries = 0;
}

struct box_microvm_clock box_clock_sync_next(
	struct box_clock_sync *sync, const struct box_clock_sync_clocks *now)
{
	struct box_microvm_clock clock = {.step_ns = sync->step_ns};
	sync->due = false;
	sync->step_ns = 0;
	if (clock.step_ns == 0) {
		sync->asked = true;
		sync->asked_at = *now;
		sync->tries++;
		clock.token = ++sync->token;
	}
	return clock;
}

/* By how much the guest is ahead. It read its clock at some time between request and answer. */
static int64_t ahead_ns(uint64_t guest_ns, uint64_t real_ns, uint64_t took_ns)
{
	/* Limits a hostile value, so that nothing overflows. */
	const uint64_t max = INT64_MAX / 2;
	guest_ns = BOX_MIN(guest_ns, max);
	return (int64_t)guest_ns - (int64_t)(real_ns - took_ns / 2);
}

void box_clock_sync_take(struct box_clock_sync *sync, const struct box_microvm_time *time,
	const struct box_clock_sync_clocks *now)
{
	if (!sync->asked || time->token != sync->token) {
		return;
	}
	sync->asked = false;
	uint64_t took_ns = now->steady_ns - sync->asked_at.steady_ns;
	if (took_ns > SLOW_NS && sync->tries < TRIES_MAX) {
		sync->due = true;
		return;
	}
	uint64_t tolerance_ns = took_ns / 2 > OFF_NS ? took_ns / 2 : OFF_NS;
	int64_t ahead = ahead_ns(time->realtime_ns, now->real_ns, took_ns);
	uint64_t difference = (uint64_t)(ahead < 0 ? -ahead : ahead);
	if (difference > tolerance_ns) {
		sync->step_ns = -ahead;
		sync->due = true;
	}
}
