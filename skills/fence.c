/* Landlock with a rule for each folder, and a seccomp allowlist: files by fds, children of our own, no
 * exec, no sockets. Calls that are not on the list fail with EPERM. */
#include "skills/fence.h"

#include <errno.h>
#include <fcntl.h>
#include <seccomp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "skills/landlock.h"

const char *const box_skills_calls[] = {
	/* files, by fds */
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
	"sync_file_range",
	"flock",
	"fcntl",
	"dup3",
	"pipe2",
	"umask",
	/* what was connected for us */
	"recvmsg",
	"sendmsg",
	"poll",
	/* children, and their own fences */
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
	/* signals, time, chance */
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

/* Root of the machine, not of a user namespace. */
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

static int enter_landlock(const struct box_skills_room *rooms, size_t count, struct box_err *err)
{
	struct box_landlock_rule rules[BOX_SKILLS_ROOMS_MAX];
	for (size_t i = 0; i < count; i++) {
		unsigned may = BOX_LANDLOCK_READ;
		may |= rooms[i].writes ? BOX_LANDLOCK_WRITE | BOX_LANDLOCK_MAKE : 0;
		may |= rooms[i].moves ? BOX_LANDLOCK_MOVE : 0;
		rules[i] = (struct box_landlock_rule){.fd = rooms[i].fd, .may = may};
	}
	int r = box_landlock_enter(rules, count, err);
	if (r != -ENOSYS && r != -EOPNOTSUPP) {
		return r;
	}
	if (is_root()) {
		char why[128];
		(void)snprintf(why, sizeof(why), "%.100s", err->text);
		return box_err_set(err, BOX_ERR_BACKEND_UNAVAILABLE, -r,
			"nothing of root's is given to box-skills without a fence (%s): "
			"the folder must belong to another user",
			why);
	}
	BOX_LOG(BOX_LOG_WARNING, "fence.no_landlock", box_kv_str("why", err->text));
	return 0;
}

/* --- seccomp --- */

static int add_names(scmp_filter_ctx filter)
{
	int r = 0;
	for (const char *const *name = box_skills_calls; *name && r == 0; name++) {
		int number = seccomp_syscall_resolve_name(*name);
		/* Another architecture may lack a call, or an older libseccomp its name. */
		r = number < 0 ? 0 : seccomp_rule_add(filter, SCMP_ACT_ALLOW, number, 0);
	}
	return r;
}

/* No memory that can be executed; children, but no namespaces (clone3 hides its flags behind a pointer:
 * glibc goes back to clone); limits of our own; signals to our own threads by pid, to children by the fd
 * that came with them. */
static int add_conditions(scmp_filter_ctx filter)
{
	const uint64_t namespaces = 0x7e020080; /* every CLONE_NEW* there is */
	int r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
	if (r == 0) {
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
			SCMP_A0(SCMP_CMP_MASKED_EQ, namespaces, 0));
	}
	if (r == 0) {
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1,
			SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	}
	if (r == 0) {
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1,
			SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	}
	if (r == 0) {
		r = seccomp_rule_add(
			filter, SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), 1, SCMP_A0(SCMP_CMP_EQ, 0));
	}
	/* abort() signals its own thread. */
	if (r == 0) {
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1,
			SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid()));
	}
	return r;
}

static int load_filter(struct box_err *err)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	if (!filter) {
		return box_err_set(err, BOX_ERR_OS, ENOMEM, "seccomp_init failed");
	}
	int r = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
	if (r == 0) {
		/* A tree instead of a list: fewer instructions for each call. */
		(void)seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
		r = add_names(filter);
	}
	r = r < 0 ? r : add_conditions(filter);
	r = r < 0 ? r : seccomp_load(filter);
	seccomp_release(filter);
	return r < 0 ? box_err_set(err, BOX_ERR_OS, -r, "seccomp: %s", strerrordesc_np(-r)) : 0;
}

int box_skills_fence(const struct box_skills_room *rooms, size_t count, struct box_err *err)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1L, 0L, 0L, 0L) < 0 ||
		prctl(PR_SET_DUMPABLE, 0L, 0L, 0L, 0L) < 0) {
		return box_err_set(err, BOX_ERR_OS, errno, "prctl: %s", strerrordesc_np(errno));
	}
	int r = enter_landlock(rooms, count, err);
	return r < 0 ? r : load_filter(err);
}
