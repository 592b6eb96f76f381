/* The line is of the last one: what the others were is in their number. */
#include "base/seldom.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"

void box_seldom_tick(struct box_seldom *seldom)
{
	uint64_t count;
	if (!box_tally_due(&seldom->tally, box_clock_ms(), &count)) {
		return;
	}
	if (seldom->code != 0) {
		BOX_LOG(BOX_LOG_WARNING, seldom->event, box_kv_int("code", seldom->code),
			box_kv_str("why", seldom->why), box_kv_int("count", (int64_t)count));
	} else {
		BOX_LOG(BOX_LOG_WARNING, seldom->event, box_kv_str("why", seldom->why),
			box_kv_int("count", (int64_t)count));
	}
}

void box_seldom_log(struct box_seldom *seldom, int64_t code, const char *why)
{
	seldom->code = code;
	(void)snprintf(seldom->why, sizeof(seldom->why), "%s", why);
	box_tally_add(&seldom->tally);
	box_seldom_tick(seldom);
}
