/* Plans: whole ones against readable files, and the differences from one to another.
 *
 * The expected prints are in plans/ beside this file. */
#include <errno.h>
#include <sched.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "plan/plan.h"
#include "tests/unit/lib/test.h"

static struct box_plan_request ask;
static struct box_policy policy;
static struct box_plan_host host;
static struct box_plan plan;
static struct box_err err;

static void add_entry(const char *name, const char *link)
{
	struct box_root_entry *entry = &host.root_entries[host.root_entry_count++];
	(void)snprintf(entry->name, sizeof(entry->name), "%s", name);
	(void)snprintf(entry->link, sizeof(entry->link), "%s", link);
}

/* As root on a merged-/usr host with every feature; network off, no host folder. */
static void set_up(void)
{
	ask = (struct box_plan_request){.name = "s1",
		.mount_path = "/workspace",
		.memory_bytes = 512 * BOX_MIB,
		.pids = 128,
		.cpu_milli = 1000};
	host = (struct box_plan_host){.root = true,
		.id_ranges = true,
		.cgroups = true,
		.landlock_abi = 7,
		.network = true,
		.own_etc = true};
	add_entry("usr", "");
	add_entry("bin", "usr/bin");
	add_entry("sbin", "usr/sbin");
	add_entry("lib", "usr/lib");
	add_entry("lib64", "usr/lib64");
}

static void set_host_path(const char *path, enum box_plan_mount_mode mode)
{
	(void)snprintf(ask.host_path, sizeof(ask.host_path), "%s", path);
	ask.host_mode = mode;
}

static void set_mount_path(const char *path)
{
	(void)snprintf(ask.mount_path, sizeof(ask.mount_path), "%s", path);
}

static void make(void)
{
	int r = box_plan_make(&ask, &policy, &host, &plan, &err);
	if (r != 0) {
		TEST_FAIL("no plan: %s", err.text);
	}
}

static char *printed(void)
{
	char *text = NULL;
	size_t len = 0;
	FILE *to = open_memstream(&text, &len);
	ASSERT(to != NULL);
	box_plan_print(&plan, to);
	ASSERT_INT(fclose(to), 0);
	return text;
}

static char *expected(const char *name)
{
	char path[4096];
	const char *slash = strrchr(__FILE__, '/');
	int folder_len = slash ? (int)(slash - __FILE__) : 1;
	(void)snprintf(
		path, sizeof(path), "%.*s/plans/%s.txt", folder_len, slash ? __FILE__ : ".", name);
	FILE *file = fopen(path, "re");
	if (!file) {
		TEST_FAIL("%s cannot be opened", path);
	}
	char *text = calloc(1, 65536);
	ASSERT(text != NULL);
	size_t len = fread(text, 1, 65535, file);
	ASSERT(len > 0 && feof(file));
	ASSERT_INT(fclose(file), 0);
	return text;
}

/* Names the first line that differs. */
static void assert_printed(const char *name)
{
	_cleanup_(box_free_p) char *actual_text = printed();
	_cleanup_(box_free_p) char *expected_text = expected(name);
	const char *a = actual_text;
	const char *b = expected_text;
	for (int line = 1; *a || *b; line++) {
		size_t a_len = strcspn(a, "\n");
		size_t b_len = strcspn(b, "\n");
		if (a_len != b_len || memcmp(a, b, a_len) != 0) {
			TEST_FAIL("%s, line %d is \"%.*s\", not \"%.*s\"", name, line, (int)a_len,
				a, (int)b_len, b);
		}
		a += a_len + (a[a_len] == '\n');
		b += b_len + (b[b_len] == '\n');
	}
	ASSERT_STR(actual_text, expected_text);
}

/* The last step of a kind for a target, or NULL. */
static const struct box_plan_step *find(enum box_plan_step_kind kind, const char *target)
{
	const struct box_plan_step *found = NULL;
	for (size_t i = 0; i < plan.step_count; i++) {
		if (plan.steps[i].kind == kind && strcmp(plan.steps[i].target, target) == 0) {
			found = &plan.steps[i];
		}
	}
	return found;
}

static bool has_rule(const char *path, enum box_plan_right may)
{
	for (size_t i = 0; i < plan.rule_count; i++) {
		if (plan.rules[i].may == may && strcmp(plan.rules[i].path, path) == 0) {
			return true;
		}
	}
	return false;
}

TEST(whole_root_host_folder)
{
	set_up();
	set_host_path("/srv/langbot/tenants/a", BOX_PLAN_MOUNT_RW);
	make();
	assert_printed("root_host_folder");
}

TEST(whole_root_network_writable)
{
	set_up();
	ask.network = 1;
	ask.writable_root = 1;
	ask.cpu_milli = 1500;
	make();
	assert_printed("root_network_writable");
}

TEST(egress_is_shown)
{
	set_up();
	ask.network = 1;
	ask.egress.limited = 1;
	make();
	_cleanup_(box_free_p) char *closed = printed();
	ASSERT(strstr(closed, "network     on\nallow       nothing\nfilter") != NULL);
	ask.egress.allow[0] = (struct box_egress_allow){.address = 0x0a000000, .prefix = 8};
	ask.egress.allow[1] = (struct box_egress_allow){
		.address = 0xc0000201, .prefix = 32, .port = 443};
	ask.egress.allow_count = 2;
	ask.egress.host_ports[0] = 8080;
	ask.egress.host_port_count = 1;
	make();
	_cleanup_(box_free_p) char *open = printed();
	ASSERT(strstr(open,
		       "network     on\nallow       10.0.0.0/8\nallow       192.0.2.1/32:443\n"
		       "host port   8080\nfilter") != NULL);
}

TEST(whole_rootless_degraded)
{
	set_up();
	host.root = false;
	host.id_ranges = false;
	host.cgroups = false;
	host.network = false;
	host.landlock_abi = 0;
	policy.degraded = 1;
	set_host_path("/home/ann/box", BOX_PLAN_MOUNT_RO);
	make();
	assert_printed("rootless_degraded");
}

TEST(whole_rootfs)
{
	set_up();
	(void)snprintf(policy.rootfs, sizeof(policy.rootfs), "/srv/images/debian");
	host.root_entry_count = 0;
	add_entry("bin", "usr/bin");
	add_entry("data", "");
	add_entry("dev", "");
	add_entry("opt", "");
	add_entry("proc", "");
	add_entry("tmp", "");
	add_entry("usr", "");
	add_entry("var", "");
	add_entry("workspace", "");
	make();
	assert_printed("rootfs");
}

/* As root, with a folder of the host. */
TEST(whole_krun)
{
	set_up();
	ask.kind = BOX_PLAN_KIND_MICROVM;
	ask.cpu_milli = 1500;
	host.cpus = 8;
	set_host_path("/srv/langbot/tenants/a", BOX_PLAN_MOUNT_RW);
	make();
	assert_printed("microvm");
}

/* An ordinary user's only id is the jail's: root inside belongs to the guest. */
TEST(whole_krun_rootless)
{
	set_up();
	ask.kind = BOX_PLAN_KIND_MICROVM;
	ask.network = 1;
	ask.writable_root = 1;
	ask.quota_bytes = 16 * BOX_MIB;
	host.root = false;
	host.id_ranges = false;
	host.landlock_abi = 0;
	host.cpus = 1;
	host.microvm_ms = 60000;
	make();
	assert_printed("microvm_rootless");
}

TEST(a_machine_has_whole_cpus_of_the_host)
{
	static const struct {
		uint64_t milli;
		uint32_t host;
		uint32_t cpus;
	} rows[] = {{1, 8, 1}, {1000, 8, 1}, {1001, 8, 2}, {8000, 8, 8}, {9000, 8, 8}, {2000, 0, 1},
		{UINT64_MAX, 4096, BOX_MICROVM_CPUS_MAX}};
	set_up();
	ask.kind = BOX_PLAN_KIND_MICROVM;
	for (size_t i = 0; i < COUNT(rows); i++) {
		ask.cpu_milli = rows[i].milli;
		host.cpus = rows[i].host;
		make();
		ASSERT_INT(plan.machine.cpus, rows[i].cpus);
		ASSERT_INT(plan.limit_pids, BOX_MICROVM_TASKS_MAX + rows[i].cpus);
	}
}

/* Limits of the virtual machine do not depend on what a caller requests for commands. */
TEST(a_jail_is_limited_by_what_it_holds)
{
	set_up();
	ask.kind = BOX_PLAN_KIND_MICROVM;
	ask.pids = UINT64_MAX;
	make();
	ASSERT(plan.limit_bytes == 512 * BOX_MIB + BOX_MICROVM_OVERHEAD_BYTES);
	ASSERT_INT(plan.machine.memory_mib, 512);
	ASSERT_INT(plan.limit_pids, BOX_MICROVM_TASKS_MAX + 1);
}

TEST(whole_strict)
{
	set_up();
	policy.profile = BOX_FILTER_STRICT;
	ask.memory_bytes = 32 * BOX_MIB;
	ask.pids = 1;
	ask.cpu_milli = 1;
	make();
	assert_printed("strict");
}

/* What is at some paths: t a tmpfs, h the host folder, f a folder, l a link, - nothing. In this
 * order: the workspace, /tmp, /run, /run/lock, /home/box, /opt, /var, /var/lib, /var/tmp. */
static void describe(char *out)
{
	const char *const paths[] = {ask.mount_path, "/tmp", "/run", "/run/lock", "/home/box",
		"/opt", "/var", "/var/lib", "/var/tmp"};
	for (size_t i = 0; i < COUNT(paths); i++) {
		const struct box_plan_step *tree = find(BOX_PLAN_STEP_TREE, paths[i]);
		*out++ = tree && tree->tree == BOX_PLAN_TREE_HOST_PATH ? 'h'
			: find(BOX_PLAN_STEP_TMPFS, paths[i])          ? 't'
			: find(BOX_PLAN_STEP_LINK, paths[i])           ? 'l'
			: find(BOX_PLAN_STEP_FOLDER, paths[i])         ? 'f'
								       : '-';
	}
	*out = '\0';
}

TEST(the_workspace_takes_its_place)
{
	static const struct {
		const char *mount_path;
		const char *with_host_path;
		const char *without;
	} rows[] = {
		{"/workspace", "httftfffl", "tttftfffl"},
		{"/a/b/c", "httftfffl", "tttftfffl"},
		{"/tmp", "hhtftfffl", "tttftfffl"},
		{"/tmp/x", "httftfffl", "tttftfffl"},
		{"/tmpx", "httftfffl", "tttftfffl"},
		{"/run", "hth-tfffl", "tttftfffl"},
		{"/run/lock", "htthtfffl", "tttttfffl"},
		{"/run/x", "httftfffl", "tttftfffl"},
		{"/home/box", "httfhfffl", "tttftfffl"},
		{"/home/box/x/y", "httftfffl", "tttftfffl"},
		{"/home/other", "httftfffl", "tttftfffl"},
		{"/opt", "httfthffl", "tttfttffl"},
		{"/opt/x", "httftfffl", "tttftfffl"},
		{"/var", "httftfh--", "tttftft--"},
		{"/var/lib", "httftffhl", "tttftfftl"},
		{"/var/tmp", "httftfffh", "tttftffft"},
		{"/var/tmp/x", "httftfff-", "tttftfff-"},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		char actual[16];
		set_up();
		set_mount_path(rows[i].mount_path);
		make();
		describe(actual);
		ASSERT_STR(actual, rows[i].without);
		ASSERT(has_rule(rows[i].mount_path, BOX_PLAN_MAY_WRITE));
		set_host_path("/srv/a", BOX_PLAN_MOUNT_RW);
		make();
		describe(actual);
		ASSERT_STR(actual, rows[i].with_host_path);
		ASSERT(has_rule(rows[i].mount_path, BOX_PLAN_MAY_WRITE));
		ASSERT(!find(BOX_PLAN_STEP_TREE, rows[i].mount_path)->read_only);
		set_host_path("/srv/a", BOX_PLAN_MOUNT_RO);
		make();
		describe(actual);
		ASSERT_STR(actual, rows[i].with_host_path);
		ASSERT(!has_rule(rows[i].mount_path, BOX_PLAN_MAY_WRITE));
		ASSERT(find(BOX_PLAN_STEP_TREE, rows[i].mount_path)->read_only);
	}
}

/* Each mount has exactly one earlier step that made its mount point, and no target is mounted
 * twice. */
static void assert_mount_points(void)
{
	for (size_t i = 1; i < plan.step_count; i++) {
		const struct box_plan_step *step = &plan.steps[i];
		bool in_dev = strncmp(step->target, "/dev/", 5) == 0;
		bool mounted = step->kind == BOX_PLAN_STEP_TMPFS ||
			step->kind == BOX_PLAN_STEP_TREE || step->kind == BOX_PLAN_STEP_PROC ||
			step->kind == BOX_PLAN_STEP_PTS;
		if (!mounted || in_dev) {
			continue;
		}
		int made = 0;
		for (size_t j = 1; j < plan.step_count; j++) {
			if (strcmp(plan.steps[j].target, step->target) == 0) {
				made += plan.steps[j].kind == BOX_PLAN_STEP_FOLDER && j < i;
				ASSERT(plan.steps[j].kind == BOX_PLAN_STEP_FOLDER || j == i);
			}
		}
		if (made != 1) {
			TEST_FAIL("%s: %d mount points", step->target, made);
		}
	}
}

/* Nothing is created below a link or in a tree from the host, and nothing covers an existing mount.
 */
static void assert_order(void)
{
	for (size_t i = 1; i < plan.step_count; i++) {
		const struct box_plan_step *step = &plan.steps[i];
		for (size_t j = 1; j < i; j++) {
			const struct box_plan_step *before = &plan.steps[j];
			bool below = box_plan_path_is_under(step->target, before->target);
			bool above = box_plan_path_is_under(before->target, step->target);
			bool solid = before->kind == BOX_PLAN_STEP_LINK ||
				(before->kind == BOX_PLAN_STEP_TREE &&
					before->tree != BOX_PLAN_TREE_DEV);
			bool covers = step->kind == BOX_PLAN_STEP_TMPFS ||
				step->kind == BOX_PLAN_STEP_TREE;
			bool same = strcmp(before->target, step->target) == 0;
			bool last = i == plan.step_count - 1 && strcmp(step->target, "/") == 0;
			if ((solid && below) || (covers && above && !same && !last)) {
				TEST_FAIL("%s after %s", step->target, before->target);
			}
		}
	}
}

TEST(steps_build_on_those_before)
{
	static const char *const paths[] = {"/workspace", "/a/b/c", "/tmp", "/tmp/x", "/run",
		"/run/lock", "/home/box", "/home/box/x/y", "/opt", "/opt/x", "/var", "/var/lib",
		"/var/tmp", "/var/tmp/x", "/var/run", "/var/lock/x", "/mnt", "/srv/x", "/root"};
	for (size_t i = 0; i < COUNT(paths); i++) {
		for (unsigned bits = 0; bits < 8; bits++) {
			set_up();
			set_mount_path(paths[i]);
			ask.writable_root = bits & 1;
			if (bits & 2) {
				set_host_path("/srv/a", BOX_PLAN_MOUNT_RW);
			}
			if (bits & 4) {
				host.root = false;
				host.id_ranges = false;
			}
			make();
			assert_mount_points();
			assert_order();
			const struct box_plan_step *last = &plan.steps[plan.step_count - 1];
			ASSERT_STR(plan.steps[0].target, "/");
			ASSERT_INT(plan.steps[0].kind, BOX_PLAN_STEP_TMPFS);
			ASSERT_INT(last->kind == BOX_PLAN_STEP_FREEZE, !ask.writable_root);
			ASSERT_INT(has_rule("/", BOX_PLAN_MAY_WRITE), ask.writable_root);
		}
	}
}

TEST(a_full_root_fits)
{
	set_up();
	host.root_entry_count = 0;
	for (int i = 0; i < BOX_ROOT_ENTRIES_MAX; i++) {
		char name[256];
		memset(name, 'a' + i % 26, sizeof(name));
		name[255] = '\0';
		name[0] = (char)('A' + i % 26);
		name[1] = (char)('A' + i / 26);
		add_entry(name, "");
	}
	host.id_ranges = false;
	host.root = false;
	make();
	ASSERT(plan.step_count > 2 * BOX_ROOT_ENTRIES_MAX);
	assert_mount_points();
	for (size_t i = 0; i < BOX_ROOT_ENTRIES_MAX; i++) {
		char target[258];
		(void)snprintf(target, sizeof(target), "/%s", host.root_entries[i].name);
		const struct box_plan_step *tree = find(BOX_PLAN_STEP_TREE, target);
		ASSERT(tree != NULL);
		ASSERT_INT(tree->entry, i);
		ASSERT(tree->read_only && !tree->devices);
	}
}

TEST(an_entry_gives_way_to_the_workspace)
{
	set_up();
	add_entry("data", "");
	add_entry("links", "usr/share");
	make();
	ASSERT_INT(find(BOX_PLAN_STEP_TREE, "/data")->tree, BOX_PLAN_TREE_ENTRY);
	ASSERT_STR(find(BOX_PLAN_STEP_LINK, "/links")->source, "usr/share");
	set_mount_path("/data");
	make();
	ASSERT(find(BOX_PLAN_STEP_TREE, "/data") == NULL);
	ASSERT(find(BOX_PLAN_STEP_TMPFS, "/data") != NULL);
	set_mount_path("/links");
	make();
	ASSERT(find(BOX_PLAN_STEP_LINK, "/links") == NULL);
	ASSERT(find(BOX_PLAN_STEP_TMPFS, "/links") != NULL);
	assert_mount_points();
}

TEST(etc_comes_from_one_place)
{
	set_up();
	add_entry("etc", "");
	make();
	assert_mount_points();
	ASSERT_INT(find(BOX_PLAN_STEP_TREE, "/etc")->tree, BOX_PLAN_TREE_ETC);
	host.own_etc = false;
	make();
	ASSERT_INT(find(BOX_PLAN_STEP_TREE, "/etc")->tree, BOX_PLAN_TREE_ENTRY);
	ASSERT_INT(find(BOX_PLAN_STEP_TREE, "/etc")->entry, 5);
	host.root_entry_count = 5;
	make();
	ASSERT(find(BOX_PLAN_STEP_TREE, "/etc") == NULL);
}

TEST(owners_are_ids_that_exist)
{
	set_up();
	make();
	ASSERT_INT(find(BOX_PLAN_STEP_TMPFS, "/")->owner, BOX_PLAN_OWNER_INIT);
	ASSERT_INT(find(BOX_PLAN_STEP_TMPFS, "/tmp")->owner, BOX_PLAN_OWNER_INIT);
	ASSERT_INT(find(BOX_PLAN_STEP_FOLDER, "/opt")->owner, BOX_PLAN_OWNER_INIT);
	ASSERT_INT(find(BOX_PLAN_STEP_TMPFS, "/workspace")->owner, BOX_PLAN_OWNER_PAYLOAD);
	ask.writable_root = 1;
	make();
	ASSERT_INT(find(BOX_PLAN_STEP_TMPFS, "/")->owner, BOX_PLAN_OWNER_INIT);
	ASSERT_INT(find(BOX_PLAN_STEP_TMPFS, "/")->mode, 01777);
	ASSERT_INT(find(BOX_PLAN_STEP_FOLDER, "/opt")->owner, BOX_PLAN_OWNER_PAYLOAD);
	host.root = false;
	host.id_ranges = false;
	make();
	ASSERT_INT(plan.ids.inside, 1000);
	ASSERT_INT(plan.ids.count, 1);
	ASSERT(!plan.drop_groups);
	for (size_t i = 0; i < plan.step_count; i++) {
		bool owned = plan.steps[i].kind == BOX_PLAN_STEP_TMPFS ||
			plan.steps[i].kind == BOX_PLAN_STEP_FOLDER ||
			plan.steps[i].kind == BOX_PLAN_STEP_LINK;
		ASSERT(!owned || plan.steps[i].owner == BOX_PLAN_OWNER_PAYLOAD);
	}
}

TEST(landlock_follows_the_kernel)
{
	static const struct {
		int found;
		int planned;
		size_t rules;
	} rows[] = {{-1, 0, 0}, {0, 0, 0}, {1, 1, 8}, {7, 7, 8}};
	for (size_t i = 0; i < COUNT(rows); i++) {
		set_up();
		host.landlock_abi = rows[i].found;
		make();
		ASSERT_INT(plan.landlock_abi, rows[i].planned);
		ASSERT_INT(plan.rule_count, rows[i].rules);
	}
}

TEST(every_namespace_is_new)
{
	set_up();
	make();
	ASSERT_INT(plan.namespaces,
		CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |
			CLONE_NEWUTS | CLONE_NEWCGROUP);
	ASSERT_STR(plan.hostname, "box");
	ASSERT(plan.ask == &ask);
}

/* Text from a caller cannot steer a terminal or look like another line. */
TEST(printing_escapes)
{
	set_up();
	set_mount_path("/w\n\x1b[2J\\\x7f\xc2\x9b\xff \xe7\xae\xb1");
	set_host_path("/h\xf0\x9f\x93\xa6\xc3", BOX_PLAN_MOUNT_RW);
	make();
	_cleanup_(box_free_p) char *text = printed();
	ASSERT(strstr(text,
		       "\nmount   /w\\x0a\\x1b[2J\\x5c\\x7f\\xc2\\x9b\\xff \xe7\xae\xb1"
		       "  host folder /h\xf0\x9f\x93\xa6\\xc3             ") != NULL);
	for (const char *at = text; *at; at++) {
		ASSERT((unsigned char)*at >= 0x20 || *at == '\n');
	}
}

TEST(inodes_follow_the_size)
{
	static const struct {
		uint64_t memory_bytes;
		uint64_t inodes; /* of /tmp */
	} rows[] = {{32 * BOX_MIB, 4096}, {33 * BOX_MIB, 4224}, {512 * BOX_MIB, 65536},
		{1UL << 33, 1048576}, {1UL << 40, 1048576}, {UINT64_MAX, 1048576}};
	for (size_t i = 0; i < COUNT(rows); i++) {
		set_up();
		ask.memory_bytes = rows[i].memory_bytes;
		make();
		ASSERT_INT(find(BOX_PLAN_STEP_TMPFS, "/tmp")->inodes, rows[i].inodes);
		ASSERT_INT(find(BOX_PLAN_STEP_TMPFS, "/")->inodes, 4096);
		ASSERT_INT(find(BOX_PLAN_STEP_TMPFS, "/run")->inodes, 4096);
	}
}

/* The quota limits the file system of the workspace, and no other. Memory limits it, too. */
TEST(quota_of_own_workspace)
{
	static const struct {
		const char *mount_path;
		uint64_t quota_bytes;
		uint64_t size_bytes;
		uint64_t inodes;
	} rows[] = {
		{"/workspace", 0, 256 * BOX_MIB, 65536},
		{"/workspace", 64 * BOX_MIB, 64 * BOX_MIB, 16384},
		{"/workspace", BOX_MIB, BOX_MIB, 4096},
		{"/workspace", 300 * BOX_MIB, 256 * BOX_MIB, 65536},
		{"/workspace", UINT64_MAX, 256 * BOX_MIB, 65536},
		{"/tmp", 3 * BOX_MIB, 3 * BOX_MIB, 4096},
		{"/home/box", 3 * BOX_MIB, 3 * BOX_MIB, 4096},
		{"/tmp/deep/er", 3 * BOX_MIB, 3 * BOX_MIB, 4096},
	};
	for (size_t i = 0; i < BOX_COUNT_OF(rows); i++) {
		set_up();
		set_mount_path(rows[i].mount_path);
		ask.quota_bytes = rows[i].quota_bytes;
		make();
		const struct box_plan_step *step = find(BOX_PLAN_STEP_TMPFS, rows[i].mount_path);
		ASSERT(step != NULL);
		ASSERT_INT(step->size_bytes, rows[i].size_bytes);
		ASSERT_INT(step->inodes, rows[i].inodes);
		ASSERT_INT(plan.quota_bytes, rows[i].quota_bytes);
		if (strcmp(rows[i].mount_path, "/tmp") != 0) {
			ASSERT_INT(find(BOX_PLAN_STEP_TMPFS, "/tmp")->size_bytes, 256 * BOX_MIB);
		}
	}
}

/* boxd enforces the quota of a host folder; a read-only one needs none. */
TEST(quota_of_host_folder)
{
	set_up();
	set_host_path("/srv/a", BOX_PLAN_MOUNT_RW);
	ask.quota_bytes = 8 * BOX_MIB;
	make();
	ASSERT_INT(plan.quota_bytes, 8 * BOX_MIB);
	ASSERT(find(BOX_PLAN_STEP_TMPFS, "/workspace") == NULL);
	set_host_path("/srv/a", BOX_PLAN_MOUNT_RO);
	make();
	ASSERT_INT(plan.quota_bytes, 0);
}
