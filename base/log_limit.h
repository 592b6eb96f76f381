/* Warnings that clients can cause as often as they like: at most one line a second for each kind, with
 * their number and the last reason. */
#pragma once

#include <stdint.h>

#include "base/rate_limit.h"

#define BOX_LOG_LIMIT_REASON_SIZE 160

struct box_log_limit {
	const char *event;
	struct box_rate_limit tally;
	int64_t code; /* of the last; 0: there is none */
	char why[BOX_LOG_LIMIT_REASON_SIZE];
};

void box_log_limit_warn(struct box_log_limit *seldom, int64_t code, const char *why);
/* Tells what has come since, when it is time: to be called about once a second. */
void box_log_limit_tick(struct box_log_limit *seldom);
