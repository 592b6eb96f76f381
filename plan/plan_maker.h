/* Functions that append steps to the lists of a plan. Used by plan.c (the box) and plan_jail.c (the
 * jail of a microVM) only. */
#pragma once

#include "plan/plan.h"

struct box_plan_maker {
	const struct box_plan_request *ask;
	const struct box_policy *policy;
	const struct box_plan_host *host;
	struct box_plan *plan;
	struct box_plan_step *steps; /* the list that is being filled, and its length */
	size_t *step_count;
	bool single_id; /* init and the payload have the same uid, so no other owner is possible */
	uint64_t memory_bytes;
	struct box_plan_step spare; /* written to when the list is full */
	bool full;
};

struct box_plan_step *box_plan_add_step(
	struct box_plan_maker *maker, enum box_plan_step_kind kind, const char *target);
void box_plan_add_folder(
	struct box_plan_maker *maker, const char *target, enum box_plan_owner owner, uint32_t mode);
void box_plan_add_mount_point(struct box_plan_maker *maker, const char *target);
struct box_plan_step *box_plan_add_tmpfs(struct box_plan_maker *maker, const char *target,
	uint64_t size_bytes, enum box_plan_owner owner, uint32_t mode);
void box_plan_add_link(struct box_plan_maker *maker, const char *target, const char *source);
/* Appends a tree that is mounted read-only; the caller may change that in the step. */
struct box_plan_step *box_plan_add_tree(struct box_plan_maker *maker, const char *target,
	enum box_plan_tree tree, const char *source);

/* Appends the jail of a microVM: the root of box-vmm. The guest's own list must be complete. */
void box_plan_add_jail(struct box_plan_maker *maker);
