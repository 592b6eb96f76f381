/* Landlock with a rule for each folder, and a seccomp allowlist: files by fds, children of our own, no
 * exec, no sockets. Calls that are not on the list fail with EPERM. */
#include "skills/fence.h"

#include <errno.h>
#include <linux/landlock.h>
#include <seccomp.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"

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
	"wait4",
	"waitid",
	"pidfd_open",
	"pidfd_send_signal",
	"prctl",
	"seccomp",
	"landlock_create_ruleset",
	"landlock_add_rule",
	"landlock_restrict_self",
	"setpriority",
	"prlimit64",
	"setrlimit",
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
	"alarm",
	"setitimer",
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

/* --- Landlock --- */

#define READING (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define WRITING                                                                \
	(LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |       \
		LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR | \
		LANDLOCK_ACCESS_FS_MAKE_REG)
/* Of later versions: to move between folders, and to cut files off. */
#define MOVING (1ULL << 13)
#define CUTTING (1ULL << 14)

/* Newer than the headers that some distributions build with. */
struct ruleset_attr {
	uint64_t handled_access_fs;
	uint64_t handled_access_net;
	uint64_t scoped;
};

static int add_rule(int ruleset, const struct box_skills_room *room, uint64_t handled)
{
	struct landlock_path_beneath_attr rule = {
		.allowed_access = (READING | (room->writes ? WRITING | MOVING | CUTTING : 0)) &
			handled,
		.parent_fd = room->fd,
	};
	return syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0
		? -errno
		: 0;
}

static int enter_landlock(const struct box_skills_room *rooms, size_t count, struct box_err *err)
{
	static const int fs_rights[] = {0, 13, 14, 15, 15, 16};
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	if (abi < 1) {
		BOX_LOG(BOX_LOG_WARNING, "fence.no_landlock", box_kv_errno("why", errno));
		return 0;
	}
	size_t last = sizeof(fs_rights) / sizeof(fs_rights[0]) - 1;
	struct ruleset_attr attr = {
		.handled_access_fs = (1ULL << fs_rights[(size_t)abi < last ? (size_t)abi : last]) -
			1,
		.handled_access_net = abi >= 4 ? 3 : 0,
		.scoped = abi >= 6 ? 3 : 0,
	};
	size_t size = abi >= 6 ? sizeof(attr) : abi >= 4 ? 16 : 8;
	long ruleset = syscall(SYS_landlock_create_ruleset, &attr, size, 0);
	int r = ruleset < 0 ? -errno : 0;
	for (size_t i = 0; i < count && r == 0; i++) {
		r = add_rule((int)ruleset, &rooms[i], attr.handled_access_fs);
	}
	if (r == 0 && syscall(SYS_landlock_restrict_self, (int)ruleset, 0) < 0) {
		r = -errno;
	}
	if (ruleset >= 0) {
		(void)close((int)ruleset);
	}
	return r < 0 ? box_err_set(err, BOX_ERR_OS, -r, "Landlock: %s", strerrordesc_np(-r)) : 0;
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
