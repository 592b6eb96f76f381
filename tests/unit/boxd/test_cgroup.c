/* Finding our own cgroup in the texts of real hosts, and the numbers that are written as limits. */
#include "boxd/cgroup/cgroup_manager.h"
#include "tests/unit/lib/test.h"

#define P BOX_CGROUP_PIDS
#define M BOX_CGROUP_MEMORY
#define C BOX_CGROUP_CPU

struct host {
	const char *name;
	const char *groups;
	const char *mounts;
	size_t count;
	struct {
		bool unified;
		bool read_only;
		unsigned controllers;
		uint64_t mount_id;
		const char *mount;
		const char *below;
	} places[8];
};

static const struct host hosts[] = {
	{
		"systemd, version 2 only, a service",
		"0::/system.slice/box.service\n",
		"24 31 0:22 / /sys rw,nosuid,nodev,noexec,relatime shared:7 - sysfs sysfs rw\n"
		"25 31 0:23 / /proc rw,nosuid,nodev,noexec,relatime shared:14 - proc proc rw\n"
		"31 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw,errors=remount-ro\n"
		"35 24 0:30 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 "
		"cgroup2 rw,nsdelegate,memory_recursiveprot\n"
		"36 24 0:31 / /sys/fs/pstore rw,relatime shared:10 - pstore none rw\n",
		1,
		{{true, false, 0, 35, "/sys/fs/cgroup", "system.slice/box.service"}},
	},
	{
		"systemd, version 2 only, a user's scope",
		"0::/user.slice/user-1000.slice/user@1000.service/app.slice/run-r1.scope\n",
		"35 24 0:30 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw\n",
		1,
		{{true, false, 0, 35, "/sys/fs/cgroup",
			"user.slice/user-1000.slice/user@1000.service/app.slice/run-r1.scope"}},
	},
	{
		"docker on version 2, a cgroup namespace, read-only",
		"0::/\n",
		"1482 1103 0:205 / / rw,relatime master:453 - overlay overlay rw,lowerdir=/a\n"
		"1485 1482 0:209 / /sys ro,nosuid,nodev,noexec,relatime - sysfs sysfs ro\n"
		"1486 1485 0:30 / /sys/fs/cgroup ro,nosuid,nodev,noexec,relatime - cgroup2 cgroup "
		"rw,nsdelegate,memory_recursiveprot\n",
		1,
		{{true, true, 0, 1486, "/sys/fs/cgroup", "."}},
	},
	{
		"docker --privileged on version 2",
		"0::/\n",
		"1486 1485 0:30 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime - cgroup2 cgroup "
		"rw,nsdelegate\n",
		1,
		{{true, false, 0, 1486, "/sys/fs/cgroup", "."}},
	},
	{
		"docker --cgroupns=host on version 2: the mount shows the container's part only",
		"0::/system.slice/docker-0123abcd.scope\n",
		"700 690 0:30 /system.slice/docker-0123abcd.scope /sys/fs/cgroup ro,relatime - "
		"cgroup2 cgroup rw\n",
		1,
		{{true, true, 0, 700, "/sys/fs/cgroup", "."}},
	},
	{
		"the same, deeper in",
		"0::/system.slice/docker-0123abcd.scope/boxd-leaf\n",
		"700 690 0:30 /system.slice/docker-0123abcd.scope /sys/fs/cgroup rw - cgroup2 cgroup rw\n",
		1,
		{{true, false, 0, 700, "/sys/fs/cgroup", "boxd-leaf"}},
	},
	{
		"a root that is only the beginning of another's name",
		"0::/docker-12\n",
		"700 690 0:30 /docker-1 /sys/fs/cgroup rw - cgroup2 cgroup rw\n",
		0,
		{{0}},
	},
	{
		"moved out of the cgroup namespace",
		"0::/../other\n",
		"700 690 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n",
		0,
		{{0}},
	},
	{
		"mounted from outside of the cgroup namespace",
		"0::/\n",
		"700 690 0:30 /../.. /sys/fs/cgroup rw - cgroup2 cgroup rw\n",
		0,
		{{0}},
	},
	{
		"systemd, version 1 with controllers together",
		"12:cpuset:/\n"
		"11:pids:/user.slice/user-0.slice/session-1.scope\n"
		"10:memory:/user.slice/user-0.slice/session-1.scope\n"
		"9:perf_event:/\n"
		"8:net_cls,net_prio:/\n"
		"4:cpu,cpuacct:/user.slice\n"
		"1:name=systemd:/user.slice/user-0.slice/session-1.scope\n",
		"33 24 0:28 / /sys/fs/cgroup ro,nosuid,nodev,noexec shared:9 - tmpfs tmpfs ro,mode=755\n"
		"35 33 0:30 / /sys/fs/cgroup/systemd rw,nosuid shared:11 - cgroup cgroup "
		"rw,xattr,name=systemd\n"
		"38 33 0:33 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:15 - cgroup cgroup "
		"rw,cpu,cpuacct\n"
		"39 33 0:34 / /sys/fs/cgroup/cpuset rw,nosuid shared:16 - cgroup cgroup rw,cpuset\n"
		"40 33 0:35 / /sys/fs/cgroup/memory rw,nosuid shared:17 - cgroup cgroup rw,memory\n"
		"41 33 0:36 / /sys/fs/cgroup/net_cls,net_prio rw shared:18 - cgroup cgroup "
		"rw,net_cls,net_prio\n"
		"42 33 0:37 / /sys/fs/cgroup/pids rw,nosuid shared:19 - cgroup cgroup rw,pids\n",
		3,
		{{false, false, C, 38, "/sys/fs/cgroup/cpu,cpuacct", "user.slice"},
			{false, false, M, 40, "/sys/fs/cgroup/memory",
				"user.slice/user-0.slice/session-1.scope"},
			{false, false, P, 42, "/sys/fs/cgroup/pids",
				"user.slice/user-0.slice/session-1.scope"}},
	},
	{
		"hybrid: version 2 is there beside version 1",
		"9:name=systemd:/\n8:pids:/\n7:blkio:/\n6:freezer:/\n5:devices:/\n"
		"4:memory:/process_api/34ee\n3:cpuset:/\n2:cpuacct:/\n1:cpu:/\n0::/\n",
		"31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
		"32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n"
		"33 31 0:30 / /sys/fs/cgroup/cpuacct rw,relatime - cgroup cgroup rw,cpuacct\n"
		"35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
		"37 31 0:34 / /sys/fs/cgroup/freezer rw,relatime - cgroup cgroup rw,freezer\n"
		"39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids\n"
		"40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd\n"
		"41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n",
		4,
		{{false, false, C, 32, "/sys/fs/cgroup/cpu", "."},
			{false, false, M, 35, "/sys/fs/cgroup/memory", "process_api/34ee"},
			{false, false, P, 39, "/sys/fs/cgroup/pids", "."},
			{true, false, 0, 41, "/sys/fs/cgroup/unified", "."}},
	},
	{
		"docker on version 1: parts only, and read-only",
		"11:memory:/docker/f00d\n10:pids:/docker/f00d\n3:cpu,cpuacct:/docker/f00d\n",
		"900 899 0:30 /docker/f00d /sys/fs/cgroup/cpu,cpuacct ro,nosuid master:15 - cgroup "
		"cgroup rw,cpu,cpuacct\n"
		"901 899 0:31 /docker/f00d /sys/fs/cgroup/memory ro,nosuid master:17 - cgroup cgroup "
		"rw,memory\n"
		"902 899 0:32 /docker/f00d /sys/fs/cgroup/pids ro,nosuid master:19 - cgroup cgroup "
		"rw,pids\n",
		3,
		{{false, true, C, 900, "/sys/fs/cgroup/cpu,cpuacct", "."},
			{false, true, M, 901, "/sys/fs/cgroup/memory", "."},
			{false, true, P, 902, "/sys/fs/cgroup/pids", "."}},
	},
	{
		"all controllers in one hierarchy of version 1, the super block read-only",
		"2:cpu,memory,pids:/a\n",
		"50 49 0:30 / /cgroup rw - cgroup none ro,cpu,memory,pids\n",
		1,
		{{false, true, P | M | C, 50, "/cgroup", "a"}},
	},
	{
		"two mounts of one hierarchy",
		"0::/a\n",
		"50 49 0:30 / /first ro - cgroup2 none rw\n"
		"51 49 0:30 / /second rw - cgroup2 none rw\n",
		2,
		{{true, true, 0, 50, "/first", "a"}, {true, false, 0, 51, "/second", "a"}},
	},
	{
		"escapes in the names of mounts, odd names of groups",
		"0::/with space/co:lon\n",
		"50 49 0:30 /with\\040space /mnt/a\\040b\\134c rw - cgroup2 none rw\n",
		1,
		{{true, false, 0, 50, "/mnt/a b\\c", "co:lon"}},
	},
	{
		"no escape: too few digits, or none",
		"0::/a\n",
		"50 49 0:30 / /mnt/a\\04 rw - cgroup2 none rw\n"
		"51 49 0:30 / /mnt/a\\099b rw - cgroup2 none rw\n",
		2,
		{{true, false, 0, 50, "/mnt/a\\04", "a"},
			{true, false, 0, 51, "/mnt/a\\099b", "a"}},
	},
	{
		"optional fields, many and none, and the last line without its end",
		"0::/a",
		"50 49 0:30 / /m rw shared:1 master:2 propagate_from:3 unbindable - cgroup2 none rw\n"
		"51 49 0:30 / /n rw - cgroup2 none rw",
		2,
		{{true, false, 0, 50, "/m", "a"}, {true, false, 0, 51, "/n", "a"}},
	},
	{"a mounted hierarchy that we are in nowhere", "", "50 49 0:30 / /m rw - cgroup2 none rw\n",
		0, {{0}}},
	{"nothing is mounted", "0::/\n", "31 1 259:2 / / rw - ext4 /dev/sda rw\n", 0, {{0}}},
	{"nothing at all", "", "", 0, {{0}}},
	{
		"lines that are none",
		"0\n0:\n::\n0::\n0::relative\n:::/\nx\n\n",
		"50\n50 49\n50 49 0:30 / /m rw\n50 49 0:30 / /m rw -\n50 49 0:30 / /m rw - cgroup2\n"
		"50 49 0:30 / /m rw - cgroup2 none\n50 49 0:30 / /m rw - cgroup2 none rw\n\n",
		0,
		{{0}},
	},
};

static void check_host(const struct host *host)
{
	struct box_cgroup_location *places = calloc(8, sizeof(*places));
	ASSERT(places);
	size_t count = box_cgroup_find(host->groups, host->mounts, places, 8);
	if (count != host->count) {
		TEST_FAIL("%s: %zu places, not %zu", host->name, count, host->count);
	}
	for (size_t i = 0; i < count; i++) {
		ASSERT_STR(places[i].mount, host->places[i].mount);
		ASSERT_STR(places[i].below, host->places[i].below);
		ASSERT_INT(places[i].unified, host->places[i].unified);
		ASSERT_INT(places[i].read_only, host->places[i].read_only);
		ASSERT_INT(places[i].controllers, host->places[i].controllers);
		ASSERT_INT(places[i].mount_id, host->places[i].mount_id);
	}
	free(places);
}

TEST(finds_our_group_on_every_kind_of_host)
{
	for (size_t i = 0; i < COUNT(hosts); i++) {
		check_host(&hosts[i]);
	}
}

TEST(finds_no_more_than_there_is_room_for)
{
	struct box_cgroup_location *places = calloc(2, sizeof(*places));
	ASSERT(places);
	ASSERT_INT(box_cgroup_find("0::/a\n",
			   "1 0 0:1 / /a rw - cgroup2 none rw\n2 0 0:1 / /b rw - cgroup2 none rw\n"
			   "3 0 0:1 / /c rw - cgroup2 none rw\n",
			   places, 2),
		2);
	ASSERT_STR(places[1].mount, "/b");
	free(places);
}

/* The longest path that fits is one byte shorter than the buffer. */
TEST(leaves_out_paths_that_do_not_fit)
{
	static char groups[2 * BOX_PATH_MAX];
	static char mounts[2 * BOX_PATH_MAX];
	struct box_cgroup_location *place = calloc(1, sizeof(*place));
	ASSERT(place);
	for (size_t over = 0; over < 2; over++) {
		size_t len = BOX_PATH_MAX - 1 + over;
		(void)snprintf(groups, sizeof(groups), "0::/%0*d\n", (int)len, 0);
		ASSERT_INT(box_cgroup_find(groups, "1 0 0:1 / /m rw - cgroup2 n rw\n", place, 1),
			over == 0);
		(void)snprintf(mounts, sizeof(mounts), "1 0 0:1 / /%0*d rw - cgroup2 n rw\n",
			(int)len - 1, 0);
		ASSERT_INT(box_cgroup_find("0::/a\n", mounts, place, 1), over == 0);
		(void)snprintf(mounts, sizeof(mounts), "1 0 0:1 /%0*d /m rw - cgroup2 n rw\n",
			(int)len - 1, 0);
		(void)snprintf(groups, sizeof(groups), "0::/%0*d\n", (int)len - 1, 0);
		ASSERT_INT(box_cgroup_find(groups, mounts, place, 1), over == 0);
	}
	free(place);
}

TEST(knows_controllers_in_lists)
{
	static const struct {
		const char *list;
		unsigned controllers;
	} rows[] = {
		{"cpuset cpu io memory hugetlb pids rdma misc\n", P | M | C},
		{"cpuset io hugetlb\n", 0},
		{"cpuacct,cpu", C},
		{"cpuacct", 0},
		{"memory\n", M},
		{"pids", P},
		{"rw,name=cpu", 0},
		{"", 0},
		{"\n", 0},
		{"  pids ,, cpu", P | C},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		ASSERT_INT(box_cgroup_controllers(rows[i].list, strlen(rows[i].list)),
			rows[i].controllers);
	}
	ASSERT_INT(box_cgroup_controllers("cpuset", 3), C);
}

TEST(turns_processors_into_time)
{
	static const struct {
		uint32_t cpu_milli;
		uint64_t quota_us;
	} rows[] = {{1, 1000}, {9, 1000}, {10, 1000}, {11, 1100}, {200, 20000}, {1000, 100000},
		{2500, 250000}, {UINT32_MAX, 429496729500}};
	for (size_t i = 0; i < COUNT(rows); i++) {
		ASSERT_INT(box_cgroup_quota_us(rows[i].cpu_milli), rows[i].quota_us);
	}
}

TEST(rounds_memory_to_pages)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	ASSERT_INT(box_cgroup_round_to_pages(1), page);
	ASSERT_INT(box_cgroup_round_to_pages(page), page);
	ASSERT_INT(box_cgroup_round_to_pages(2 * page - 1), page);
	ASSERT_INT(box_cgroup_round_to_pages(512UL << 20), 512UL << 20);
	ASSERT(box_cgroup_round_to_pages(UINT64_MAX) == UINT64_MAX - (page - 1));
}
