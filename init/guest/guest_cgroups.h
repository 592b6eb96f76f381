/* The cgroups in a microVM's own kernel: one for the whole box, and in it one for each managed process with a
 * memory limit of its own and one for everything else. */
#pragma once

#include <stdint.h>

/* A boot step: makes them, limits the box to `pids` processes (0: no limit), and enters the cgroup of
 * everything else. An fd of the cgroup of the box, or -errno; -EOPNOTSUPP: this kernel has no cgroups, and
 * nothing was done. `ret_events`: memory.events of the cgroup of everything else, or -1. */
int box_guest_cgroups_open(uint32_t pids, int *ret_events);

/* Makes a cgroup with a memory limit in that of the box, and removes empty ones. Its cgroup.procs, or
 * -errno, and its memory.events. -EOPNOTSUPP: this kernel cannot limit memory. */
int box_guest_cgroups_make(int box, uint64_t memory_mib, int *ret_events);
