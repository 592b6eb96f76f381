/* Time: monotonic for measuring, UTC for display. */
#pragma once

#include <stddef.h>
#include <stdint.h>

uint64_t box_clock_us(void); /* monotonic */
static inline uint64_t box_clock_ms(void)
{
	return box_clock_us() / 1000;
}

int64_t box_clock_utc_us(void); /* since 1970 */

#define BOX_CLOCK_TEXT_SIZE 40
/* `2026-11-16T01:55:00.348528Z` */
void box_clock_format(int64_t utc_us, char out[BOX_CLOCK_TEXT_SIZE]);
