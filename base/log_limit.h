/* Rate limit for warnings that clients can cause at will: at most one line a second for each kind, with
 * their number and the last reason. */
#pragma once

#include <stdint.h>

#include "base/rate_limit.h"

#define BOX_LOG_LIMIT_REASON_SIZE 160

struct box_log_limit {
	const char *event;
	struct box_rate_limit tally;
	int64_t code; /* of the last warning; 0: none */
	char why[BOX_LOG_LIMIT_REASON_SIZE];
};

void box_log_limit_warn(struct box_log_limit *limit, int64_t code, const char *why);
/* Logs what has been counted since the last line, if it is time; call it about once a second. */
void box_log_limit_tick(struct box_log_limit *limit);
