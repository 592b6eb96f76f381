/* The clock of a microVM, kept at the host's. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Whether one is too far from the other to be left so. Pure. */
bool box_clock_is_off(uint64_t own_ns, uint64_t host_ns);

/* The time of day here, in nanoseconds. */
uint64_t box_clock_now(void);
/* Sets it. 0 or -errno. */
int box_clock_set(uint64_t realtime_ns);
