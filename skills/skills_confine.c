/* Landlock with a rule for each folder, and a seccomp allowlist: files through fds, children of our own, no
 * exec, no sockets. Calls that are not on the list fail with EPERM. */
#include "skills/skills_confine.h"

#include <errno.h>
#include <fcntl.h>
#include <seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/landlock.h"
#include "base/log.h"
#include "base/seccomp.h"

const char *const box_skills_confine_calls[] = {
	/* files, through fds */
	"openat",
	"openat2",
	"close",
	"close_range",
	"read",
	"pread64",
	"write",
	"writev",
	"fstat",
	"newfstatat",
	"readlinkat",
	"getdents64",
	"mkdirat",
	"unlinkat",
	"renameat",
	"renameat2",
	"fchmod",
	"fsync",
	"syncfs",
	"flock",
	"fcntl",
	"dup3",
	"pipe2",
	"umask",
	/* the socket that we were given */
	"recvmsg",
	"sendmsg",
	"poll",
	/* children, and their own confinement */
	"pidfd_send_signal",
	"wait4",
	"prctl",
	"seccomp",
	"landlock_create_ruleset",
	"landlock_add_rule",
	"landlock_restrict_self",
	/* memory */
	"munmap",
	"mremap",
	"madvise",
	"brk",
	"futex",
	"set_robust_list",
	"set_tid_address",
	"rseq",
	/* signals, time, randomness */
	"rt_sigaction",
	"rt_sigprocmask",
	"rt_sigreturn",
	"sigaltstack",
	"restart_syscall",
	"clock_gettime",
	"clock_nanosleep",
	"nanosleep",
	"getrandom",
	"getpid",
	"getppid",
	"gettid",
	"getuid",
	"geteuid",
	"sched_yield",
	"sched_getaffinity",
	"exit",
	"exit_group",
	NULL,
};

/* Whether we are the machine's root, not that of a user namespace. */
static bool is_root(void)
{
	char map[64] = "";
	unsigned inside = 0;
	unsigned outside = 0;
	if (geteuid() != 0) {
		return false;
	}
	_cleanup_(box_close_p) int fd = open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? -1 : read(fd, map, sizeof(map) - 1);
	return len <= 0 || sscanf(map, "%u %u", &inside, &outside) != 2 || outside == 0;
}

static uint64_t rights_of(const struct box_skills_confine_folder *room)
{
	uint64_t rights = BOX_LANDLOCK_READ_FILE | BOX_LANDLOCK_READ_DIR;
	if (room->writes) {
		rights |= BOX_LANDLOCK_WRITE_FILE | BOX_LANDLOCK_MAKE_REG | BOX_LANDLOCK_MAKE_DIR;
	}
	if (room->moves) {
		rights |= BOX_LANDLOCK_REMOVE_DIR | BOX_LANDLOCK_REMOVE_FILE | BOX_LANDLOCK_REFER |
			BOX_LANDLOCK_TRUNCATE;
	}
	return rights;
}

static int restrict_to(
	const struct box_landlock_rule *rules, size_t count, bool moves, struct box_err *err)
{
	const char *step = "Landlock";
	uint32_t abi = box_landlock_abi();
	if (abi == 1 && moves) {
		return box_err_set(err, BOX_ERR_OS, EOPNOTSUPP,
			"Landlock: files can be moved between folders since Linux 5.19");
	}
	int r = abi == 0 ? -errno : box_landlock_enter(abi, BOX_LANDLOCK_ALL, rules, count, &step);
	return r < 0 ? box_err_set(err, BOX_ERR_OS, -r, "%s: %s", step, box_err_strerror(-r)) : 0;
}

static int enter_landlock(
	const struct box_skills_confine_folder *folders, size_t count, struct box_err *err)
{
	struct box_landlock_rule rules[BOX_SKILLS_CONFINE_FOLDERS_MAX];
	bool moves = false;
	for (size_t i = 0; i < count; i++) {
		rules[i] = (struct box_landlock_rule){folders[i].fd, rights_of(&folders[i])};
		moves = moves || folders[i].moves;
	}
	int r = restrict_to(rules, count, moves, err);
	if (r != -ENOSYS && r != -EOPNOTSUPP) {
		return r;
	}
	if (is_root()) {
		char why[128];
		(void)snprintf(why, sizeof(why), "%.100s", err->text);
		return box_err_set(err, BOX_ERR_BACKEND_UNAVAILABLE, -r,
			"box-skills does not run as root without Landlock (%s): "
			"the folder must belong to another user",
			why);
	}
	BOX_LOG(BOX_LOG_WARNING, "confine.no_landlock", box_log_str("why", err->text));
	return 0;
}

/* --- seccomp --- */

/* Only our own limits may change; signals go to our own threads by pid, and to children by their pidfd. */
static int add_calls(scmp_filter_ctx filter)
{
	int r = box_seccomp_allow_names(filter, box_skills_confine_calls);
	if (r < 0) {
		return r;
	}
	r = box_seccomp_allow_children(filter);
	if (r < 0) {
		return r;
	}
	r = box_seccomp_allow_memory(filter);
	if (r < 0) {
		return r;
	}
	r = seccomp_rule_add(
		filter, SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), 1, SCMP_A0(SCMP_CMP_EQ, 0));
	if (r < 0) {
		return r;
	}
	return box_seccomp_allow_abort(filter);
}

int box_skills_confine(
	const struct box_skills_confine_folder *folders, size_t count, struct box_err *err)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1L, 0L, 0L, 0L) < 0 ||
		prctl(PR_SET_DUMPABLE, 0L, 0L, 0L, 0L) < 0) {
		return box_err_set(err, BOX_ERR_OS, errno, "prctl: %s", box_err_strerror(errno));
	}
	int r = enter_landlock(folders, count, err);
	if (r < 0) {
		return r;
	}
	return box_seccomp_load(SCMP_ACT_ERRNO(EPERM), add_calls, err);
}
