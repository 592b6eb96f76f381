/* Reports events that others can cause at will at most once per interval, with their number. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define BOX_RATE_LIMIT_MS 1000 /* between two log lines about the same kind of event */

struct box_rate_limit {
	bool logged;        /* at least once */
	uint64_t logged_ms; /* the last time */
	uint64_t count;     /* since then */
};

static inline void box_rate_limit_count(struct box_rate_limit *tally)
{
	tally->count++;
}

/* Whether a report is due: then *ret_count events were counted, and counting restarts. */
static inline bool box_rate_limit_due(
	struct box_rate_limit *tally, uint64_t now_ms, uint64_t *ret_count)
{
	if (tally->count == 0 || (tally->logged && now_ms - tally->logged_ms < BOX_RATE_LIMIT_MS)) {
		return false;
	}
	*ret_count = tally->count;
	tally->logged = true;
	tally->logged_ms = now_ms;
	tally->count = 0;
	return true;
}
