/* The privileges that processes of box-vmm give up are gone afterwards. */
#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/caps.h"
#include "tests/unit/lib/test.h"
#include "vmm/privileges.h"

#if defined(__SANITIZE_ADDRESS__)
/* The leak checker reads /proc, which is not accessible then. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "detect_leaks=0";
}
#endif

static bool status_has(const char *line)
{
	char got[256];
	bool found = false;
	FILE *from = fopen("/proc/self/status", "re");
	ASSERT(from);
	while (fgets(got, sizeof(got), from)) {
		found = found || strcmp(got, line) == 0;
	}
	(void)fclose(from);
	return found;
}

TEST(no_capability_is_left)
{
	if (geteuid() != 0) {
		SKIP("needs root");
	}
	ASSERT_INT(box_privileges_lock(false), 0);
	ASSERT_INT(box_caps_keep(1ULL << 21), 0);
	ASSERT(status_has("CapEff:\t0000000000200000\n"));
	ASSERT_INT(box_caps_keep(0), 0);
	ASSERT(status_has("CapPrm:\t0000000000000000\n"));
	ASSERT(status_has("CapEff:\t0000000000000000\n"));
	ASSERT(status_has("CapBnd:\t0000000000000000\n"));
	ASSERT(status_has("NoNewPrivs:\t1\n"));
	ASSERT_INT(prctl(PR_GET_DUMPABLE), 0);
	ASSERT(box_caps_keep(1ULL << 21) == 0);
	ASSERT(status_has("CapEff:\t0000000000000000\n"));
}

TEST(another_user_without_groups)
{
	if (geteuid() != 0) {
		SKIP("needs root");
	}
	ASSERT_INT(box_privileges_become(4242, 4243), 0);
	ASSERT(getuid() == 4242 && geteuid() == 4242 && getgid() == 4243);
	ASSERT_INT(getgroups(0, NULL), 0);
	ASSERT_INT(setresuid(0, 0, 0), -1);
}

/* A guest's virtio-fs follows any name that it gets, even "..": this is the second defence after
 * the jail. */
static void stay_below(const char *folder, uint32_t abi)
{
	char path[64];
	(void)snprintf(path, sizeof(path), "%s/../../proc/self/mem", folder);
	const char *const paths[] = {folder, "/dev/null"};
	ASSERT_INT(prctl(PR_SET_NO_NEW_PRIVS, 1L, 0L, 0L, 0L), 0);
	ASSERT(open(path, O_RDWR | O_CLOEXEC) >= 0);
	int proc = open("/proc/self/fd", O_PATH | O_CLOEXEC);
	ASSERT_INT(box_privileges_restrict_paths(abi, paths, 2), 0);
	ASSERT(open(path, O_RDWR | O_CLOEXEC) < 0 && errno == EACCES);
	ASSERT(open("/proc/self/mem", O_RDONLY | O_CLOEXEC) < 0 && errno == EACCES);
	ASSERT(open("/etc/passwd", O_RDONLY | O_CLOEXEC) < 0 && errno == EACCES);
	ASSERT(open("/dev/zero", O_RDWR | O_CLOEXEC) < 0 && errno == EACCES);
	ASSERT(open("/dev/null", O_RDWR | O_CLOEXEC) >= 0);
	(void)snprintf(path, sizeof(path), "%s/file", folder);
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	ASSERT(fd >= 0);
	/* As libkrun reopens files: by its own fds. */
	(void)snprintf(path, sizeof(path), "%d", fd);
	ASSERT(openat(proc, path, O_RDWR | O_CLOEXEC) >= 0);
	(void)snprintf(path, sizeof(path), "%s/file", folder);
	ASSERT_INT(unlink(path), 0);
}

TEST(no_file_but_those_below)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, 1);
	char folder[] = "/tmp/test_below_XXXXXX";
	int status = -1;
	if (abi < 1) {
		SKIP("no Landlock here");
	}
	ASSERT(mkdtemp(folder));
	pid_t pid = fork();
	ASSERT(pid >= 0);
	if (pid == 0) {
		stay_below(folder, (uint32_t)abi);
		_exit(0);
	}
	ASSERT_INT(waitpid(pid, &status, 0), pid);
	ASSERT_INT(rmdir(folder), 0);
	ASSERT_INT(status, 0);
}
