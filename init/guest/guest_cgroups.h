/* The cgroups of a microVM's own kernel: one for all of the box, in it one for each managed process
 * with memory of its own and one for everything else. */
#pragma once

#include <stdint.h>

/* A step of the preamble: makes them, holds the box to `pids` processes (0: none), and enters. The fd
 * of the group of the box, or -errno; -EOPNOTSUPP: this kernel has no cgroups, and nothing was
 * done. `ret_events`: the memory events of everything that is in no group of its own, or -1. */
int box_guest_cgroups_open(uint32_t pids, int *ret_events);

/* A group with so much memory in the one of the box: its door, or -errno, and its memory events. Those
 * that nobody is in any more go. -EOPNOTSUPP: this kernel cannot. */
int box_guest_cgroups_make(int box, uint64_t memory_mib, int *ret_events);
