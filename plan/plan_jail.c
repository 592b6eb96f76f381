/* The root of box-vmm: all that a guest can reach after it has taken over box-vmm.
 *
 * It contains no program and no library, only the one device that is needed and the trees that the
 * guest may see, which are mounted here and shared from here. Its /proc shows processes only: the file
 * server of the microVM reopens files through /proc/self/fd.
 */
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "plan/plan_maker.h"

#define ROOT_BYTES (1 * BOX_MIB)
#define SMALL_BYTES (1 * BOX_MIB)

/* The trees in the guest's list of steps, each under its own name. */
static void add_trees(struct box_plan_maker *maker)
{
	struct box_plan *plan = maker->plan;
	size_t used = 0;
	for (size_t i = 0; i < plan->inside_count; i++) {
		const struct box_plan_step *inside = &plan->inside[i];
		bool shared = inside->kind == BOX_PLAN_STEP_TREE &&
			(inside->tree == BOX_PLAN_TREE_ENTRY || inside->tree == BOX_PLAN_TREE_ETC);
		if (!shared || used == BOX_COUNT_OF(plan->tree_targets)) {
			continue;
		}
		char *target = plan->tree_targets[used++];
		(void)snprintf(target, sizeof(plan->tree_targets[0]), "%s%s", BOX_PLAN_TREES,
			inside->target);
		box_plan_add_mount_point(maker, target);
		struct box_plan_step *tree = box_plan_add_tree(
			maker, target, inside->tree, inside->source);
		tree->entry = inside->entry;
	}
}

static void add_workspace(struct box_plan_maker *maker)
{
	const struct box_plan_request *ask = maker->ask;
	if (ask->host_mode == BOX_PLAN_MOUNT_NONE) {
		box_plan_add_mount_point(maker, BOX_PLAN_SHARED_WORKSPACE);
		return;
	}
	box_plan_add_folder(maker, BOX_PLAN_SHARED_WORKSPACE, BOX_PLAN_OWNER_PAYLOAD, 0755);
	struct box_plan_step *tree = box_plan_add_tree(
		maker, BOX_PLAN_SHARED_WORKSPACE, BOX_PLAN_TREE_HOST_PATH, ask->host_path);
	tree->read_only = ask->host_mode == BOX_PLAN_MOUNT_RO;
}

static void add_small_tmpfs(struct box_plan_maker *maker, const char *target)
{
	box_plan_add_mount_point(maker, target);
	struct box_plan_step *step = box_plan_add_tmpfs(
		maker, target, SMALL_BYTES, BOX_PLAN_OWNER_INIT, 0755);
	step->no_exec = true;
}

void box_plan_add_jail(struct box_plan_maker *maker)
{
	struct box_plan_step *root = box_plan_add_tmpfs(
		maker, "/", ROOT_BYTES, BOX_PLAN_OWNER_INIT, 0755);
	root->no_exec = true;
	box_plan_add_mount_point(maker, "/dev");
	struct box_plan_step *dev = box_plan_add_tree(maker, "/dev", BOX_PLAN_TREE_KVM, NULL);
	dev->devices = true;
	dev->no_exec = true;
	box_plan_add_mount_point(maker, "/proc");
	struct box_plan_step *proc = box_plan_add_step(maker, BOX_PLAN_STEP_PROC, "/proc");
	proc->no_exec = true;
	proc->pids_only = true;
	add_small_tmpfs(maker, "/run");
	add_trees(maker);
	add_workspace(maker);
	add_small_tmpfs(maker, BOX_PLAN_SHARED_MOUNTS);
	(void)box_plan_add_step(maker, BOX_PLAN_STEP_FREEZE, "/");
}
