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
struct box_groups;

/* What whoever asked for a group gets. */
struct box_group_fds {
	int door;   /* a process writes "0" to it to go in; the caller's */
	int events; /* kills for memory in this group; the caller's */
	int rest;   /* those of what is in no group, or -1; not the caller's */
};

/* `waiting` is the list of all groups that are to be tried again, of this box and others. */
struct box_groups *box_groups_new(struct box_cgroup *cgroup, struct box_list *waiting);
/* Forgets them; their folders are removed with the box's. Takes NULL. */
void box_groups_free(struct box_groups *groups);

/* Makes the group of a process, or finds it: then its limit stays. */
int box_groups_open(struct box_groups *groups, uint32_t process, uint64_t memory_bytes,
	struct box_group_fds *ret_fds, struct box_err *err);
/* Unknown numbers are ignored. */
void box_groups_close(struct box_groups *groups, uint32_t process);

/* When the next one is to be tried, by box_clock_ms; UINT64_MAX for never. */
uint64_t box_groups_due_ms(const struct box_list *waiting);
void box_groups_try(struct box_list *waiting);
