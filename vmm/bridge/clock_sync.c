/* Owns the judgement: how far apart is too far, and how slow an answer tells nothing. */
#include "vmm/bridge/clock_sync.h"

#include "base/macros.h"

#define MS_NS 1000000ULL
#define OFF_NS (50 * MS_NS)   /* less is not worth a step */
#define SLOW_NS (100 * MS_NS) /* an answer that took longer is asked for again */
#define TRIES_MAX 4

void box_clock_sync_begin(struct box_clock_sync *timing)
{
	timing->due = true;
	timing->step_ns = 0;
	timing->tries = 0;
}

struct box_microvm_clock box_clock_sync_next(
	struct box_clock_sync *timing, const struct box_clock_sync_clocks *now)
{
	struct box_microvm_clock clock = {.step_ns = timing->step_ns};
	timing->due = false;
	timing->step_ns = 0;
	if (clock.step_ns == 0) {
		timing->asked = true;
		timing->asked_at = *now;
		timing->tries++;
		clock.token = ++timing->token;
	}
	return clock;
}

/* By how much the guest is ahead; it looked at its clock some time between question and answer. */
static int64_t ahead_ns(uint64_t guest_ns, uint64_t real_ns, uint64_t took_ns)
{
	/* Whatever it says stays far from where numbers end. */
	const uint64_t most = INT64_MAX / 2;
	guest_ns = BOX_MIN(guest_ns, most);
	return (int64_t)guest_ns - (int64_t)(real_ns - took_ns / 2);
}

void box_clock_sync_take(struct box_clock_sync *timing, const struct box_microvm_time *time,
	const struct box_clock_sync_clocks *now)
{
	if (!timing->asked || time->token != timing->token) {
		return;
	}
	timing->asked = false;
	uint64_t took_ns = now->steady_ns - timing->asked_at.steady_ns;
	if (took_ns > SLOW_NS && timing->tries < TRIES_MAX) {
		timing->due = true;
		return;
	}
	uint64_t blur_ns = took_ns / 2 > OFF_NS ? took_ns / 2 : OFF_NS;
	int64_t ahead = ahead_ns(time->realtime_ns, now->real_ns, took_ns);
	uint64_t apart = (uint64_t)(ahead < 0 ? -ahead : ahead);
	if (apart > blur_ns) {
		timing->step_ns = -ahead;
		timing->due = true;
	}
}
