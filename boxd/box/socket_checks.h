/* Schedules the checks of socket memory that no cgroup counts (socket_memory.h), and limits their time.
 * Called by boxes.c, which lists every box with a memory limit while it is live, and ends the boxes
 * that hold too much. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct box_resources;

/* One box on the list. */
struct box_socket_check {
	struct box_list links;
	const struct box_resources *resources;
	uint64_t limit_bytes;
	uint64_t checked_ms;    /* when it was last checked */
	uint8_t suspect_checks; /* consecutive checks in which it may have been over its limit */
};

struct box_socket_checks {
	struct box_list list; /* least recently checked first */
	uint64_t next_ms;     /* when the next check is due; UINT64_MAX: never */
};

void box_socket_checks_init(struct box_socket_checks *checks);

/* Initialises a check that is on no list. */
void box_socket_checks_prepare(struct box_socket_check *check);
void box_socket_checks_add(struct box_socket_checks *checks, struct box_socket_check *check,
	const struct box_resources *resources, uint64_t limit_bytes);
/* Does nothing if it is on no list. */
void box_socket_checks_remove(struct box_socket_check *check);

/* Checks the boxes that are due and returns the first one that holds too much, or NULL. Each box is
 * checked every BOX_SOCKETS_CHECK_MS, less often when checks take long. */
struct box_socket_check *box_socket_checks_find_over(struct box_socket_checks *checks);
