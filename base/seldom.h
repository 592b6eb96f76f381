/* Warnings that clients can cause as often as they like: at most one line a second for each kind, with
 * their number and the last reason. */
#pragma once

#include <stdint.h>

#include "base/tally.h"

#define BOX_SELDOM_WHY_SIZE 160

struct box_seldom {
	const char *event;
	struct box_tally tally;
	int64_t code; /* of the last; 0: there is none */
	char why[BOX_SELDOM_WHY_SIZE];
};

void box_seldom_log(struct box_seldom *seldom, int64_t code, const char *why);
/* Tells what has come since, when it is time: to be called about once a second. */
void box_seldom_tick(struct box_seldom *seldom);
