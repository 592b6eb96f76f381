/* The line shows the reason of the last warning and the number of all. */
#include "base/log_limit.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"

void box_log_limit_tick(struct box_log_limit *limit)
{
	uint64_t count;
	if (!box_rate_limit_due(&limit->tally, box_clock_ms(), &count)) {
		return;
	}
	if (limit->code != 0) {
		BOX_LOG(BOX_LOG_WARNING, limit->event, box_log_int("code", limit->code),
			box_log_str("why", limit->why), box_log_int("count", (int64_t)count));
	} else {
		BOX_LOG(BOX_LOG_WARNING, limit->event, box_log_str("why", limit->why),
			box_log_int("count", (int64_t)count));
	}
}

void box_log_limit_warn(struct box_log_limit *limit, int64_t code, const char *why)
{
	limit->code = code;
	(void)snprintf(limit->why, sizeof(limit->why), "%s", why);
	box_rate_limit_count(&limit->tally);
	box_log_limit_tick(limit);
}
