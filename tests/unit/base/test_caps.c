/* Capabilities: which are kept, which survive exec, which come back. Needs root. */
#include <errno.h>
#include <linux/capability.h>
#include <unistd.h>

#include "base/caps.h"
#include "tests/unit/lib/test.h"

#if defined(__SANITIZE_ADDRESS__)
/* The leak checker cannot look at a process that has lost its capabilities. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "detect_leaks=0";
}
#endif

#define BIT(number) (UINT64_C(1) << (number))
#define SOME (BIT(CAP_KILL) | BIT(CAP_SETUID) | BIT(CAP_SETPCAP) | BIT(CAP_BPF))

static uint64_t set_named(const char *name)
{
	char line[256];
	uint64_t set = UINT64_MAX;
	FILE *from = fopen("/proc/thread-self/status", "re");
	ASSERT(from);
	while (fgets(line, sizeof(line), from)) {
		if (strncmp(line, name, strlen(name)) == 0) {
			set = strtoull(line + strlen(name) + 1, NULL, 16);
		}
	}
	(void)fclose(from);
	return set;
}

static void check_sets(
	uint64_t permitted, uint64_t effective, uint64_t inheritable, uint64_t ambient)
{
	ASSERT_INT(set_named("CapPrm"), permitted);
	ASSERT_INT(set_named("CapEff"), effective);
	ASSERT_INT(set_named("CapInh"), inheritable);
	ASSERT_INT(set_named("CapAmb"), ambient);
}

static void need_root(void)
{
	if (geteuid() != 0 || (set_named("CapEff") & SOME) != SOME) {
		SKIP("needs root with its capabilities");
	}
}

TEST(some_are_kept)
{
	need_root();
	uint64_t bounding = set_named("CapBnd");
	ASSERT_INT(box_caps_keep(SOME), 0);
	check_sets(SOME, SOME, 0, 0);
	ASSERT_INT(set_named("CapBnd"), bounding);
	/* Capabilities that are already gone do not come back, and that is no error. */
	ASSERT_INT(box_caps_keep(BIT(CAP_KILL) | BIT(CAP_SYS_ADMIN)), 0);
	check_sets(BIT(CAP_KILL), BIT(CAP_KILL), 0, 0);
	ASSERT_INT(box_caps_keep(0), 0);
	check_sets(0, 0, 0, 0);
	ASSERT_INT(box_caps_keep(SOME), 0);
	check_sets(0, 0, 0, 0);
}

TEST(all_are_dropped)
{
	need_root();
	ASSERT_INT(box_caps_drop_all(), 0);
	check_sets(0, 0, 0, 0);
	ASSERT_INT(box_caps_drop_all(), 0);
}

TEST(some_survive_exec)
{
	need_root();
	ASSERT_INT(box_caps_keep_over_exec(SOME), 0);
	check_sets(SOME, SOME, SOME, SOME);
	/* Capabilities that are no longer permitted are refused. */
	ASSERT_INT(box_caps_keep_over_exec(BIT(CAP_SYS_ADMIN)), -EPERM);
	check_sets(SOME, SOME, SOME, SOME);
}

TEST(what_a_change_of_the_uid_cleared)
{
	need_root();
	ASSERT_INT(box_caps_keep(SOME), 0);
	ASSERT_INT(seteuid(4242), 0);
	check_sets(SOME, 0, 0, 0);
	ASSERT_INT(box_caps_restore_effective(), 0);
	check_sets(SOME, SOME, 0, 0);
}
