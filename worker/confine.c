/* Landlock without a single rule, and a seccomp allowlist.
 *
 * Calls that are not on the list fail with EPERM, so that a library that probes for something continues
 * without it. The list has no open, so nothing may need to open a file afterwards.
 */
#include "worker/confine.h"

#include <errno.h>
#include <seccomp.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/landlock.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/seccomp.h"

const char *const box_confine_allowed_calls[] = {
	/* the loop */
	"epoll_ctl",
	"epoll_pwait",
	"epoll_pwait2",
	"epoll_wait",
	"epoll_create1",
	"eventfd2",
	"poll",
	"ppoll",
	"timerfd_create",
	"timerfd_settime",
	"pipe2",
	/* bytes */
	"read",
	"readv",
	"pread64",
	"preadv",
	"write",
	"writev",
	"pwrite64",
	"pwritev",
	"close",
	"fcntl",
	"fstat",
	"newfstatat",
	"lseek",
	"ftruncate",
	"fchmod",
	"fallocate",
	"dup",
	"memfd_create",
	/* sockets that were handed over */
	"accept4",
	"recvfrom",
	"recvmsg",
	"shutdown",
	"getsockopt",
	"setsockopt",
	"getsockname",
	"getpeername",
	/* memory */
	"munmap",
	"mremap",
	"madvise",
	"brk",
	"membarrier",
	/* threads of libuv's pool */
	"futex",
	"set_robust_list",
	"rseq",
	"sched_getaffinity",
	"sched_yield",
	"gettid",
	"exit",
	"exit_group",
	/* signals, time, randomness */
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
	"getuid",
	"geteuid",
	"getgid",
	"getegid",
	"getrusage",
	"prlimit64",
	"sysinfo",
	"uname",
	NULL,
};

/* --- Landlock --- */

static int enter_landlock(struct box_err *err)
{
	const char *step;
	uint32_t abi = box_landlock_abi();
	if (abi == 0) {
		BOX_LOG(BOX_LOG_WARNING, "confine.no_landlock", box_log_errno("why", errno));
		return 0;
	}
	int r = box_landlock_enter(abi, BOX_LANDLOCK_ALL, NULL, 0, &step);
	if (r < 0) {
		return box_err_set(err, BOX_ERR_OS, -r, "%s: %s", step, box_err_strerror(-r));
	}
	return 0;
}

/* --- seccomp --- */

/* libuv makes fds non-blocking this way. */
static int allow_nonblocking(scmp_filter_ctx filter)
{
	return seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1,
		SCMP_A1(SCMP_CMP_MASKED_EQ, 0xffffffff, FIONBIO));
}

/* Sending is allowed only without an address: with one, the call could connect (TCP fast open). */
static int allow_sending(scmp_filter_ctx filter)
{
	int r = seccomp_rule_add(
		filter, SCMP_ACT_ALLOW, SCMP_SYS(sendto), 1, SCMP_A4(SCMP_CMP_EQ, 0));
	if (r == 0) {
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(sendmsg), 1,
			SCMP_A2(SCMP_CMP_MASKED_EQ, MSG_FASTOPEN, 0));
	}
	return r;
}

static int add_calls(scmp_filter_ctx filter)
{
	static int (*const conditional[])(scmp_filter_ctx filter) = {allow_nonblocking,
		allow_sending, box_seccomp_allow_memory, box_seccomp_allow_abort,
		box_seccomp_allow_children};
	int r = box_seccomp_allow_names(filter, box_confine_allowed_calls);
	for (size_t i = 0; i < BOX_COUNT_OF(conditional) && r == 0; i++) {
		r = conditional[i](filter);
	}
	return r;
}

/* libuv since 1.45 tries to poll through io_uring, and libwebsockets since 4.3 tries to watch the host's
 * routes. */
static int refuse_extras(scmp_filter_ctx filter)
{
	int r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(io_uring_setup), 0);
	if (r == 0) {
		r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 1,
			SCMP_A0(SCMP_CMP_EQ, AF_NETLINK));
	}
	return r;
}

static int give_up_privileges(struct box_err *err)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0) {
		return box_err_set(err, BOX_ERR_OS, errno, "prctl: %s", box_err_strerror(errno));
	}
	return 0;
}

int box_confine_prepare(struct box_err *err)
{
	int r = give_up_privileges(err);
	return r < 0 ? r : box_seccomp_load(SCMP_ACT_ALLOW, refuse_extras, err);
}

int box_confine_enter(struct box_err *err)
{
	int r = give_up_privileges(err);
	if (r == 0) {
		r = enter_landlock(err);
	}
	return r < 0 ? r : box_seccomp_load(SCMP_ACT_ERRNO(EPERM), add_calls, err);
}
