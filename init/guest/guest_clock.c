/* Owns how the guest's clock is set: to a time by microvm_boot.c, later by steps by the privileged helper. */
#include "init/guest/guest_clock.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_SEC 1000000000ULL

uint64_t box_guest_clock_now(void)
{
	struct timespec now;
	(void)clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * NS_PER_SEC + (uint64_t)now.tv_nsec;
}

int box_guest_clock_set(uint64_t realtime_ns)
{
	struct timespec now = {
		.tv_sec = (time_t)(realtime_ns / NS_PER_SEC),
		.tv_nsec = (long)(realtime_ns % NS_PER_SEC),
	};
	return clock_settime(CLOCK_REALTIME, &now) < 0 ? -errno : 0;
}

int box_guest_clock_step(int64_t step_ns)
{
	uint64_t now_ns = box_guest_clock_now();
	/* Two's complement: a negative step wraps around. */
	uint64_t then_ns = now_ns + (uint64_t)step_ns;
	bool fits = step_ns < 0 ? then_ns < now_ns : then_ns >= now_ns && then_ns <= INT64_MAX;
	return fits ? box_guest_clock_set(then_ns) : -ERANGE;
}
