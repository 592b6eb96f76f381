/* The line shows the reason of the last warning and the number of all. */
#include "base/log_limit.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"

void box_log_limit_tick(struct box_log_limit *seldom)
{
	uint64_t count;
	if (!box_rate_limit_due(&seldom->tally, box_clock_ms(), &count)) {
		return;
	}
	if (seldom->code != 0) {
		BOX_LOG(BOX_LOG_WARNING, seldom->event, box_log_int("code", seldom->code),
			box_log_str("why", seldom->why), box_log_int("count", (int64_t)count));
	} else {
		BOX_LOG(BOX_LOG_WARNING, seldom->event, box_log_str("why", seldom->why),
			box_log_int("count", (int64_t)count));
	}
}

void box_log_limit_warn(struct box_log_limit *seldom, int64_t code, const char *why)
{
	seldom->code = code;
	(void)snprintf(seldom->why, sizeof(seldom->why), "%s", why);
	box_rate_limit_count(&seldom->tally);
	box_log_limit_tick(seldom);
}
