/* Memory for microVMs: reserved, used, and still available. */
#include <errno.h>

#include "base/limits.h"
#include "boxd/box/host_memory.h"
#include "boxd/cgroup/cgroup_manager.h"
#include "tests/unit/lib/test.h"

#define GIB (1024 * BOX_MIB)

TEST(by_the_memory)
{
	static const struct {
		struct box_host_memory memory;
		uint64_t most; /* that may be requested */
	} rows[] = {
		/* the host alone: a sixteenth is its own, and never less than 256 MiB */
		{{64 * GIB, 20 * GIB, UINT64_MAX, UINT64_MAX, 0, 0, 0}, 16 * GIB},
		{{2 * GIB, GIB, UINT64_MAX, UINT64_MAX, 0, 0, 0}, GIB - 256 * BOX_MIB},
		{{2 * GIB, 100 * BOX_MIB, UINT64_MAX, UINT64_MAX, 0, 0, 0}, 0},
		/* reservations that are not used yet */
		{{64 * GIB, 20 * GIB, UINT64_MAX, UINT64_MAX, 10 * GIB, 0, 5}, 6 * GIB},
		{{64 * GIB, 20 * GIB, UINT64_MAX, UINT64_MAX, 10 * GIB, 10 * GIB, 5}, 16 * GIB},
		{{64 * GIB, 20 * GIB, UINT64_MAX, UINT64_MAX, 99 * GIB, GIB, 5}, 0},
		/* inconsistent: more used than reserved */
		{{64 * GIB, 20 * GIB, UINT64_MAX, UINT64_MAX, GIB, 9 * GIB, 5}, 16 * GIB},
		/* a cgroup with a lower limit */
		{{64 * GIB, 20 * GIB, 4 * GIB, 3 * GIB, GIB, 0, 1}, 2 * GIB - 256 * BOX_MIB},
		{{64 * GIB, 5 * GIB, 32 * GIB, 30 * GIB, 0, 0, 0}, GIB},
	};
	struct box_err err;
	for (size_t i = 0; i < COUNT(rows); i++) {
		ASSERT_INT(box_host_memory_check_promises(&rows[i].memory, rows[i].most, &err), 0);
		ASSERT_INT(box_host_memory_check_promises(&rows[i].memory, rows[i].most + 1, &err),
			-ENOMEM);
		ASSERT_INT(err.code, BOX_ERR_CAPACITY);
	}
}

TEST(says_what_to_do)
{
	const struct box_host_memory memory = {
		2 * GIB, GIB, UINT64_MAX, UINT64_MAX, 512 * BOX_MIB, 0, 2};
	struct box_err err;
	ASSERT_INT(box_host_memory_check_promises(&memory, 640 * BOX_MIB, &err), -ENOMEM);
	ASSERT_STR(err.text,
		"there is no memory for another microVM: it may take up to 640 MiB with the "
		"programs that run it, and 256 MiB of the host's memory are not promised to other "
		"microVMs (there are 2); end a session, or ask for less memory_mb");
}

TEST(a_reserve_for_all)
{
	struct box_err err;
	struct box_host_memory memory = {.total_bytes = 4096 * BOX_MIB,
		.free_bytes = 512 * BOX_MIB,
		.group_bytes = BOX_HOST_MEMORY_NO_LIMIT,
		.group_free_bytes = BOX_HOST_MEMORY_NO_LIMIT};
	ASSERT_INT(box_host_memory_check_reserve(&memory, 512 * BOX_MIB, &err), 0);
	ASSERT_INT(box_host_memory_check_reserve(&memory, 0, &err), 0);
	memory.free_bytes--;
	ASSERT_INT(box_host_memory_check_reserve(&memory, 512 * BOX_MIB, &err), -ENOMEM);
	ASSERT_INT(err.code, BOX_ERR_CAPACITY);
	ASSERT_STR(err.text,
		"there is no memory for another box: 511 MiB of the host's 4096 MiB are available, and "
		"limits.reserve_memory_mb keeps 512 free; wait until a session ends, or have the "
		"operator lower that limit");
	memory.free_bytes = 2048 * BOX_MIB;
	memory.group_bytes = 1024 * BOX_MIB;
	memory.group_free_bytes = 100 * BOX_MIB;
	ASSERT_INT(box_host_memory_check_reserve(&memory, 512 * BOX_MIB, &err), -ENOMEM);
	ASSERT(strstr(err.text, "100 MiB of what boxd's cgroup may take, 1024 MiB"));
}

TEST(meminfo)
{
	static const char text[] =
		"MemTotal:       16384 kB\nMemFree:  12 kB\nMemAvailable:  8 kB\n";
	ASSERT_INT(box_host_memory_meminfo_bytes(text, "MemTotal"), 16 * BOX_MIB);
	ASSERT_INT(box_host_memory_meminfo_bytes(text, "MemAvailable"), 8 * BOX_KIB);
	ASSERT_INT(box_host_memory_meminfo_bytes(text, "Mem"), 0);
	ASSERT_INT(box_host_memory_meminfo_bytes("", "MemTotal"), 0);
	ASSERT_INT(box_host_memory_meminfo_bytes("MemTotal: 99999999999999999999 kB\n", "MemTotal"),
		0);
}

TEST(of_this_host)
{
	struct box_host_memory memory;
	struct box_err err;
	ASSERT_INT(box_host_memory_read(NULL, &memory, &err), 0);
	ASSERT(memory.total_bytes > memory.free_bytes && memory.free_bytes > 0);
	ASSERT(memory.group_bytes == BOX_HOST_MEMORY_NO_LIMIT);
}

TEST(stat_of_a_group)
{
	static const char text[] = "anon 4096\nfile 8192\nshmem 12\n";
	ASSERT_INT(box_cgroup_stat_value(text, "anon"), 4096);
	ASSERT_INT(box_cgroup_stat_value(text, "shmem"), 12);
	ASSERT_INT(box_cgroup_stat_value(text, "an"), 0);
	ASSERT_INT(box_cgroup_stat_value("", "anon"), 0);
}
