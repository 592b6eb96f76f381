/* One function for each kind of step that several lists contain. */
#include "plan/plan_maker.h"

#include "base/macros.h"

#define INODES_MIN 4096
#define INODES_MAX 1048576
#define INODE_PER_BYTES 4096 /* a non-empty file takes a page */

static uint64_t inodes_for(uint64_t size_bytes)
{
	uint64_t inodes = size_bytes / INODE_PER_BYTES;
	if (inodes < INODES_MIN) {
		return INODES_MIN;
	}
	return BOX_MIN(inodes, INODES_MAX);
}

struct box_plan_step *box_plan_add_step(
	struct box_plan_maker *maker, enum box_plan_step_kind kind, const char *target)
{
	struct box_plan_step *step = &maker->spare;
	if (*maker->step_count < BOX_PLAN_STEPS_MAX) {
		step = &maker->steps[(*maker->step_count)++];
	} else {
		maker->full = true;
	}
	*step = (struct box_plan_step){.kind = kind, .target = target};
	return step;
}

static enum box_plan_owner owner_of(const struct box_plan_maker *maker, enum box_plan_owner owner)
{
	return maker->single_id ? BOX_PLAN_OWNER_PAYLOAD : owner;
}

void box_plan_add_folder(
	struct box_plan_maker *maker, const char *target, enum box_plan_owner owner, uint32_t mode)
{
	struct box_plan_step *step = box_plan_add_step(maker, BOX_PLAN_STEP_FOLDER, target);
	step->owner = owner_of(maker, owner);
	step->mode = mode;
}

void box_plan_add_mount_point(struct box_plan_maker *maker, const char *target)
{
	box_plan_add_folder(maker, target, BOX_PLAN_OWNER_INIT, 0755);
}

struct box_plan_step *box_plan_add_tmpfs(struct box_plan_maker *maker, const char *target,
	uint64_t size_bytes, enum box_plan_owner owner, uint32_t mode)
{
	struct box_plan_step *step = box_plan_add_step(maker, BOX_PLAN_STEP_TMPFS, target);
	step->size_bytes = size_bytes;
	step->inodes = inodes_for(size_bytes);
	step->owner = owner_of(maker, owner);
	step->mode = mode;
	return step;
}

void box_plan_add_link(struct box_plan_maker *maker, const char *target, const char *source)
{
	struct box_plan_step *step = box_plan_add_step(maker, BOX_PLAN_STEP_LINK, target);
	step->source = source;
	step->owner = owner_of(maker, BOX_PLAN_OWNER_INIT);
}

struct box_plan_step *box_plan_add_tree(struct box_plan_maker *maker, const char *target,
	enum box_plan_tree tree, const char *source)
{
	struct box_plan_step *step = box_plan_add_step(maker, BOX_PLAN_STEP_TREE, target);
	step->tree = tree;
	step->source = source;
	step->read_only = true;
	return step;
}
