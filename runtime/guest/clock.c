#include "runtime/guest/clock.h"

#include <errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_SEC 1000000000ULL
#define OFF_NS (50ULL * 1000 * 1000) /* less may be the way here, and a step is worse */

bool box_clock_is_off(uint64_t own_ns, uint64_t host_ns)
{
	uint64_t apart = own_ns > host_ns ? own_ns - host_ns : host_ns - own_ns;
	return apart > OFF_NS;
}

uint64_t box_clock_now(void)
{
	struct timespec now;
	(void)clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * NS_PER_SEC + (uint64_t)now.tv_nsec;
}

int box_clock_set(uint64_t realtime_ns)
{
	struct timespec now = {
		.tv_sec = (time_t)(realtime_ns / NS_PER_SEC),
		.tv_nsec = (long)(realtime_ns % NS_PER_SEC),
	};
	return clock_settime(CLOCK_REALTIME, &now) < 0 ? -errno : 0;
}
