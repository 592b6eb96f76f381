/* When a warm box that was prepared for one request can serve another. */
#include "plan/plan.h"
#include "tests/unit/lib/test.h"

static struct box_plan_request ask;
static struct box_policy policy;
static struct box_plan_host host;
static struct box_plan plan;
static struct box_err err;

/* As root on a host with every feature, with a host folder. */
static void set_up(void)
{
	ask = (struct box_plan_request){.name = "s1",
		.host_path = "/srv/a",
		.host_mode = BOX_PLAN_MOUNT_RW,
		.mount_path = "/workspace",
		.memory_bytes = 512 * BOX_MIB,
		.pids = 128,
		.cpu_milli = 1000};
	host = (struct box_plan_host){.root = true,
		.id_ranges = true,
		.cgroups = true,
		.landlock_abi = 7,
		.network = true,
		.own_etc = true,
		.root_entries = {{.name = "usr"}, {.name = "bin", .link = "usr/bin"}},
		.root_entry_count = 2};
}

/* The part of a plan that a warm box is built from. */
static void assert_same_steps(const struct box_plan *other)
{
	ASSERT_INT(plan.step_count, other->step_count);
	for (size_t i = 0; i < plan.step_count; i++) {
		const struct box_plan_step *a = &plan.steps[i];
		const struct box_plan_step *b = &other->steps[i];
		ASSERT_STR(a->target, b->target);
		ASSERT(a->kind == b->kind && a->tree == b->tree && a->entry == b->entry &&
			a->read_only == b->read_only && a->no_exec == b->no_exec &&
			a->devices == b->devices && a->owner == b->owner && a->mode == b->mode &&
			a->size_bytes == b->size_bytes && a->inodes == b->inodes);
	}
	ASSERT_INT(plan.rule_count, other->rule_count);
	for (size_t i = 0; i < plan.rule_count; i++) {
		ASSERT_STR(plan.rules[i].path, other->rules[i].path);
		ASSERT_INT(plan.rules[i].may, other->rules[i].may);
	}
	ASSERT_INT(plan.profile, other->profile);
	ASSERT_INT(plan.landlock_abi, other->landlock_abi);
}

static void change(struct box_plan_request *to, unsigned field)
{
	switch (field) {
	case 0:
		strcpy(to->name, "another");
		break;
	case 1:
		strcpy(to->host_path, "/srv/another");
		break;
	case 2:
		to->cpu_milli++;
		break;
	case 3:
		to->network = 1;
		break;
	case 4:
		to->pids++;
		break;
	case 5:
		to->quota_bytes = BOX_MIB; /* of a host folder, which does not belong to the box */
		break;
	case 6:
		strcpy(to->mount_path, "/elsewhere");
		break;
	case 7:
		to->host_mode = BOX_PLAN_MOUNT_RO;
		break;
	case 8:
		to->writable_root = !to->writable_root;
		break;
	case 9:
		to->profile = BOX_FILTER_STRICT;
		break;
	case 10:
		strcpy(to->image, "another");
		break;
	default:
		to->memory_bytes += BOX_MIB;
		break;
	}
}

/* Each field by itself: those that a warm box does not depend on, and those that it does. */
TEST(one_shape)
{
	static struct box_plan first;
	for (unsigned field = 0; field < 12; field++) {
		for (unsigned cgroups = 0; cgroups < 2; cgroups++) {
			set_up();
			host.cgroups = cgroups;
			policy.degraded = 1;
			struct box_plan_request before = ask;
			ASSERT_INT(box_plan_make(&before, &policy, &host, &first, &err), 0);
			change(&ask, field);
			ASSERT_INT(box_plan_make(&ask, &policy, &host, &plan, &err), 0);
			bool same = field < 3 || (field == 4 && host.cgroups) || field == 5;
			ASSERT_INT(box_plan_same_shape(&before, &ask, &host), same);
			if (same) {
				assert_same_steps(&first);
			}
		}
	}
}

/* The network allowlist is applied later, when the box exists. */
TEST(egress_is_no_shape)
{
	set_up();
	ask.network = 1;
	struct box_plan_request other = ask;
	other.egress.limited = 1;
	ASSERT(box_plan_same_shape(&ask, &other, &host));
}

/* A private workspace is created with its size. */
TEST(own_workspaces_differ_by_quota)
{
	set_up();
	ask.host_mode = BOX_PLAN_MOUNT_NONE;
	ask.host_path[0] = '\0';
	struct box_plan_request other = ask;
	ASSERT(box_plan_same_shape(&ask, &other, &host));
	other.quota_bytes = 8 * BOX_MIB;
	ASSERT(!box_plan_same_shape(&ask, &other, &host));
}
