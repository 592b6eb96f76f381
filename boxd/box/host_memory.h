/* Whether the host has the memory for one more box. A guest's memory is taken when the guest touches it:
 * so of microVMs what was promised counts, not only what is taken. Native boxes may be promised more than
 * there is, and are refused when little is left. */
#pragma once

#include <stdint.h>

#include "base/err.h"

struct box_cgroups;

#define BOX_HOST_MEMORY_NO_LIMIT UINT64_MAX

struct box_host_memory {
	uint64_t total_bytes; /* of the host */
	uint64_t free_bytes;  /* of it, with what can be given back without swapping */
	uint64_t group_bytes; /* limit of our own cgroup, or BOX_HOST_MEMORY_NO_LIMIT */
	uint64_t group_free_bytes;
	uint64_t promised_bytes; /* to the microVMs there are */
	uint64_t taken_bytes;    /* of that, already */
	unsigned machines;       /* how many they are */
};

/* Pure: 0, or BOX_ERR_CAPACITY with what to do. */
int box_host_memory_check_promises(
	const struct box_host_memory *facts, uint64_t wanted_bytes, struct box_err *err);

/* Pure: whether at least so much is left at all, for any box: 0, or BOX_ERR_CAPACITY. */
int box_host_memory_check_reserve(
	const struct box_host_memory *facts, uint64_t reserve_bytes, struct box_err *err);

/* Fills in all but what the microVMs have. `cgroups` may be NULL. */
int box_host_memory_read(
	const struct box_cgroups *cgroups, struct box_host_memory *ret_facts, struct box_err *err);

/* The value of a line `Name:   12 kB` of /proc/meminfo in bytes, or 0. Pure. */
uint64_t box_host_memory_meminfo_bytes(const char *text, const char *name);
