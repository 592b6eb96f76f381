/* What the first process of a box does between clone and exec of box-init, or box-vmm.
 *
 * The steps are a list in first_process.c. If one fails, the box ends and the step is reported by its
 * number; no failure is ignored.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "boxd/cgroup/cgroup.h"
#include "boxd/net/network.h"
#include "plan/plan.h"

/* What the child needs, opened before the clone. The clone has a copy of all memory that this points
 * to. */
struct box_first_process {
	const struct box_plan *plan;
	const char *anchor;                  /* a folder to attach the new root at */
	bool same_uid;                       /* there is only one uid */
	bool own_network;                    /* it has made and must set up its network namespace */
	const struct box_network_slot *slot; /* with own_network: the network slot, or NULL */
	int orders;                          /* a byte when its maps are written; then box-init's */
	int control;
	int report;
	int boot;                                /* for box-init */
	int init;                                /* the sealed program */
	int vmm;                                 /* box-vmm, which runs it in a microVM; or -1 */
	int procs_fds[BOX_CGROUP_PROCS_FDS_MAX]; /* to enter its cgroup by itself */
	size_t procs_fd_count;
	int trees[BOX_PLAN_STEPS_MAX]; /* of the plan's TREE steps; else -1 */
};

_Noreturn void box_first_process_run(const struct box_first_process *start);

/* The step's name, for errors; NULL for an unknown number. */
const char *box_first_process_step_name(uint32_t number);
#define BOX_FIRST_PROCESS_MOUNT_STEP 64 /* reports beyond this are mount steps of the plan */

/* Reads the report of a box's first process from this pipe: 1 when it is ready, 0 when nothing is there
 * yet; negative: err says which step failed. The content is untrusted. */
int box_first_process_read_report(int report, const struct box_plan *plan, struct box_err *err);
