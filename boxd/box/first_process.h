/* From clone to box-init, or to box-vmm: what the first process of a box does to become one.
 *
 * The steps are a list in first_process.c. One that fails ends the box and is reported by its number; nothing
 * falls through.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "boxd/cgroup/cgroup.h"
#include "boxd/net/network.h"
#include "plan/plan.h"

/* Everything the child begins with, opened before the clone. The clone has a copy of what is pointed
 * to. */
struct box_first_process {
	const struct box_plan *plan;
	const char *anchor;                  /* a folder to hang the new root on */
	bool same_uid;                       /* one id is all there is */
	bool own_network;                    /* the network namespace is its own, to be set up */
	const struct box_network_slot *seat; /* then: NULL for none */
	int orders;                          /* a byte when its maps are written; then box-init's */
	int control;
	int report;
	int boot;                            /* for box-init */
	int init;                            /* the sealed program */
	int vmm;                             /* box-vmm, which runs it in a microVM; or -1 */
	int doors[BOX_CGROUP_PROCS_FDS_MAX]; /* of its cgroup, to go in by itself */
	size_t door_count;
	int trees[BOX_PLAN_STEPS_MAX]; /* of the plan's TREE steps; else -1 */
};

_Noreturn void box_first_process_run(const struct box_first_process *start);

/* In words, for errors; NULL for a number that is no step of it. */
const char *box_first_process_step_name(uint32_t number);
#define BOX_FIRST_PROCESS_MOUNT_STEP 64 /* reports beyond this are mount steps of the plan */

/* What the first process of a box has reported to this pipe: 1 when it is ready, 0 when nothing is
 * there yet; negative: err says which step failed. The numbers and texts may be anything. */
int box_first_process_read_report(int report, const struct box_plan *plan, struct box_err *err);
