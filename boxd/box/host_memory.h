/* Whether the host has memory for one more box. A microVM's memory is allocated when its guest touches
 * it, so what was promised to microVMs counts, not only what they have taken. Native boxes may be
 * promised more than there is, and are refused when little is left. Called by boxes.c. */
#pragma once

#include <stdint.h>

#include "base/err.h"

struct box_cgroups;

#define BOX_HOST_MEMORY_NO_LIMIT UINT64_MAX

struct box_host_memory {
	uint64_t total_bytes; /* of the host */
	uint64_t free_bytes;  /* of the host, with what can be given back without swapping */
	uint64_t group_bytes; /* limit of our own cgroup, or BOX_HOST_MEMORY_NO_LIMIT */
	uint64_t group_free_bytes;
	uint64_t promised_bytes; /* to all microVMs */
	uint64_t taken_bytes;    /* what they have taken of that */
	unsigned microvms;       /* how many there are */
};

/* Whether a microVM may be promised so much memory. 0, or BOX_ERR_CAPACITY with advice. Pure. */
int box_host_memory_check_promises(
	const struct box_host_memory *memory, uint64_t wanted_bytes, struct box_err *err);

/* Whether at least `reserve_bytes` are free, for a box of any kind. 0, or BOX_ERR_CAPACITY. Pure. */
int box_host_memory_check_reserve(
	const struct box_host_memory *memory, uint64_t reserve_bytes, struct box_err *err);

/* Fills in everything but the microVMs. `cgroups` may be NULL. */
int box_host_memory_read(
	const struct box_cgroups *cgroups, struct box_host_memory *ret_memory, struct box_err *err);

/* The value of a line `Name:   12 kB` of /proc/meminfo in bytes, or 0. Pure. */
uint64_t box_host_memory_meminfo_bytes(const char *text, const char *name);
