/* The groups of single processes in one box, each from its opening until its folder is gone.
 *
 * A group that is closed while something is still in it is tried again, after pauses that double.
 * Whatever is left of them goes with the group of the box.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "base/list.h"

struct box_cgroup;
struct box_process_cgroups;

/* What whoever asked for a group gets. */
struct box_process_cgroups_fds {
	int door;   /* a process writes "0" to it to go in; the caller's */
	int events; /* kills for memory in this group; the caller's */
	int rest;   /* those of what is in no group, or -1; not the caller's */
};

/* `waiting` is the list of all groups that are to be tried again, of this box and others. */
struct box_process_cgroups *box_process_cgroups_new(
	struct box_cgroup *cgroup, struct box_list *waiting);
/* Forgets them; their folders are removed with the box's. Takes NULL. */
void box_process_cgroups_free(struct box_process_cgroups *groups);

/* Makes the group of a process, or finds it: then its limit stays. */
int box_process_cgroups_open(struct box_process_cgroups *groups, uint32_t process,
	uint64_t memory_bytes, struct box_process_cgroups_fds *ret_fds, struct box_err *err);
/* Unknown numbers are ignored. */
void box_process_cgroups_close(struct box_process_cgroups *groups, uint32_t process);

/* When the next one is to be tried, by box_clock_ms; UINT64_MAX for never. */
uint64_t box_process_cgroups_due_ms(const struct box_list *waiting);
void box_process_cgroups_try_removals(struct box_list *waiting);
