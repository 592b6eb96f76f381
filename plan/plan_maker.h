/* How the lists of a plan are filled, for the files that do it: plan.c has what a box is made of,
 * plan_jail.c what is around a microVM. Nobody else includes this. */
#pragma once

#include "plan/plan.h"

struct box_plan_maker {
	const struct box_plan_request *ask;
	const struct box_policy *policy;
	const struct box_plan_host *host;
	struct box_plan *plan;
	struct box_plan_step *steps; /* the list that is being filled, and how far it is */
	size_t *step_count;
	bool single_id; /* init is the payload in it, and no other owner can be named */
	uint64_t memory_bytes;
	struct box_plan_step spare; /* taken when the list is full */
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
/* Read-only. */
struct box_plan_step *box_plan_add_tree(struct box_plan_maker *maker, const char *target,
	enum box_plan_tree tree, const char *source);

/* What is around a microVM: the root of box-vmm. The guest's own list must be there. */
void box_plan_add_jail(struct box_plan_maker *maker);
