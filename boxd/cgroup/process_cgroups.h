/* The process cgroups of one box, each from its creation until its folder is removed.
 *
 * Removing a closed group that still has processes is retried with pauses that double. What is left at
 * the end is removed with the box's group. Called by boxes.c and rpc/serve.c.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "base/list.h"

struct box_cgroup;
struct box_process_cgroups;

/* What the requester of a group gets. */
struct box_process_cgroups_fds {
	int procs_fd; /* a process writes "0" to it to enter; the caller's */
	int events;   /* OOM kills in this group; the caller's */
	int rest;     /* OOM kills of processes in no process cgroup, or -1; not the caller's */
};

/* `waiting` is the list of all closed groups to be removed, of this box and others. */
struct box_process_cgroups *box_process_cgroups_new(
	struct box_cgroup *cgroup, struct box_list *waiting);
/* Frees the list; the folders are removed with the box's. Takes NULL. */
void box_process_cgroups_free(struct box_process_cgroups *groups);

/* Makes the group of a process, or finds it: an existing group keeps its limit. */
int box_process_cgroups_open(struct box_process_cgroups *groups, uint32_t process,
	uint64_t memory_bytes, struct box_process_cgroups_fds *ret_fds, struct box_err *err);
/* Unknown numbers are ignored. */
void box_process_cgroups_close(struct box_process_cgroups *groups, uint32_t process);

/* When the next attempt to remove one is due, by box_clock_ms; UINT64_MAX: never. */
uint64_t box_process_cgroups_due_ms(const struct box_list *waiting);
void box_process_cgroups_try_removals(struct box_list *waiting);
