/* Makes the plan: the ordered list of steps that a box is made of.
 *
 * Order matters: a step may only use what earlier steps have made. Mount points are made in file
 * systems of our own, never in a tree from outside. plan_check.c refuses requests before the list is
 * begun.
 */
#include "plan/plan.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#include "base/macros.h"
#include "plan/plan_maker.h"

#define GRAIN (64 * BOX_KIB) /* the largest page size: limits are read back as written */
#define ROOT_BYTES (4 * BOX_MIB)
#define ROOT_INODES 4096
#define WRITABLE_ROOT_BYTES_MIN (16 * BOX_MIB)
#define RUN_BYTES (16 * BOX_MIB)

#define MEMORY_BYTES_MAX (1UL << 50) /* well below the value that the kernel takes for "no limit" */
#define PIDS_MAX (1U << 22)          /* the kernel's maximum */
#define CPU_MILLI_MAX 8192000U       /* as many processors as a kernel can be built for */
#define GUEST_OPEN_FILES 16384       /* per process in a microVM, which has its own kernel */
#define OWN_PROCESSES 2              /* box-init and its mounter, in addition to commands */
#define GUEST_LANDLOCK_ABI \
	5 /* the newest that box-init knows; it uses what the guest's kernel has */

/* All sizes are far below overflow, because memory is clamped first. */
static uint64_t share_of(uint64_t memory_bytes, unsigned parts, uint64_t at_least)
{
	uint64_t share = memory_bytes / parts;
	share -= share % GRAIN;
	return BOX_MAX(share, at_least);
}

static bool is_microvm(const struct box_plan_maker *maker)
{
	return maker->ask->kind == BOX_PLAN_KIND_MICROVM;
}

/* Sticky if writable: the payload may add to the root, but cannot replace init's links and mount
 * points. */
static void add_root(struct box_plan_maker *maker)
{
	if (maker->ask->writable_root) {
		box_plan_add_tmpfs(maker, "/",
			share_of(maker->memory_bytes, 4, WRITABLE_ROOT_BYTES_MIN),
			BOX_PLAN_OWNER_INIT, 01777);
		return;
	}
	struct box_plan_step *root = box_plan_add_tmpfs(
		maker, "/", ROOT_BYTES, BOX_PLAN_OWNER_INIT, 0755);
	root->inodes = ROOT_INODES;
}

/* The workspace replaces whatever else has its path. */
static bool is_replaced(const struct box_plan_maker *maker, const char *target)
{
	return strcmp(target, maker->ask->mount_path) == 0;
}

static const char *root_path(const struct box_plan_maker *maker)
{
	return maker->host->root_path ? maker->host->root_path : maker->policy->rootfs;
}

static void add_entries(struct box_plan_maker *maker)
{
	for (size_t i = 0; i < maker->host->root_entry_count; i++) {
		const struct box_root_entry *entry = &maker->host->root_entries[i];
		char *target = maker->plan->entry_targets[i];
		target[0] = '/';
		memcpy(target + 1, entry->name, strlen(entry->name) + 1);
		if (box_plan_is_own(entry->name, maker->host) || is_replaced(maker, target)) {
			continue;
		}
		if (entry->link[0] != '\0') {
			box_plan_add_link(maker, target, entry->link);
			continue;
		}
		box_plan_add_mount_point(maker, target);
		struct box_plan_step *tree = box_plan_add_tree(
			maker, target, BOX_PLAN_TREE_ENTRY, root_path(maker));
		tree->entry = i;
	}
	if (maker->host->own_etc) {
		box_plan_add_mount_point(maker, "/etc");
		(void)box_plan_add_tree(maker, "/etc", BOX_PLAN_TREE_ETC, NULL);
	}
}

/* The tree has /dev/pts and /dev/shm already: it is read-only. */
static void add_dev(struct box_plan_maker *maker)
{
	box_plan_add_mount_point(maker, "/dev");
	struct box_plan_step *dev = box_plan_add_tree(maker, "/dev", BOX_PLAN_TREE_DEV, NULL);
	dev->devices = true;
	dev->no_exec = true;
	struct box_plan_step *pts = box_plan_add_step(maker, BOX_PLAN_STEP_PTS, "/dev/pts");
	pts->devices = true;
	pts->no_exec = true;
	struct box_plan_step *shm = box_plan_add_tmpfs(
		maker, "/dev/shm", share_of(maker->memory_bytes, 4, 0), BOX_PLAN_OWNER_INIT, 01777);
	shm->no_exec = true;
}

/* Files that the payload's uid could use and has no need for. Not listed, because the kernel requires a
 * capability in the initial user namespace: kcore, kmsg, mtrr, and iomem, ioports and modules, which
 * show zeros. Not listed, because they only show the machine's size, load and build, which tools ask
 * for: cpuinfo, meminfo, stat, vmstat, diskstats, partitions, kpage*, config.gz. */
static const struct {
	const char *path;
	bool single_id; /* only if there is one uid, boxd's, which may be 0 without any capability */
} masks[] = {
	{"/proc/acpi", false},
	{"/proc/asound", false},
	{"/proc/interrupts", false}, /* timing of keystrokes and other events of the host */
	{"/proc/kallsyms", false},   /* addresses, where perf_event_paranoid is 1 or less */
	{"/proc/key-users", false},
	{"/proc/keys", false},
	{"/proc/latency_stats", false},
	{"/proc/pressure", false}, /* anyone may write to it: each trigger uses the kernel */
	{"/proc/sched_debug", false},
	{"/proc/scsi", false},
	{"/proc/slabinfo", true},
	{"/proc/sysrq-trigger", true}, /* protected by its mode only */
	{"/proc/timer_list", true},
	{"/proc/vmallocinfo", true},
};

static void add_proc(struct box_plan_maker *maker)
{
	static const char *const frozen[] = {"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys"};

	box_plan_add_mount_point(maker, "/proc");
	struct box_plan_step *proc = box_plan_add_step(maker, BOX_PLAN_STEP_PROC, "/proc");
	proc->no_exec = true;
	if (is_microvm(maker)) {
		return; /* it shows the box's own kernel */
	}
	for (size_t i = 0; i < BOX_COUNT_OF(masks); i++) {
		if (!masks[i].single_id || maker->single_id) {
			(void)box_plan_add_step(maker, BOX_PLAN_STEP_MASK, masks[i].path);
		}
	}
	for (size_t i = 0; i < BOX_COUNT_OF(frozen); i++) {
		(void)box_plan_add_step(maker, BOX_PLAN_STEP_FREEZE, frozen[i]);
	}
}

/* The quota limits the workspace, in whichever file system of the box it is. */
static uint64_t size_of(const struct box_plan_maker *maker, const char *target, uint64_t size_bytes)
{
	uint64_t quota = maker->plan->quota_bytes;
	return is_replaced(maker, target) && quota > 0 && quota < size_bytes ? quota : size_bytes;
}

/* Without a host folder, an existing folder of the box serves as the workspace. */
static bool has_own(const struct box_plan_maker *maker, const char *target)
{
	return !is_replaced(maker, target) || maker->ask->host_mode == BOX_PLAN_MOUNT_NONE;
}

static void add_own(struct box_plan_maker *maker, const char *target, uint64_t size_bytes,
	enum box_plan_owner owner, uint32_t mode)
{
	if (has_own(maker, target)) {
		box_plan_add_mount_point(maker, target);
		(void)box_plan_add_tmpfs(
			maker, target, size_of(maker, target, size_bytes), owner, mode);
	}
}

/* A path in the root itself, not hidden by the workspace and not in a tree from outside. */
static bool can_be_made(const struct box_plan_maker *maker, const char *target)
{
	if (box_plan_path_is_under(target, maker->ask->mount_path)) {
		return false;
	}
	for (size_t i = 0; i < maker->host->root_entry_count; i++) {
		if (box_plan_path_is_under(target, maker->plan->entry_targets[i])) {
			return false;
		}
	}
	return true;
}

static void add_folders(struct box_plan_maker *maker)
{
	static const char *const folders[] = {
		"/mnt", "/opt", "/srv", "/var", "/var/cache", "/var/lib", "/var/log"};
	static const struct {
		const char *target;
		const char *source;
	} links[] = {{"/var/lock", "/run/lock"}, {"/var/run", "/run"}, {"/var/tmp", "/tmp"}};

	enum box_plan_owner owner = maker->ask->writable_root ? BOX_PLAN_OWNER_PAYLOAD
							      : BOX_PLAN_OWNER_INIT;
	for (size_t i = 0; i < BOX_COUNT_OF(folders); i++) {
		if (can_be_made(maker, folders[i])) {
			box_plan_add_folder(maker, folders[i], owner, 0755);
		}
	}
	for (size_t i = 0; i < BOX_COUNT_OF(links); i++) {
		/* A workspace below /var/tmp needs a real folder there, not a link to /tmp. */
		if (can_be_made(maker, links[i].target) &&
			!box_plan_path_is_under(maker->ask->mount_path, links[i].target)) {
			box_plan_add_link(maker, links[i].target, links[i].source);
		}
	}
}

static void add_workspace(struct box_plan_maker *maker)
{
	const char *target = maker->ask->mount_path;
	if (maker->ask->host_mode != BOX_PLAN_MOUNT_NONE) {
		box_plan_add_folder(maker, target, BOX_PLAN_OWNER_PAYLOAD, 0755);
		struct box_plan_step *tree = box_plan_add_tree(
			maker, target, BOX_PLAN_TREE_HOST_PATH, maker->ask->host_path);
		tree->read_only = maker->ask->host_mode == BOX_PLAN_MOUNT_RO;
		return;
	}
	if (strcmp(target, "/tmp") != 0 && strcmp(target, "/run") != 0 &&
		strcmp(target, BOX_PLAN_HOME) != 0) {
		box_plan_add_folder(maker, target, BOX_PLAN_OWNER_PAYLOAD, 0755);
		uint64_t half = share_of(maker->memory_bytes, 2, 0);
		(void)box_plan_add_tmpfs(
			maker, target, size_of(maker, target, half), BOX_PLAN_OWNER_PAYLOAD, 0755);
	}
}

static void add_steps(struct box_plan_maker *maker)
{
	uint64_t half = share_of(maker->memory_bytes, 2, 0);

	add_root(maker);
	add_entries(maker);
	add_dev(maker);
	add_proc(maker);
	add_own(maker, "/tmp", half, BOX_PLAN_OWNER_INIT, 01777);
	add_own(maker, "/run", RUN_BYTES, BOX_PLAN_OWNER_PAYLOAD, 0755);
	if (!is_replaced(maker, "/run/lock") && has_own(maker, "/run")) {
		box_plan_add_folder(maker, "/run/lock", BOX_PLAN_OWNER_PAYLOAD, 0755);
	}
	add_own(maker, BOX_PLAN_HOME, half, BOX_PLAN_OWNER_PAYLOAD, 0755);
	add_folders(maker);
	add_workspace(maker);
	if (!maker->ask->writable_root) {
		(void)box_plan_add_step(maker, BOX_PLAN_STEP_FREEZE, "/");
	}
}

static void add_rule(struct box_plan_maker *maker, const char *path, enum box_plan_right may)
{
	struct box_plan *plan = maker->plan;
	if (plan->rule_count == BOX_PLAN_RULES_MAX) {
		maker->full = true;
		return;
	}
	plan->rules[plan->rule_count++] = (struct box_plan_rule){path, may};
}

/* Derived from the steps, so that Landlock allows what the mounts allow. */
static void add_rules(struct box_plan_maker *maker)
{
	const struct box_plan *plan = maker->plan;
	if (plan->landlock_abi == 0) {
		return;
	}
	add_rule(maker, "/", BOX_PLAN_MAY_READ);
	add_rule(maker, "/dev", BOX_PLAN_MAY_USE);
	add_rule(maker, "/proc", BOX_PLAN_MAY_USE);
	for (size_t i = 0; i < *maker->step_count; i++) {
		const struct box_plan_step *step = &maker->steps[i];
		bool mounted = step->kind == BOX_PLAN_STEP_TMPFS ||
			step->kind == BOX_PLAN_STEP_TREE;
		bool frozen = strcmp(step->target, "/") == 0 && !maker->ask->writable_root;
		if (mounted && !step->read_only && !frozen) {
			add_rule(maker, step->target, BOX_PLAN_MAY_WRITE);
		}
	}
}

static uint64_t at_most(uint64_t value, uint64_t most)
{
	return BOX_MIN(value, most);
}

/* fs.file-max is for the whole host, and an open file takes too little memory for the memory limit to
 * bound their number. */
static uint64_t open_files(const struct box_plan_request *ask, const struct box_plan_host *host)
{
	uint64_t share = host->files_max / BOX_OPEN_FILES_SHARE / (ask->pids > 0 ? ask->pids : 1);
	if (ask->kind == BOX_PLAN_KIND_MICROVM) {
		return GUEST_OPEN_FILES;
	}
	if (host->files_max == 0 || share > BOX_OPEN_FILES_MAX) {
		return BOX_OPEN_FILES_MAX;
	}
	return share < BOX_OPEN_FILES_MIN ? BOX_OPEN_FILES_MIN : share;
}

static void fill_limits(struct box_plan_maker *maker)
{
	const struct box_plan_request *ask = maker->ask;
	struct box_plan *plan = maker->plan;
	plan->limited = maker->host->cgroups;
	plan->memory_bytes = at_most(
		ask->memory_bytes - ask->memory_bytes % GRAIN, MEMORY_BYTES_MAX);
	plan->pids = (uint32_t)at_most(ask->pids, PIDS_MAX);
	plan->cpu_milli = (uint32_t)at_most(ask->cpu_milli, CPU_MILLI_MAX);
	plan->open_files = open_files(ask, maker->host);
	/* Nothing can be written to a folder that is read-only. */
	plan->quota_bytes = ask->host_mode == BOX_PLAN_MOUNT_RO ? 0 : ask->quota_bytes;
	maker->memory_bytes = plan->memory_bytes;
	plan->limit_bytes = plan->memory_bytes;
	plan->limit_pids = (uint32_t)at_most(plan->pids + OWN_PROCESSES, PIDS_MAX);
}

/* The memory for commands is the guest's; the cgroup limits box-vmm. */
static void fill_microvm(struct box_plan_maker *maker)
{
	struct box_plan *plan = maker->plan;
	uint64_t cpus = ((uint64_t)plan->cpu_milli + 999) / 1000;
	cpus = at_most(cpus, maker->host->cpus > 0 ? maker->host->cpus : 1);
	plan->machine = (struct box_plan_microvm){
		.memory_mib = (uint32_t)at_most(plan->memory_bytes / BOX_MIB, UINT32_MAX),
		.cpus = (uint32_t)at_most(cpus, BOX_MICROVM_CPUS_MAX),
		.start_ms = maker->host->microvm_ms > 0 ? maker->host->microvm_ms
							: BOX_MICROVM_START_MS,
	};
	plan->limit_bytes = plan->memory_bytes + BOX_MICROVM_OVERHEAD_BYTES;
	plan->limit_pids = BOX_MICROVM_TASKS_MAX + plan->machine.cpus;
	plan->landlock_abi = GUEST_LANDLOCK_ABI;
}

static void fill_identity(struct box_plan_maker *maker)
{
	const struct box_plan_host *host = maker->host;
	struct box_plan *plan = maker->plan;
	plan->namespaces = BOX_PLAN_NAMESPACES;
	if (host->id_ranges) {
		plan->ids = (struct box_plan_id_map){.inside = 0, .count = BOX_PLAN_ID_COUNT};
	} else {
		plan->ids = (struct box_plan_id_map){.inside = BOX_PLAN_PAYLOAD_ID, .count = 1};
	}
	plan->drop_groups = host->id_ranges;
	plan->landlock_abi = host->landlock_abi > 0 ? host->landlock_abi : 0;
	plan->profile = BOX_FILTER_DEFAULT;
	if (maker->ask->profile == BOX_FILTER_STRICT ||
		maker->policy->profile == BOX_FILTER_STRICT) {
		plan->profile = BOX_FILTER_STRICT;
	}
	plan->network = maker->ask->network != 0;
	plan->hostname = "box";
}

bool box_plan_same_shape(const struct box_plan_request *a, const struct box_plan_request *b,
	const struct box_plan_host *host)
{
	return a->kind == b->kind && strcmp(a->image, b->image) == 0 &&
		strcmp(a->mount_path, b->mount_path) == 0 && a->host_mode == b->host_mode &&
		a->writable_root == b->writable_root && a->profile == b->profile &&
		a->memory_bytes == b->memory_bytes && (host->cgroups || a->pids == b->pids) &&
		open_files(a, host) == open_files(b, host) &&
		(a->host_mode != BOX_PLAN_MOUNT_NONE || a->quota_bytes == b->quota_bytes) &&
		a->network == b->network;
}

static void fill_list(struct box_plan_maker *maker, struct box_plan_step *steps, size_t *step_count,
	bool single_id)
{
	maker->steps = steps;
	maker->step_count = step_count;
	maker->single_id = single_id;
}

/* Root inside a guest is the guest's own, whoever runs it outside: there is never a single id. */
static void make_microvm(struct box_plan_maker *maker)
{
	struct box_plan *plan = maker->plan;
	fill_microvm(maker);
	fill_list(maker, plan->inside, &plan->inside_count, false);
	add_steps(maker);
	add_rules(maker);
	fill_list(maker, plan->steps, &plan->step_count, plan->ids.count == 1);
	box_plan_add_jail(maker);
}

int box_plan_make(const struct box_plan_request *ask, const struct box_policy *policy,
	const struct box_plan_host *host, struct box_plan *ret_plan, struct box_err *err)
{
	int r = box_plan_check(ask, policy, host, err);
	if (r < 0) {
		return r;
	}
	memset(ret_plan, 0, sizeof(*ret_plan));
	ret_plan->ask = ask;
	struct box_plan_maker maker = {
		.ask = ask, .policy = policy, .host = host, .plan = ret_plan};
	fill_identity(&maker);
	fill_limits(&maker);
	if (is_microvm(&maker)) {
		make_microvm(&maker);
	} else {
		fill_list(&maker, ret_plan->steps, &ret_plan->step_count, ret_plan->ids.count == 1);
		add_steps(&maker);
		add_rules(&maker);
	}
	if (maker.full) {
		return box_err_set(err, BOX_ERR_BACKEND_UNAVAILABLE, E2BIG,
			"a box of this root file system has more than %d steps or %d rules",
			BOX_PLAN_STEPS_MAX, BOX_PLAN_RULES_MAX);
	}
	return 0;
}
