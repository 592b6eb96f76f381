/* Landlock with a rule for each folder, and a seccomp allowlist: files by fds, children of our own, no
 * exec, no sockets. Calls that are not on the list fail with EPERM. */
#include "skills/fence.h"

#include <errno.h>
#include <seccomp.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/log.h"
#include "skills/landlock.h"

const char *const box_skills_calls[] = {
	/* files, by fds */
	"openat",
	"openat2",
	"close",
	"close_range",
	"read",
	"readv",
	"pread64",
	"write",
	"writev",
	"pwrite64",
	"lseek",
	"ftruncate",
	"fallocate",
	"copy_file_range",
	"fstat",
	"fstatfs",
	"newfstatat",
	"statx",
	"faccessat2",
	"readlinkat",
	"getdents64",
	"mkdirat",
	"unlinkat",
	"renameat",
	"renameat2",
	"linkat",
	"fchmod",
	"fchmodat",
	"utimensat",
	"fsync",
	"fdatasync",
	"syncfs",
	"sync_file_range",
	"flock",
	"fcntl",
	"dup",
	"dup3",
	"pipe2",
	"umask",
	"inotify_init1",
	"inotify_add_watch",
	"inotify_rm_watch",
	/* what was connected for us */
	"recvmsg",
	"sendmsg",
	"recvfrom",
	"shutdown",
	"poll",
	"ppoll",
	"memfd_create",
	/* children, and their own fences */
	"kill",
	"wait4",
	"prctl",
	"seccomp",
	"landlock_create_ruleset",
	"landlock_add_rule",
	"landlock_restrict_self",
	"prlimit64",
	/* memory */
	"munmap",
	"mremap",
	"madvise",
	"brk",
	"msync",
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
	"clock_getres",
	"gettimeofday",
	"nanosleep",
	"time",
	"getrandom",
	"getpid",
	"getppid",
	"gettid",
	"getuid",
	"geteuid",
	"getgid",
	"getegid",
	"getrusage",
	"sched_yield",
	"sched_getaffinity",
	"sysinfo",
	"uname",
	"exit",
	"exit_group",
	NULL,
};

static int enter_landlock(const struct box_skills_room *rooms, size_t count, struct box_err *err)
{
	const unsigned all = BOX_LANDLOCK_READ | BOX_LANDLOCK_WRITE | BOX_LANDLOCK_MAKE |
		BOX_LANDLOCK_MOVE;
	struct box_landlock_rule rules[BOX_SKILLS_ROOMS_MAX];
	for (size_t i = 0; i < count; i++) {
		rules[i] = (struct box_landlock_rule){
			.fd = rooms[i].fd, .may = rooms[i].writes ? all : BOX_LANDLOCK_READ};
	}
	int r = box_landlock_enter(rules, count, err);
	if (r == -ENOSYS || r == -EOPNOTSUPP) {
		BOX_LOG(BOX_LOG_WARNING, "fence.no_landlock", box_kv_errno("why", r));
		return 0;
	}
	return r;
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
 * glibc goes back to clone); signals to children and to ourselves are sent by pid. */
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
