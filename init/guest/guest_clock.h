/* The clock of a microVM, kept at the host's. */
#pragma once

#include <stdint.h>

/* The time of day here, in nanoseconds. */
uint64_t box_guest_clock_now(void);
/* Sets it. 0 or -errno. */
int box_guest_clock_set(uint64_t realtime_ns);
/* Sets it so much forward, or back. */
int box_guest_clock_step(int64_t step_ns);
