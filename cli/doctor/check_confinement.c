/* Checks of what confines a process: user and other namespaces, ids, Landlock, seccomp. */
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/macros.h"
#include "boxd/box/id_ranges.h"
#include "boxd/box/userns.h"
#include "boxd/identity.h"
#include "cli/doctor/check.h"
#include "cli/doctor/diagnose.h"
#include "cli/doctor/probe_child.h"
#include "plan/filter.h"
#include "plan/plan.h"

/* --- user namespaces --- */

/* The number in a file of /proc/sys, or -1. */
static long read_setting(const char *path)
{
	FILE *file = fopen(path, "re");
	long value = -1;
	if (!file) {
		return -1;
	}
	/* NOLINTNEXTLINE(cert-err34-c): the kernel's own number */
	if (fscanf(file, "%ld", &value) != 1) {
		value = -1;
	}
	(void)fclose(file);
	return value;
}

static bool is_filtered(void)
{
	/* 2: by a filter. In strict mode we could not run. */
	return prctl(PR_GET_SECCOMP, 0L, 0L, 0L, 0L) == 2;
}

static bool is_root_changed(void)
{
	struct statx status;
	return statx(AT_FDCWD, "/", 0, STATX_BASIC_STATS, &status) == 0 &&
		(status.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) &&
		!(status.stx_attributes & STATX_ATTR_MOUNT_ROOT);
}

static int make_userns(void *arg)
{
	(void)arg;
	return box_probe_child_enter_userns();
}

/* On some hosts every user can create one, but gets no capabilities in it. */
static int use_userns(void *arg)
{
	(void)arg;
	int r = box_probe_child_enter_userns();
	return r < 0                        ? r
		: unshare(CLONE_NEWUTS) < 0 ? -errno
		: sethostname("box", 3) < 0 ? -errno
					    : 0;
}

void box_check_userns(const struct box_check_setup *setup, struct box_check *check)
{
	(void)setup;
	int r = box_probe_child_step(use_userns, NULL);
	if (r == 0) {
		box_check_report(
			check, BOX_CHECK_OK, "", "can be created, and give capabilities inside");
		return;
	}
	const struct box_diagnose_userns_facts facts = {
		.errnum = -r,
		.made = box_probe_child_step(make_userns, NULL) == 0,
		.root = geteuid() == 0,
		.filtered = is_filtered(),
		.changed_root = is_root_changed(),
		.clone_allowed = read_setting("/proc/sys/kernel/unprivileged_userns_clone"),
		.limit = read_setting("/proc/sys/user/max_user_namespaces"),
		.apparmor_limits = read_setting(
			"/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
	};
	struct box_diagnose_result diagnosis = box_diagnose_userns(&facts);
	box_check_report(check, BOX_CHECK_MISSING, diagnosis.cure, "%s (%s)", diagnosis.why,
		strerrorname_np(-r));
}

/* --- other namespaces --- */

static const struct {
	int flag;
	const char *name;
} spaces[] = {{CLONE_NEWNS, "mount"}, {CLONE_NEWPID, "pid"}, {CLONE_NEWNET, "net"},
	{CLONE_NEWIPC, "ipc"}, {CLONE_NEWUTS, "uts"}, {CLONE_NEWCGROUP, "cgroup"}};

#define SPACES (BOX_COUNT_OF(spaces))

static int make_space(void *arg)
{
	int r = box_probe_child_enter_userns();
	return r < 0 ? r : unshare(*(const int *)arg) < 0 ? -errno : 0;
}

void box_check_namespaces(const struct box_check_setup *setup, struct box_check *check)
{
	(void)setup;
	char made[64] = "";
	char failed[192] = "";
	for (size_t i = 0; i < SPACES; i++) {
		int flag = spaces[i].flag;
		int r = box_probe_child_step(make_space, &flag);
		char *list = r == 0 ? made : failed;
		size_t room = r == 0 ? sizeof(made) : sizeof(failed);
		size_t len = strlen(list);
		(void)snprintf(list + len, room - len, "%s%s%s%s%s", len ? " " : "", spaces[i].name,
			r == 0 ? "" : " (", r == 0 ? "" : strerrorname_np(-r), r == 0 ? "" : ")");
	}
	if (failed[0] == '\0') {
		box_check_report(check, BOX_CHECK_OK, "", "%s can be created", made);
	} else {
		box_check_report(check, BOX_CHECK_MISSING,
			"fix user namespaces first; then use a kernel with all of these, and "
			"user.max_*_namespaces above 0",
			"cannot be created: %s", failed);
	}
}

/* --- ids --- */

/* Starts a process in a user namespace without a map; it ends when the pipe is closed. */
static pid_t start_unmapped(int *ret_hold)
{
	int hold[2];
	int ready[2];
	char byte = 0;
	if (pipe2(hold, O_CLOEXEC) < 0 || pipe2(ready, O_CLOEXEC) < 0) {
		return -errno;
	}
	pid_t pid = fork();
	if (pid == 0) {
		(void)close(hold[1]);
		if (unshare(CLONE_NEWUSER) == 0 && write(ready[1], &byte, 1) == 1) {
			(void)!read(hold[0], &byte, 1);
		}
		_exit(0);
	}
	(void)close(hold[0]);
	(void)close(ready[1]);
	(void)!read(ready[0], &byte, 1);
	(void)close(ready[0]);
	*ret_hold = hold[1];
	return pid;
}

static int try_range(void *arg)
{
	(void)arg;
	uint32_t first = 0;
	int hold = -1;
	struct box_id_ranges *ids = box_id_ranges_new();
	int r = box_id_ranges_take(ids, &first);
	pid_t pid = r < 0 ? r : start_unmapped(&hold);
	r = pid < 0 ? pid : box_userns_write_map(pid, "uid_map", 0, first, BOX_PLAN_ID_COUNT);
	if (r == 0) {
		r = box_userns_write_map(pid, "gid_map", 0, first, BOX_PLAN_ID_COUNT);
	}
	box_close_p(&hold);
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
	}
	box_id_ranges_free(ids);
	return r;
}

void box_check_ids(const struct box_check_setup *setup, struct box_check *check)
{
	(void)setup;
	static const unsigned long last = 0xf0000000UL; /* above all ids of boxes */
	if (geteuid() != 0) {
		box_check_report(check, BOX_CHECK_LIMITED,
			"run boxd as root to give each box its own range of ids",
			"a single id: commands in boxes run as uid %u of the host", geteuid());
		return;
	}
	bool mapped = box_identity_is_mapped("/proc/self/uid_map", last) &&
		box_identity_is_mapped("/proc/self/gid_map", last);
	int r = mapped ? box_probe_child_step(try_range, NULL) : -ERANGE;
	if (r == 0) {
		box_check_report(check, BOX_CHECK_OK, "", "each box gets its own range of %d ids",
			BOX_PLAN_ID_COUNT);
	} else {
		box_check_report(check, BOX_CHECK_MISSING,
			"start the container without a user namespace or map all ids into it, or "
			"run boxd as a plain user",
			"root cannot give boxes their own ids here: %s",
			mapped ? box_err_strerror(-r) : "this user namespace has too few ids");
	}
}

/* --- Landlock --- */

#define LANDLOCK_ASK_VERSION 1U
#define LANDLOCK_READ_FOLDER (1ULL << 3)

/* A ruleset without any rule, under which reading a folder must fail. */
static int try_landlock(void *arg)
{
	(void)arg;
	uint64_t handled = LANDLOCK_READ_FOLDER;
	long rules = syscall(SYS_landlock_create_ruleset, &handled, sizeof(handled), 0);
	if (rules < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1L, 0L, 0L, 0L) < 0 ||
		syscall(SYS_landlock_restrict_self, (int)rules, 0) < 0) {
		return -errno;
	}
	int fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 && errno == EACCES ? 0 : -EIO;
}

void box_check_landlock(const struct box_check_setup *setup, struct box_check *check)
{
	(void)setup;
	static const char cure[] =
		"use kernel 5.13 or newer, with `landlock` in the list of lsm= (CONFIG_LSM)";
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_ASK_VERSION);
	int errnum = errno;
	int r = abi > 0 ? box_probe_child_step(try_landlock, NULL) : 0;
	if (abi > 0 && r == 0) {
		box_check_report(check, BOX_CHECK_OK, "", "ABI %ld, works", abi);
	} else {
		box_check_report(check, BOX_CHECK_LIMITED, cure,
			"not available, so files have one layer of protection less: %s",
			box_err_strerror(abi > 0 ? -r : errnum));
	}
}

/* --- seccomp --- */

/* The filter of boxes, under which ptrace must fail. */
static int try_filter(void *arg)
{
	const struct box_filter *filter = arg;
	const struct sock_fprog program = {
		.len = (unsigned short)filter->count,
		.filter = filter->instructions,
	};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1L, 0L, 0L, 0L) < 0 ||
		syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0) {
		return -errno;
	}
	return syscall(SYS_ptrace, PTRACE_TRACEME, 0, NULL, NULL) < 0 && errno == EPERM ? 0 : -EIO;
}

void box_check_seccomp(const struct box_check_setup *setup, struct box_check *check)
{
	(void)setup;
	static const char cure[] =
		"use a kernel with CONFIG_SECCOMP_FILTER; in a container, allow the "
		"call seccomp";
	char names[64] = "";
	struct box_err err;
	for (int profile = 0; profile < BOX_FILTERS_; profile++) {
		struct box_filter filter = {0};
		struct box_filter_kind kind = {.profile = (enum box_filter_profile)profile};
		if (box_filter_compile(kind, &filter, &err) < 0) {
			box_check_report(check, BOX_CHECK_MISSING, cure, "%s", err.text);
			return;
		}
		int r = box_probe_child_step(try_filter, &filter);
		box_filter_free(&filter);
		const char *name = box_filter_name(kind.profile);
		if (r < 0) {
			box_check_report(check, BOX_CHECK_MISSING, cure,
				"the filter %s does not work: %s", name, box_err_strerror(-r));
			return;
		}
		size_t len = strlen(names);
		(void)snprintf(names + len, sizeof(names) - len, "%s%s", len ? ", " : "", name);
	}
	box_check_report(check, BOX_CHECK_OK, "", "the filters work: %s", names);
}
