/* A group goes through open -> closed -> removed. A closed group cannot be found any more, but counts
 * until its folder is removed. */
#include "boxd/cgroup/process_cgroups.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/macros.h"
#include "boxd/cgroup/cgroup.h"

#define PAUSE_MAX_MS 10000 /* between attempts; doubles from 1 ms */

struct group {
	struct box_list links; /* in groups->all */
	struct box_list waits; /* closed: in groups->waiting */
	struct box_process_cgroups *groups;
	uint32_t process;
	bool closed;
	uint64_t due_ms;
	uint64_t pause_ms;
};

struct box_process_cgroups {
	struct box_cgroup *cgroup;
	struct box_list *waiting;
	struct box_list all;
	unsigned count;
};

static struct group *group_at(struct box_list *at)
{
	return BOX_CONTAINER_OF(at, struct group, links);
}

static struct group *waiting_at(struct box_list *at)
{
	return BOX_CONTAINER_OF(at, struct group, waits);
}

static void group_free(struct group *group)
{
	group->groups->count--;
	box_list_drop(&group->links);
	box_list_drop(&group->waits);
	free(group);
}

static void group_new(struct box_process_cgroups *groups, uint32_t process)
{
	struct group *group = box_alloc(sizeof(*group));
	group->groups = groups;
	group->process = process;
	box_list_init(&group->links);
	box_list_init(&group->waits);
	box_list_push(&groups->all, &group->links);
	groups->count++;
}

static struct group *find(struct box_process_cgroups *groups, uint32_t process)
{
	for (struct box_list *at = groups->all.next; at != &groups->all; at = at->next) {
		if (group_at(at)->process == process) {
			return group_at(at);
		}
	}
	return NULL;
}

struct box_process_cgroups *box_process_cgroups_new(
	struct box_cgroup *cgroup, struct box_list *waiting)
{
	struct box_process_cgroups *groups = box_alloc(sizeof(*groups));
	groups->cgroup = cgroup;
	groups->waiting = waiting;
	box_list_init(&groups->all);
	return groups;
}

void box_process_cgroups_free(struct box_process_cgroups *groups)
{
	while (groups && !box_list_empty(&groups->all)) {
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the one before has left the list */
		group_free(group_at(groups->all.next));
	}
	free(groups);
}

int box_process_cgroups_open(struct box_process_cgroups *groups, uint32_t process,
	uint64_t memory_bytes, struct box_process_cgroups_fds *ret_fds, struct box_err *err)
{
	const struct group *group = find(groups, process);
	if (group && group->closed) {
		return box_err_set(err, BOX_ERR_BOX, ENOENT, "the group of the process is gone");
	}
	if (!group) {
		if (groups->count >= BOX_PROCESS_CGROUPS_MAX) {
			return box_err_set(err, BOX_ERR_CAPACITY, EUSERS,
				"too many processes with a memory limit in this box (limit %d)",
				BOX_PROCESS_CGROUPS_MAX);
		}
		int r = box_process_cgroups_make_group(groups->cgroup, process, memory_bytes, err);
		if (r < 0) {
			return r;
		}
		group_new(groups, process);
	}
	int r = box_process_cgroups_open_group(
		groups->cgroup, process, &ret_fds->procs_fd, &ret_fds->events, err);
	if (r == 0) {
		ret_fds->rest = box_cgroup_leaf_events(groups->cgroup);
	}
	return r;
}

/* Processes that were killed a moment ago may still be there. */
static void try_remove(struct group *group)
{
	if (box_process_cgroups_remove_group(group->groups->cgroup, group->process) == 0) {
		group_free(group);
		return;
	}
	uint64_t pause_ms = group->pause_ms > 0 ? 2 * group->pause_ms : 1;
	group->pause_ms = BOX_MIN(pause_ms, PAUSE_MAX_MS);
	group->due_ms = box_clock_ms() + group->pause_ms;
}

void box_process_cgroups_close(struct box_process_cgroups *groups, uint32_t process)
{
	struct group *group = find(groups, process);
	if (group && !group->closed) {
		group->closed = true;
		box_list_push(groups->waiting, &group->waits);
		try_remove(group);
	}
}

uint64_t box_process_cgroups_due_ms(const struct box_list *waiting)
{
	uint64_t due_ms = UINT64_MAX;
	for (struct box_list *at = waiting->next; at != waiting; at = at->next) {
		due_ms = waiting_at(at)->due_ms < due_ms ? waiting_at(at)->due_ms : due_ms;
	}
	return due_ms;
}

void box_process_cgroups_try_removals(struct box_list *waiting)
{
	uint64_t now_ms = box_clock_ms();
	struct box_list *next;
	for (struct box_list *at = waiting->next; at != waiting; at = next) {
		next = at->next;
		if (waiting_at(at)->due_ms <= now_ms) {
			try_remove(waiting_at(at));
		}
	}
}
