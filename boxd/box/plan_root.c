/* Builds the root of a box from its plan, adding what the plan leaves to the kind of box: ids, mount
 * attributes, limits below /proc/sys. */
#include "boxd/box/plan_root.h"

#include <sys/mount.h>

#include "base/root_builder.h"

static const enum box_root_builder_kind kinds[] = {
	[BOX_PLAN_STEP_TMPFS] = BOX_ROOT_BUILDER_TMPFS,
	[BOX_PLAN_STEP_TREE] = BOX_ROOT_BUILDER_TREE,
	[BOX_PLAN_STEP_PROC] = BOX_ROOT_BUILDER_PROC,
	[BOX_PLAN_STEP_PTS] = BOX_ROOT_BUILDER_PTS,
	[BOX_PLAN_STEP_FOLDER] = BOX_ROOT_BUILDER_FOLDER,
	[BOX_PLAN_STEP_LINK] = BOX_ROOT_BUILDER_LINK,
	[BOX_PLAN_STEP_MASK] = BOX_ROOT_BUILDER_MASK,
	[BOX_PLAN_STEP_FREEZE] = BOX_ROOT_BUILDER_FREEZE,
};

/* Terminals belong to the payload's user, whichever process of the box opens them. */
static uint32_t owner_of(const struct box_plan_root *root, const struct box_plan_step *step)
{
	bool payload = step->owner == BOX_PLAN_OWNER_PAYLOAD || root->same_uid ||
		step->kind == BOX_PLAN_STEP_PTS;
	return payload ? BOX_PLAN_PAYLOAD_ID : 0;
}

static uint64_t attributes_of(const struct box_plan_step *step)
{
	return MOUNT_ATTR_NOSUID | (step->devices ? 0 : MOUNT_ATTR_NODEV) |
		(step->no_exec ? MOUNT_ATTR_NOEXEC : 0) | (step->read_only ? MOUNT_ATTR_RDONLY : 0);
}

static struct box_root_builder_step step_of(const struct box_plan_root *root, size_t number)
{
	const struct box_plan_step *step = &root->plan->steps[number];
	uint32_t owner = owner_of(root, step);
	return (struct box_root_builder_step){
		.kind = kinds[step->kind],
		.target = step->target,
		.source = step->source,
		.tree = root->trees[number],
		.uid = owner,
		.gid = owner,
		.mode = step->mode,
		.size_bytes = step->size_bytes,
		.inodes = step->inodes,
		.attributes = attributes_of(step),
		.proc =
			{
				.pids_only = step->pids_only,
				.for_passt = step->pids_only && root->plan->network,
				.same_uid = root->same_uid,
				.bound_inotify = true,
			},
	};
}

int box_plan_root_make(const struct box_plan_root *root, int *ret_root, int *ret_writable)
{
	const struct box_root_builder_step step = step_of(root, 0);
	return box_root_builder_make_root(&step, root->anchor, ret_root, ret_writable);
}

int box_plan_root_run_steps(
	const struct box_plan_root *root, int root_fd, int *ret_place, size_t *ret_step)
{
	for (size_t i = 1; i < root->plan->step_count; i++) {
		const struct box_root_builder_step step = step_of(root, i);
		bool later = step.kind == BOX_ROOT_BUILDER_TREE && step.tree < 0;
		int r = later ? box_root_builder_open_place(root_fd, &step, ret_place)
			      : box_root_builder_run_step(root_fd, &step);
		if (r < 0) {
			*ret_step = i;
			return r;
		}
	}
	return 0;
}
