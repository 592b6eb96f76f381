/* When boxes are checked for what their sockets hold that no cgroup counts (socket_memory.h), and for
 * how long at a time. Called by boxes.c, which puts every box with a memory limit on the list while it
 * is live, and ends the boxes that are found to hold too much. */
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
	uint64_t checked_ms;    /* the last time */
	uint8_t suspect_checks; /* checks in a row in which it may have been over its limit */
};

struct box_socket_checks {
	struct box_list list; /* checked longest ago first */
	uint64_t next_ms;     /* when the next check is due; UINT64_MAX: never */
};

void box_socket_checks_init(struct box_socket_checks *checks);

/* For a check that is on no list. */
void box_socket_checks_prepare(struct box_socket_check *check);
void box_socket_checks_add(struct box_socket_checks *checks, struct box_socket_check *check,
	const struct box_resources *resources, uint64_t limit_bytes);
/* Does nothing when it is on no list. */
void box_socket_checks_remove(struct box_socket_check *check);

/* Checks the boxes that are due and returns the first that holds too much, or NULL. Each box is checked
 * every BOX_SOCKETS_CHECK_MS, less often when checks take long. */
struct box_socket_check *box_socket_checks_find_over(struct box_socket_checks *checks);
