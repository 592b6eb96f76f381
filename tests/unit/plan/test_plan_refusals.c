/* Requests that get no plan, and why: whatever a hostile caller can put into the struct, mistakes
 * in the operator's policy, and features that a host lacks; also plans that give less than
 * requested. */
#include <errno.h>

#include "plan/plan.h"
#include "tests/unit/lib/test.h"

static struct box_plan_request ask;
static struct box_policy policy;
static struct box_plan_host host;
static struct box_plan plan;
static struct box_err err;

static void set_up(void)
{
	ask = (struct box_plan_request){.name = "s1",
		.host_path = "/srv/a",
		.mount_path = "/workspace",
		.host_mode = BOX_PLAN_MOUNT_RW,
		.memory_bytes = 512 * BOX_MIB,
		.pids = 128,
		.cpu_milli = 1000};
	memset(&policy, 0, sizeof(policy));
	host = (struct box_plan_host){.root = true,
		.id_ranges = true,
		.cgroups = true,
		.landlock_abi = 7,
		.network = true};
	host.root_entries[0] = (struct box_root_entry){.name = "usr"};
	host.root_entries[1] = (struct box_root_entry){.name = "nix"};
	host.root_entries[2] = (struct box_root_entry){.name = "data", .link = "srv/data"};
	host.root_entries[3] = (struct box_root_entry){.name = "tmp"};
	host.root_entry_count = 4;
}

/* A refusal leaves the plan unchanged. */
static void assert_refused(enum box_code code, int errnum, const char *text)
{
	memset(&plan, 0x5a, sizeof(plan));
	memset(&err, 0, sizeof(err));
	ASSERT_INT(box_plan_make(&ask, &policy, &host, &plan, &err), -errnum);
	ASSERT_INT(err.code, code);
	ASSERT_INT(err.errnum, errnum);
	ASSERT_STR(err.text, text);
	const unsigned char *bytes = (const unsigned char *)&plan;
	for (size_t i = 0; i < sizeof(plan); i++) {
		ASSERT_INT(bytes[i], 0x5a);
	}
}

static void assert_invalid(const char *text)
{
	assert_refused(BOX_ERR_VALIDATION, EINVAL, text);
}

static void assert_planned(void)
{
	int r = box_plan_make(&ask, &policy, &host, &plan, &err);
	if (r != 0) {
		TEST_FAIL("refused: %s", err.text);
	}
}

static void put_text(char *to, size_t room, const char *text)
{
	ASSERT((size_t)snprintf(to, room, "%s", text) < room);
}

TEST(what_the_others_change_is_planned)
{
	set_up();
	assert_planned();
}

TEST(texts_without_an_end)
{
	set_up();
	memset(ask.name, 'a', sizeof(ask.name));
	assert_invalid("name is too long");
	ask.name[sizeof(ask.name) - 1] = '\0';
	assert_planned();

	set_up();
	memset(ask.host_path, 'a', sizeof(ask.host_path));
	assert_invalid("host_path is too long");
	ask.host_mode = BOX_PLAN_MOUNT_NONE; /* even where it is not used */
	assert_invalid("host_path is too long");

	set_up();
	memset(ask.mount_path, '/', sizeof(ask.mount_path));
	assert_invalid("mount_path is too long");

	set_up();
	memset(ask.image, 'a', sizeof(ask.image));
	assert_invalid("image is too long");

	set_up();
	memset(policy.rootfs, '/', sizeof(policy.rootfs));
	assert_invalid("policy: rootfs is too long");
}

TEST(names)
{
	static const char *const wrong[] = {
		"", "a/b", "/", "a b", "a\n", "\xc3\xa9", "a:b", "a\\", "*"};
	static const char *const right[] = {"a", "Z9", "...", ".a", "a..b", "-", "_", "a.b-c_D"};
	for (size_t i = 0; i < COUNT(wrong); i++) {
		set_up();
		put_text(ask.name, sizeof(ask.name), wrong[i]);
		assert_invalid("name must be one or more of A-Z a-z 0-9 _ . -");
	}
	for (size_t i = 0; i < COUNT(right); i++) {
		set_up();
		put_text(ask.name, sizeof(ask.name), right[i]);
		assert_planned();
	}
	set_up();
	put_text(ask.name, sizeof(ask.name), ".");
	assert_invalid("name must not be . or ..");
	put_text(ask.name, sizeof(ask.name), "..");
	assert_invalid("name must not be . or ..");
}

TEST(numbers_out_of_range)
{
	static const struct {
		size_t offset;
		const char *text;
		uint32_t most; /* the largest valid value */
	} rows[] = {
		{offsetof(struct box_plan_request, host_mode), "host_mode is not a known value", 2},
		{offsetof(struct box_plan_request, network), "network must be 0 or 1", 1},
		{offsetof(struct box_plan_request, writable_root), "writable_root must be 0 or 1",
			1},
		{offsetof(struct box_plan_request, profile), "profile is not a known value", 1},
		{offsetof(struct box_plan_request, kind), "kind is not a known value", 1},
	};
	static const uint32_t beyond[] = {1, 2, 0x7fffffff};
	for (size_t i = 0; i < COUNT(rows); i++) {
		uint32_t *field = (uint32_t *)(void *)((char *)&ask + rows[i].offset);
		set_up();
		*field = rows[i].most;
		assert_planned();
		for (size_t j = 0; j < COUNT(beyond); j++) {
			set_up();
			*field = rows[i].most + beyond[j];
			assert_invalid(rows[i].text);
		}
		set_up();
		*field = UINT32_MAX;
		assert_invalid(rows[i].text);
	}
}

static void allow(uint32_t at, uint32_t address, uint8_t prefix, uint16_t port)
{
	ask.egress.allow[at] = (struct box_egress_allow){
		.address = address, .prefix = prefix, .port = port};
	ask.egress.allow_count = at + 1;
}

static void limit(void)
{
	set_up();
	ask.network = 1;
	ask.egress.limited = 1;
}

TEST(egress_of_an_attacker)
{
	limit();
	assert_planned();
	allow(0, 0x0a000000, 8, 0);
	allow(1, 0x0a000000, 8, 53);
	ask.egress.host_ports[ask.egress.host_port_count++] = 80;
	assert_planned();
	ask.egress.limited = 2;
	assert_invalid("egress limited must be 0 or 1");
	ask.egress.limited = 0;
	assert_invalid("egress has entries but is not limited");
	limit();
	ask.network = 0;
	assert_invalid("egress needs network on");
	limit();
	ask.egress.allow_count = BOX_EGRESS_ALLOW_MAX + 1;
	assert_invalid("egress has too many entries");
	limit();
	ask.egress.host_port_count = UINT32_MAX;
	assert_invalid("egress has too many entries");
	limit();
	allow(0, 0x0a000001, 8, 0);
	assert_invalid("egress allow has an invalid entry");
	limit();
	allow(0, 0, 33, 0);
	assert_invalid("egress allow has an invalid entry");
	limit();
	allow(0, 0x0a000000, 8, 0);
	ask.egress.allow[0].reserved = 1;
	assert_invalid("egress allow has an invalid entry");
	limit();
	allow(0, 0x0a000000, 8, 0);
	allow(1, 0x0a000000, 8, 0);
	assert_invalid("egress allow is not in order");
	limit();
	ask.egress.host_port_count = 1;
	assert_invalid("egress host_ports is not in order");
	ask.egress.host_port_count = 2;
	ask.egress.host_ports[0] = 80;
	ask.egress.host_ports[1] = 80;
	assert_invalid("egress host_ports is not in order");
}

TEST(limits_too_low)
{
	set_up();
	ask.memory_bytes = 32 * BOX_MIB - 1;
	assert_invalid("memory must be at least 32 MiB");
	ask.memory_bytes = 0;
	assert_invalid("memory must be at least 32 MiB");
	ask.memory_bytes = 32 * BOX_MIB;
	assert_planned();
	ask.pids = 0;
	assert_invalid("pids must be at least 1");
	ask.pids = 1;
	assert_planned();
	ask.cpu_milli = 0;
	assert_invalid("cpus must be at least 0.001");
}

static const struct {
	const char *path;
	const char *why;
} wrong_paths[] = {
	{"", "must be an absolute path"},
	{"a", "must be an absolute path"},
	{"./a", "must be an absolute path"},
	{"~/a", "must be an absolute path"},
	{"//", "must be normalized"},
	{"//a", "must be normalized"},
	{"/a/", "must be normalized"},
	{"/a//b", "must be normalized"},
	{"/.", "must be normalized"},
	{"/..", "must be normalized"},
	{"/a/.", "must be normalized"},
	{"/a/./b", "must be normalized"},
	{"/a/..", "must be normalized"},
	{"/a/../b", "must be normalized"},
	{"/../etc", "must be normalized"},
};

TEST(paths_that_are_none)
{
	char text[128];
	for (size_t i = 0; i < COUNT(wrong_paths); i++) {
		set_up();
		put_text(ask.mount_path, sizeof(ask.mount_path), wrong_paths[i].path);
		(void)snprintf(text, sizeof(text), "mount_path %s", wrong_paths[i].why);
		assert_invalid(text);
		set_up();
		put_text(ask.host_path, sizeof(ask.host_path), wrong_paths[i].path);
		(void)snprintf(text, sizeof(text), "host_path %s", wrong_paths[i].why);
		assert_invalid(text);
		if (wrong_paths[i].path[0] == '\0') {
			continue; /* has no root file system of its own */
		}
		set_up();
		put_text(policy.rootfs, sizeof(policy.rootfs), wrong_paths[i].path);
		(void)snprintf(text, sizeof(text), "policy: rootfs %s", wrong_paths[i].why);
		assert_invalid(text);
	}
}

TEST(names_in_paths_are_short)
{
	set_up();
	char path[300] = "/a/";
	memset(path + 3, 'b', 255);
	put_text(ask.mount_path, sizeof(ask.mount_path), path);
	put_text(ask.host_path, sizeof(ask.host_path), path);
	assert_planned();
	path[3 + 255] = 'b';
	put_text(ask.mount_path, sizeof(ask.mount_path), path);
	assert_invalid("mount_path has a name of more than 255 bytes");
}

TEST(longest_paths_are_planned)
{
	set_up();
	for (size_t i = 0; i < BOX_PATH_MAX - 1; i++) {
		ask.mount_path[i] = i % 2 ? 'a' : '/';
		ask.host_path[i] = i % 2 ? 'a' : '/';
	}
	ask.mount_path[BOX_PATH_MAX - 2] = 'a';
	ask.host_path[BOX_PATH_MAX - 2] = 'a';
	ask.mount_path[BOX_PATH_MAX - 1] = '\0';
	ask.host_path[BOX_PATH_MAX - 1] = '\0';
	assert_planned();
	FILE *sink = fopen("/dev/null", "we");
	ASSERT(sink != NULL);
	box_plan_print(&plan, sink);
	ASSERT_INT(fclose(sink), 0);
}

TEST(host_folders)
{
	set_up();
	put_text(ask.host_path, sizeof(ask.host_path), "/");
	assert_invalid("host_path / is blocked for security");
	set_up();
	ask.host_mode = BOX_PLAN_MOUNT_NONE;
	assert_invalid("host_path must be empty when its mode is none");
	ask.host_path[0] = '\0';
	assert_planned();
	ask.host_mode = BOX_PLAN_MOUNT_RO;
	assert_invalid("host_path must be an absolute path");
}

TEST(targets)
{
	static const struct {
		const char *path;
		const char *text; /* NULL: it is allowed */
	} rows[] = {
		{"/", "mount_path must not be the root of the box"},
		{"/usr", "mount_path /usr is part of the box's system folder /usr"},
		{"/usr/local/x", "mount_path /usr/local/x is part of the box's system folder /usr"},
		{"/bin", "mount_path /bin is part of the box's system folder /bin"},
		{"/sbin/x", "mount_path /sbin/x is part of the box's system folder /sbin"},
		{"/lib", "mount_path /lib is part of the box's system folder /lib"},
		{"/lib32", "mount_path /lib32 is part of the box's system folder /lib32"},
		{"/lib64/x", "mount_path /lib64/x is part of the box's system folder /lib64"},
		{"/libx32", "mount_path /libx32 is part of the box's system folder /libx32"},
		{"/etc/ssl", "mount_path /etc/ssl is part of the box's system folder /etc"},
		{"/proc/self", "mount_path /proc/self is part of the box's system folder /proc"},
		{"/dev/shm", "mount_path /dev/shm is part of the box's system folder /dev"},
		{"/sys", "mount_path /sys is part of the box's system folder /sys"},
		{"/home", "mount_path /home would hide the home folder /home/box"},
		{"/a/..", "mount_path must be normalized"},
		{"a", "mount_path must be an absolute path"},
		{"/home/box", NULL},
		{"/home/box/x", NULL},
		{"/home/boxer", NULL},
		{"/usrx", NULL},
		{"/library", NULL},
		{"/etcetera/x", NULL},
		{"/tmp", NULL},
		{"/run/x", NULL},
		{"/var", NULL},
		{"/root", NULL},
		{"/opt/langbot-artifacts/0a", NULL},
		{"/workspace", NULL},
		{"/.../a", NULL},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		int r = box_plan_check_target(rows[i].path, "mount_path", &err);
		if (!rows[i].text) {
			ASSERT_INT(r, 0);
			continue;
		}
		ASSERT_INT(r, -EINVAL);
		ASSERT_INT(err.code, BOX_ERR_VALIDATION);
		ASSERT_STR(err.text, rows[i].text);
	}
}

TEST(targets_are_checked_for_the_plan)
{
	set_up();
	put_text(ask.mount_path, sizeof(ask.mount_path), "/etc/ssl");
	assert_invalid("mount_path /etc/ssl is part of the box's system folder /etc");
	/* The result is the same without an error to fill in. */
	ASSERT_INT(box_plan_make(&ask, &policy, &host, &plan, NULL), -EINVAL);
	ASSERT_INT(box_plan_check_target("/etc/ssl", "target", NULL), -EINVAL);
}

TEST(no_workspace_in_what_comes_from_outside)
{
	set_up();
	put_text(ask.mount_path, sizeof(ask.mount_path), "/nix/x");
	assert_invalid("mount_path /nix/x lies in /nix, which comes from outside the box");
	put_text(ask.mount_path, sizeof(ask.mount_path), "/data/x/y");
	assert_invalid("mount_path /data/x/y lies in /data, which comes from outside the box");
	static const char *const right[] = {
		"/nix", "/data", "/tmp/x", "/ni/x", "/nixx/x", "/dat/a"};
	for (size_t i = 0; i < COUNT(right); i++) {
		put_text(ask.mount_path, sizeof(ask.mount_path), right[i]);
		assert_planned();
	}
}

TEST(entries_without_a_usable_name)
{
	static const char *const wrong[] = {"", ".", "..", "a/b", "/usr"};
	for (size_t i = 0; i < COUNT(wrong); i++) {
		set_up();
		put_text(host.root_entries[2].name, sizeof(host.root_entries[2].name), wrong[i]);
		assert_refused(BOX_ERR_BACKEND_UNAVAILABLE, EINVAL,
			"entry 2 of the root file system has no usable name");
	}
	set_up();
	memset(host.root_entries[0].name, 'a', sizeof(host.root_entries[0].name));
	assert_refused(BOX_ERR_BACKEND_UNAVAILABLE, EINVAL,
		"entry 0 of the root file system has no usable name");
	set_up();
	memset(host.root_entries[3].link, 'a', sizeof(host.root_entries[3].link));
	assert_refused(BOX_ERR_BACKEND_UNAVAILABLE, EINVAL,
		"entry 3 of the root file system has no usable name");
	set_up();
	host.root_entry_count = BOX_ROOT_ENTRIES_MAX + 1;
	assert_refused(BOX_ERR_BACKEND_UNAVAILABLE, E2BIG,
		"the root file system has more than 32 entries");
	host.root_entry_count = SIZE_MAX;
	assert_refused(BOX_ERR_BACKEND_UNAVAILABLE, E2BIG,
		"the root file system has more than 32 entries");
}

TEST(a_microvm_holds_a_kernel_too)
{
	set_up();
	ask.kind = BOX_PLAN_KIND_MICROVM;
	ask.memory_bytes = BOX_MICROVM_MEMORY_BYTES_MIN - 1;
	assert_invalid("memory must be at least 128 MiB for a microVM");
}

TEST(policy_profile)
{
	set_up();
	policy.profile = BOX_FILTERS_;
	assert_invalid("policy: profile is not a known value");
	policy.profile = UINT32_MAX;
	assert_invalid("policy: profile is not a known value");
}

TEST(limits_that_cannot_be_set)
{
	set_up();
	host.cgroups = false;
	put_text(host.cgroups_missing, sizeof(host.cgroups_missing), "/sys/fs/cgroup is read-only");
	assert_refused(BOX_ERR_BACKEND_UNAVAILABLE, EOPNOTSUPP,
		"limits cannot be set: /sys/fs/cgroup is read-only; give boxd a cgroup it may "
		"write to, or set local.degraded: true to run boxes without limits");
	policy.degraded = 1;
	assert_planned();
	ASSERT(!plan.limited);
	host.cgroups = true;
	assert_planned();
	ASSERT(plan.limited); /* permission to run without limits is not used where it is not needed */
}

TEST(a_network_that_cannot_be_given)
{
	set_up();
	host.network = false;
	put_text(host.network_missing, sizeof(host.network_missing), "pasta is not installed");
	assert_planned();
	ASSERT(!plan.network);
	ask.network = 1;
	assert_refused(BOX_ERR_BACKEND_UNAVAILABLE, EOPNOTSUPP,
		"a network cannot be given: pasta is not installed; ask for network off, or "
		"provide what is missing");
	policy.degraded = 1;
	ASSERT_INT(box_plan_make(&ask, &policy, &host, &plan, &err), -EOPNOTSUPP);
	host.network = true;
	assert_planned();
	ASSERT(plan.network);
}

/* The only id of a box must not be root. */
TEST(root_without_ranges)
{
	set_up();
	host.id_ranges = false;
	assert_refused(BOX_ERR_BACKEND_UNAVAILABLE, EOPNOTSUPP,
		"a box cannot have ids of its own: as root each needs 65536 of them and this user "
		"namespace has too few; map more ids to it, or run boxd as a plain user");
	host.root = false;
	assert_planned();
}

/* The size of the file system at a path. */
static uint64_t size_of(const char *target)
{
	for (size_t i = 0; i < plan.step_count; i++) {
		if (plan.steps[i].kind == BOX_PLAN_STEP_TMPFS &&
			strcmp(plan.steps[i].target, target) == 0) {
			return plan.steps[i].size_bytes;
		}
	}
	TEST_FAIL("nothing at %s", target);
}

TEST(numbers_saturate)
{
	static const struct {
		uint64_t asked;
		uint64_t memory;
		uint64_t half;
		uint64_t quarter; /* /dev/shm */
		uint64_t root;
	} rows[] = {
		{32 * BOX_MIB, 32 * BOX_MIB, 16 * BOX_MIB, 8 * BOX_MIB, 16 * BOX_MIB},
		{32 * BOX_MIB + 65535, 32 * BOX_MIB, 16 * BOX_MIB, 8 * BOX_MIB, 16 * BOX_MIB},
		{32 * BOX_MIB + 65536, 33619968, 16777216, 8388608, 16777216},
		{512 * BOX_MIB, 512 * BOX_MIB, 256 * BOX_MIB, 128 * BOX_MIB, 128 * BOX_MIB},
		{1UL << 40, 1UL << 40, 1UL << 39, 1UL << 38, 1UL << 38},
		{1UL << 50, 1UL << 50, 1UL << 49, 1UL << 48, 1UL << 48},
		{INT64_MAX, 1UL << 50, 1UL << 49, 1UL << 48, 1UL << 48},
		{UINT64_MAX, 1UL << 50, 1UL << 49, 1UL << 48, 1UL << 48},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		set_up();
		ask.host_mode = BOX_PLAN_MOUNT_NONE;
		ask.host_path[0] = '\0';
		ask.writable_root = 1;
		ask.memory_bytes = rows[i].asked;
		assert_planned();
		ASSERT_INT(plan.memory_bytes, rows[i].memory);
		ASSERT_INT(size_of("/tmp"), rows[i].half);
		ASSERT_INT(size_of("/home/box"), rows[i].half);
		ASSERT_INT(size_of("/workspace"), rows[i].half);
		ASSERT_INT(size_of("/dev/shm"), rows[i].quarter);
		ASSERT_INT(size_of("/"), rows[i].root);
		ASSERT_INT(size_of("/run"), 16 * BOX_MIB);
	}
}

TEST(counts_saturate)
{
	static const struct {
		uint64_t pids;
		uint64_t pids_planned;
		uint64_t cpu_milli;
		uint64_t cpu_milli_planned;
	} rows[] = {
		{1, 1, 1, 1},
		{128, 128, 2500, 2500},
		{4194304, 4194304, 8192000, 8192000},
		{4194305, 4194304, 8192001, 8192000},
		{1UL << 32, 4194304, 1UL << 32, 8192000},
		{UINT64_MAX, 4194304, UINT64_MAX, 8192000},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		set_up();
		ask.pids = rows[i].pids;
		ask.cpu_milli = rows[i].cpu_milli;
		assert_planned();
		ASSERT_INT(plan.pids, rows[i].pids_planned);
		ASSERT_INT(plan.cpu_milli, rows[i].cpu_milli_planned);
		ASSERT_INT(plan.open_files, 4096);
	}
}

/* Each box gets a fraction of fs.file-max, but programs need some files each. */
TEST(open_files_are_a_share_of_the_host_s)
{
	static const struct {
		uint64_t files_max;
		uint64_t pids;
		uint64_t open_files;
	} rows[] = {
		{0, 128, 4096},
		{INT64_MAX, 128, 4096},
		{128UL * 4096 * 16, 128, 4096},
		{128UL * 2000 * 16, 128, 2000},
		{2466190, 128, 1204},
		{2466190, 4096, 1024},
		{1, 1, 1024},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		set_up();
		host.files_max = rows[i].files_max;
		ask.pids = rows[i].pids;
		assert_planned();
		ASSERT_INT(plan.open_files, rows[i].open_files);
	}
}

TEST(the_stricter_filter_is_taken)
{
	static const struct {
		enum box_filter_profile asked;
		enum box_filter_profile weakest;
		enum box_filter_profile planned;
	} rows[] = {
		{BOX_FILTER_DEFAULT, BOX_FILTER_DEFAULT, BOX_FILTER_DEFAULT},
		{BOX_FILTER_STRICT, BOX_FILTER_DEFAULT, BOX_FILTER_STRICT},
		{BOX_FILTER_DEFAULT, BOX_FILTER_STRICT, BOX_FILTER_STRICT},
		{BOX_FILTER_STRICT, BOX_FILTER_STRICT, BOX_FILTER_STRICT},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		set_up();
		ask.profile = rows[i].asked;
		policy.profile = rows[i].weakest;
		assert_planned();
		ASSERT_INT(plan.profile, rows[i].planned);
	}
}
