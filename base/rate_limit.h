/* Things that others can cause as often as they like, told at most once in a while with their number. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define BOX_RATE_LIMIT_MS 1000 /* between two lines about one kind of thing */

struct box_rate_limit {
	bool told;        /* ever */
	uint64_t told_ms; /* when last */
	uint64_t count;   /* since then */
};

static inline void box_rate_limit_count(struct box_rate_limit *tally)
{
	tally->count++;
}

/* Whether it is time to tell of what was counted: then *ret_count of it, and counting starts anew. */
static inline bool box_rate_limit_due(
	struct box_rate_limit *tally, uint64_t now_ms, uint64_t *ret_count)
{
	if (tally->count == 0 || (tally->told && now_ms - tally->told_ms < BOX_RATE_LIMIT_MS)) {
		return false;
	}
	*ret_count = tally->count;
	tally->told = true;
	tally->told_ms = now_ms;
	tally->count = 0;
	return true;
}
