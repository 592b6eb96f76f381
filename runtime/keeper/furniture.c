/* From the guest's list of a plan to what its box-init builds. What is masked or comes with the order
 * is no furniture. */
#include "runtime/keeper/furniture.h"

#include <stdio.h>
#include <string.h>

#define PREFIX 31 /* of a seat at the router */

static const int kinds[] = {
	[BOX_STEP_TMPFS] = BOX_FURNITURE_TMPFS,
	[BOX_STEP_TREE] = BOX_FURNITURE_TREE,
	[BOX_STEP_PROC] = BOX_FURNITURE_PROC,
	[BOX_STEP_PTS] = BOX_FURNITURE_PTS,
	[BOX_STEP_FOLDER] = BOX_FURNITURE_FOLDER,
	[BOX_STEP_LINK] = BOX_FURNITURE_LINK,
	[BOX_STEP_MASK] = -1,
	[BOX_STEP_FREEZE] = BOX_FURNITURE_FREEZE,
};

static int kind_of(const struct box_step *step)
{
	if (step->kind != BOX_STEP_TREE) {
		return kinds[step->kind];
	}
	return step->tree == BOX_TREE_HOST_PATH ? -1
		: step->tree == BOX_TREE_DEV    ? BOX_FURNITURE_DEVICES
						: BOX_FURNITURE_TREE;
}

size_t box_furniture_count(const struct box_plan *plan)
{
	size_t count = 0;
	for (size_t i = 0; i < plan->inside_count; i++) {
		count += kind_of(&plan->inside[i]) >= 0;
	}
	return count;
}

static void fill_piece(const struct box_step *step, int kind, struct box_furniture *piece)
{
	/* Devices are filled where they are, and read-only by themselves after that. */
	bool read_only = step->read_only && kind != BOX_FURNITURE_DEVICES;
	*piece = (struct box_furniture){
		.kind = (uint32_t)kind,
		.flags = (read_only ? BOX_FURNITURE_READ_ONLY : 0U) |
			(step->no_exec ? BOX_FURNITURE_NO_EXEC : 0U) |
			(step->owner == BOX_OWNER_PAYLOAD ? BOX_FURNITURE_OF_PAYLOAD : 0U),
		.mode = step->mode,
		.size_bytes = step->size_bytes,
		.inodes = step->inodes,
	};
	(void)snprintf(piece->target, sizeof(piece->target), "%s", step->target);
	/* A tree has the name of its place, in the share too. */
	const char *source = kind == BOX_FURNITURE_TREE ? step->target + 1
		: kind == BOX_FURNITURE_LINK            ? step->source
							: "";
	(void)snprintf(piece->source, sizeof(piece->source), "%s", source);
}

void box_furniture_fill(const struct box_plan *plan, struct box_furniture *to)
{
	for (size_t i = 0; i < plan->inside_count; i++) {
		int kind = kind_of(&plan->inside[i]);
		if (kind >= 0) {
			fill_piece(&plan->inside[i], kind, to++);
		}
	}
}

void box_furniture_describe(const struct box_plan *plan, const struct box_network_seat *seat,
	struct box_machine_boot *ret_boot)
{
	*ret_boot = (struct box_machine_boot){
		.size = sizeof(*ret_boot),
		.furniture_count = (uint32_t)box_furniture_count(plan),
		.memory_mib = plan->machine.memory_mib,
		.cpus = plan->machine.cpus,
		.network = seat != NULL,
		.address = seat ? seat->box_address : 0,
		.prefix = seat ? PREFIX : 0,
		.gateway = seat ? seat->router_address : 0,
		.deadline_ms = plan->machine.start_ms,
		.pids = plan->pids,
		.open_files = (uint32_t)plan->open_files,
	};
	(void)snprintf(ret_boot->hostname, sizeof(ret_boot->hostname), "%s", plan->hostname);
}
