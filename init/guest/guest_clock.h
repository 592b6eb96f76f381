/* The realtime clock of a microVM, which box-vmm synchronises with that of the host. */
#pragma once

#include <stdint.h>

/* CLOCK_REALTIME in nanoseconds. */
uint64_t box_guest_clock_now(void);
/* Sets it. 0 or -errno. */
int box_guest_clock_set(uint64_t realtime_ns);
/* Sets it forward or back by a step. 0 or -errno. */
int box_guest_clock_step(int64_t step_ns);
