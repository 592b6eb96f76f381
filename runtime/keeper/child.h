/* From clone to box-init: what the first process of a box does to become one.
 *
 * It is made ahead, when nobody has asked for a box yet, and goes as far as it can; then it waits for
 * an order that says what box it is to be. The steps are a list in child.c. One that fails ends the
 * box and is reported by its number; nothing falls through.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "runtime/keeper/cgroup.h"
#include "runtime/keeper/network.h"
#include "runtime/plan/plan.h"

struct box_ground;

/* Everything the child begins with, opened before the clone. */
struct box_child {
	const struct box_ground *ground; /* the clone has a copy of it */
	bool same_uid;                   /* one id is all there is */
	bool own_network;                /* the network namespace is its own, to be set up */
	int orders;                      /* a byte when its maps are written, then the order */
	int control;
	int report;
	int init;                        /* the sealed program */
	int doors[BOX_CGROUP_DOORS_MAX]; /* of its cgroup, to go in by itself */
	size_t door_count;
};

#define BOX_CHILD_FDS_MAX (BOX_ROOT_ENTRIES_MAX + 8)

/* What box it is to be. The plan follows from this, the policy and the host, here as there. With it
 * come the boot file and the trees of the plan, in the order of its steps. */
struct box_child_order {
	struct box_ask ask;
	uint32_t has_seat;
	struct box_network_seat seat; /* for a network namespace of its own */
};

_Noreturn void box_child_run(const struct box_child *start);

/* What a reported step is, in words into `text`; the number may be anything. */
void box_child_describe(uint32_t number, const struct box_plan *plan, char *text, size_t size);
