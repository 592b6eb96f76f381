/* Converts the guest steps of a plan to the root steps of a boot file. Masks, and mounts that come with
 * the order, are not root steps. */
#include "boxd/box/boot_file_root_steps.h"

#include <stdio.h>
#include <string.h>

#define PREFIX 31 /* of the address at the router */

static const int kinds[] = {
	[BOX_PLAN_STEP_TMPFS] = BOX_ROOT_STEP_TMPFS,
	[BOX_PLAN_STEP_TREE] = BOX_ROOT_STEP_TREE,
	[BOX_PLAN_STEP_PROC] = BOX_ROOT_STEP_PROC,
	[BOX_PLAN_STEP_PTS] = BOX_ROOT_STEP_PTS,
	[BOX_PLAN_STEP_FOLDER] = BOX_ROOT_STEP_FOLDER,
	[BOX_PLAN_STEP_LINK] = BOX_ROOT_STEP_LINK,
	[BOX_PLAN_STEP_MASK] = -1,
	[BOX_PLAN_STEP_FREEZE] = BOX_ROOT_STEP_FREEZE,
};

static int kind_of(const struct box_plan_step *step)
{
	if (step->kind != BOX_PLAN_STEP_TREE) {
		return kinds[step->kind];
	}
	return step->tree == BOX_PLAN_TREE_HOST_PATH ? -1
		: step->tree == BOX_PLAN_TREE_DEV    ? BOX_ROOT_STEP_DEVICES
						     : BOX_ROOT_STEP_TREE;
}

size_t box_boot_file_count_root_steps(const struct box_plan *plan)
{
	size_t count = 0;
	for (size_t i = 0; i < plan->inside_count; i++) {
		count += kind_of(&plan->inside[i]) >= 0;
	}
	return count;
}

static void fill_step(const struct box_plan_step *step, int kind, struct box_root_step *to)
{
	/* Devices are filled in place, and are read-only after that anyway. */
	bool read_only = step->read_only && kind != BOX_ROOT_STEP_DEVICES;
	*to = (struct box_root_step){
		.kind = (uint32_t)kind,
		.flags = (read_only ? BOX_ROOT_STEP_READ_ONLY : 0U) |
			(step->no_exec ? BOX_ROOT_STEP_NO_EXEC : 0U) |
			(step->owner == BOX_PLAN_OWNER_PAYLOAD ? BOX_ROOT_STEP_OF_PAYLOAD : 0U),
		.mode = step->mode,
		.size_bytes = step->size_bytes,
		.inodes = step->inodes,
	};
	(void)snprintf(to->target, sizeof(to->target), "%s", step->target);
	/* A tree is named after its path, in the share too. */
	const char *source = kind == BOX_ROOT_STEP_TREE ? step->target + 1
		: kind == BOX_ROOT_STEP_LINK            ? step->source
							: "";
	(void)snprintf(to->source, sizeof(to->source), "%s", source);
}

void box_boot_file_fill_root_steps(const struct box_plan *plan, struct box_root_step *to)
{
	for (size_t i = 0; i < plan->inside_count; i++) {
		int kind = kind_of(&plan->inside[i]);
		if (kind >= 0) {
			fill_step(&plan->inside[i], kind, to++);
		}
	}
}

void box_boot_file_describe_microvm(const struct box_plan *plan,
	const struct box_network_slot *slot, struct box_microvm_boot *ret_boot)
{
	*ret_boot = (struct box_microvm_boot){
		.size = sizeof(*ret_boot),
		.root_step_count = (uint32_t)box_boot_file_count_root_steps(plan),
		.memory_mib = plan->machine.memory_mib,
		.cpus = plan->machine.cpus,
		.network = slot != NULL,
		.address = slot ? slot->box_address : 0,
		.prefix = slot ? PREFIX : 0,
		.gateway = slot ? slot->router_address : 0,
		.deadline_ms = plan->machine.start_ms,
		.pids = plan->pids,
		.open_files = (uint32_t)plan->open_files,
	};
	(void)snprintf(ret_boot->hostname, sizeof(ret_boot->hostname), "%s", plan->hostname);
}
