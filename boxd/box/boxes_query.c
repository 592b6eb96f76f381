/* What is asked of single boxes, or of all: nothing here changes their state. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/macros.h"
#include "boxd/box/boxes_state.h"
#include "boxd/box/host_memory.h"
#include "boxd/box/make_from_warm.h"
#include "boxd/cgroup/cgroup.h"

struct box_boxes_entry *box_boxes_find(struct box_boxes *boxes, uint64_t box)
{
	struct box_boxes_entry *entry = box_table_get(&boxes->by_number, box_boxes_key(&box));
	return entry && entry->state == BOX_BOXES_LIVE ? entry : NULL;
}

bool box_boxes_has_ended(const struct box_boxes_entry *entry)
{
	struct pollfd polled = {.fd = entry->living.pidfd, .events = POLLIN};
	return poll(&polled, 1, 0) == 1;
}

static void add_promises(struct box_list *list, struct box_host_memory *facts)
{
	for (struct box_list *at = list->next; at != list; at = at->next) {
		const struct box_boxes_entry *entry = box_boxes_entry_of(at);
		if (entry->promised_bytes == 0) {
			continue;
		}
		uint64_t taken = entry->living.cgroup ? box_cgroup_memory(entry->living.cgroup) : 0;
		facts->machines++;
		facts->promised_bytes += entry->promised_bytes;
		facts->taken_bytes += BOX_MIN(taken, entry->promised_bytes);
	}
}

int box_boxes_check_memory(
	struct box_boxes *boxes, const struct box_plan *plan, struct box_err *err)
{
	struct box_host_memory facts;
	uint64_t reserve_bytes = boxes->ground->policy.reserve_bytes;
	bool machine = plan->ask->kind == BOX_PLAN_KIND_MICROVM;
	if (!machine && reserve_bytes == 0) {
		return 0;
	}
	int r = box_host_memory_read(boxes->ground->cgroups, &facts, err);
	if (r == 0) {
		r = box_host_memory_check_reserve(&facts, reserve_bytes, err);
	}
	if (r < 0 || !machine) {
		return r;
	}
	add_promises(&boxes->live, &facts);
	add_promises(&boxes->restless, &facts);
	return box_host_memory_check_promises(&facts, plan->limit_bytes, err);
}

static int no_box(struct box_err *err)
{
	return box_err_set(err, BOX_ERR_BOX, ENOENT, "the box has ended");
}

int box_boxes_mount(struct box_boxes *boxes, uint64_t box, int source, bool read_only,
	int *ret_mount, struct box_err *err)
{
	const struct box_boxes_entry *entry = box_boxes_find(boxes, box);
	return entry
		? box_make_mount(boxes->ground, &entry->living, source, read_only, ret_mount, err)
		: no_box(err);
}

static bool uses(struct box_list *list, const struct stat *status)
{
	for (struct box_list *at = list->next; at != list; at = at->next) {
		const struct box_boxes_entry *entry = box_boxes_entry_of(at);
		if (entry->source_inode == status->st_ino &&
			entry->source_device == status->st_dev) {
			return true;
		}
	}
	return false;
}

bool box_boxes_uses_folder(struct box_boxes *boxes, int source)
{
	struct stat status;
	return fstat(source, &status) < 0 || uses(&boxes->live, &status) ||
		uses(&boxes->restless, &status);
}

struct box_process_cgroups *box_boxes_process_cgroups(
	struct box_boxes *boxes, uint64_t box, struct box_err *err)
{
	struct box_boxes_entry *entry = box_boxes_find(boxes, box);
	if (!entry) {
		(void)no_box(err);
		return NULL;
	}
	if (!entry->groups && entry->living.cgroup) {
		entry->groups = box_process_cgroups_new(entry->living.cgroup, &boxes->groups);
	} else if (!entry->groups) {
		(void)box_err_set(err, BOX_ERR_BACKEND_UNAVAILABLE, EOPNOTSUPP,
			"no limits can be set in this box");
	}
	return entry->groups;
}

const char *box_boxes_tenant(struct box_boxes *boxes, uint64_t box)
{
	const struct box_boxes_entry *entry = box_boxes_find(boxes, box);
	return entry ? entry->tenant : NULL;
}

bool box_boxes_is_microvm(struct box_boxes *boxes, uint64_t box)
{
	const struct box_boxes_entry *entry = box_boxes_find(boxes, box);
	return entry && entry->promised_bytes > 0;
}

/* The pid is nobody else's while its end has not been waited for. */
int box_boxes_root(struct box_boxes *boxes, uint64_t box, int *ret_root, const char **ret_workspace,
	bool *ret_own)
{
	struct box_boxes_entry *entry = box_boxes_find(boxes, box);
	char path[64];
	if (!entry || box_boxes_has_ended(entry)) {
		return -ESRCH;
	}
	if (entry->promised_bytes > 0) {
		return -EOPNOTSUPP; /* what is in it is in its guest's memory */
	}
	(void)snprintf(path, sizeof(path), "/proc/%d/root", entry->living.pid);
	int root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0) {
		return -errno;
	}
	*ret_root = root;
	*ret_workspace = entry->workspace;
	*ret_own = entry->own_workspace;
	return 0;
}
