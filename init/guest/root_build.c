/* Converts the boot file's root steps to those of base/root_builder.c, adding the guest's own ids and mounts. */
#include "init/guest/root_build.h"

#include <errno.h>
#include <linux/mount.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fsmount.h"
#include "base/macros.h"
#include "base/root_builder.h"
#include "protocol/microvm.h"

static const enum box_root_builder_kind kinds[] = {
	[BOX_ROOT_STEP_TMPFS] = BOX_ROOT_BUILDER_TMPFS,
	[BOX_ROOT_STEP_TREE] = BOX_ROOT_BUILDER_TREE,
	[BOX_ROOT_STEP_FOLDER] = BOX_ROOT_BUILDER_FOLDER,
	[BOX_ROOT_STEP_LINK] = BOX_ROOT_BUILDER_LINK,
	[BOX_ROOT_STEP_DEVICES] = BOX_ROOT_BUILDER_DEVICES,
	[BOX_ROOT_STEP_PROC] = BOX_ROOT_BUILDER_PROC,
	[BOX_ROOT_STEP_PTS] = BOX_ROOT_BUILDER_PTS,
	[BOX_ROOT_STEP_FREEZE] = BOX_ROOT_BUILDER_FREEZE,
};

static uint64_t attributes_of(const struct box_root_step *step)
{
	bool devices = step->kind == BOX_ROOT_STEP_DEVICES || step->kind == BOX_ROOT_STEP_PTS;
	return MOUNT_ATTR_NOSUID | (devices ? 0 : MOUNT_ATTR_NODEV) |
		(devices || (step->flags & BOX_ROOT_STEP_NO_EXEC) ? MOUNT_ATTR_NOEXEC : 0) |
		(step->flags & BOX_ROOT_STEP_READ_ONLY ? MOUNT_ATTR_RDONLY : 0);
}

/* Without limits of inotify, because this kernel is the box's own. */
static struct box_root_builder_step step_of(
	const struct box_root_build *build, const struct box_root_step *step)
{
	/* Terminals belong to the payload, whichever process of the box opens them. */
	bool payload = (step->flags & BOX_ROOT_STEP_OF_PAYLOAD) || step->kind == BOX_ROOT_STEP_PTS;
	return (struct box_root_builder_step){
		.kind = kinds[step->kind],
		.target = step->target,
		.source = step->source,
		.tree = -1,
		.uid = payload ? build->uid : 0,
		.gid = payload ? build->gid : 0,
		.mode = step->mode,
		.size_bytes = step->size_bytes,
		.inodes = step->inodes,
		.attributes = attributes_of(step),
	};
}

static int run_tree(
	const struct box_root_build *build, int root, struct box_root_builder_step *step)
{
	_cleanup_(box_close_p) int tree = build->open_tree(step->source);
	if (tree < 0) {
		return tree;
	}
	int r = box_fsmount_add_attributes(tree, step->attributes);
	if (r < 0) {
		return r;
	}
	step->tree = tree;
	return box_root_builder_run_step(root, step);
}

static int make_root(const struct box_root_build *build, const struct box_root_step *first,
	int *ret_root, int *ret_writable)
{
	if (first->kind != BOX_ROOT_STEP_TMPFS || strcmp(first->target, "/") != 0) {
		return -EINVAL;
	}
	const struct box_root_builder_step step = step_of(build, first);
	return box_root_builder_make_root(&step, "/", ret_root, ret_writable);
}

static int run_step(const struct box_root_build *build, const struct box_root_step *from, int root)
{
	if (from->kind >= BOX_COUNT_OF(kinds)) {
		return -EINVAL;
	}
	struct box_root_builder_step step = step_of(build, from);
	return from->kind == BOX_ROOT_STEP_TREE ? run_tree(build, root, &step)
						: box_root_builder_run_step(root, &step);
}

/* The steps in a boot file are not aligned, so each is copied. */
static int run_steps(
	const struct box_root_build *build, int *root, int *writable, uint32_t *ret_step)
{
	static struct box_root_step step;
	if (build->count == 0) {
		return -EINVAL;
	}
	for (uint32_t i = 0; i < build->count; i++) {
		memcpy(&step, build->steps + i * sizeof(step), sizeof(step));
		*ret_step = i;
		int r = i == 0 ? make_root(build, &step, root, writable)
			       : run_step(build, &step, *root);
		if (r < 0) {
			return r;
		}
	}
	return 0;
}

int box_root_build(
	const struct box_root_build *build, int *ret_root, int *ret_writable, uint32_t *ret_step)
{
	_cleanup_(box_close_p) int root = -1;
	_cleanup_(box_close_p) int writable = -1;
	mode_t mask = umask(0);
	int r = run_steps(build, &root, &writable, ret_step);
	(void)umask(mask);
	if (r < 0) {
		return r;
	}
	*ret_root = TAKE_FD(root);
	*ret_writable = TAKE_FD(writable);
	return 0;
}
