/* Reads the two clocks, and formats times for the wire. */
#include "base/clock.h"

#include <stdio.h>
#include <time.h>

static int64_t read_us(clockid_t clock)
{
	struct timespec now;
	(void)clock_gettime(clock, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

uint64_t box_clock_us(void)
{
	return (uint64_t)read_us(CLOCK_MONOTONIC);
}

int64_t box_clock_utc_us(void)
{
	return read_us(CLOCK_REALTIME);
}

void box_clock_format(int64_t utc_us, char out[BOX_CLOCK_TEXT_SIZE])
{
	time_t seconds = (time_t)(utc_us / 1000000);
	struct tm utc;
	(void)gmtime_r(&seconds, &utc);
	size_t len = strftime(out, BOX_CLOCK_TEXT_SIZE, "%Y-%m-%dT%H:%M:%S", &utc);
	(void)snprintf(out + len, BOX_CLOCK_TEXT_SIZE - len, ".%06dZ", (int)(utc_us % 1000000));
}
