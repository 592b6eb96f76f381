/* From clone to box-init: what the first process of a box does to become one.
 *
 * The steps are a list in child.c, in order. One that fails ends the box and is reported by its
 * number; nothing falls through.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "runtime/keeper/cgroup.h"
#include "runtime/plan/plan.h"

struct box_network_seat;

/* Everything the child needs, opened before the clone. */
struct box_birth {
	const struct box_plan *plan;
	const char *anchor; /* a folder to hang the new root on */
	bool same_uid;      /* one id is all there is */
	bool own_network;   /* the network namespace is the child's own, to be set up */
	const struct box_network_seat *seat; /* for that; NULL: network off */
	int trees[BOX_PLAN_STEPS_MAX];       /* of TREE steps; else -1 */
	int barrier;                         /* a byte comes when maps and cgroup are set */
	int control;
	int report;
	int boot;
	int init;                        /* the sealed program */
	int doors[BOX_CGROUP_DOORS_MAX]; /* of its cgroup, to go in by itself */
	size_t door_count;
};

_Noreturn void box_child_run(const struct box_birth *birth);

/* What a reported step is, in words into `text`; the number may be anything. */
void box_child_describe(uint32_t number, const struct box_plan *plan, char *text, size_t size);
