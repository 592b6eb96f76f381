/* Applies resource limits, Landlock for one folder, and a short seccomp allowlist.
 *
 * Calls that are not on the list fail with EPERM. seccomp cannot see openat2's flags, which are behind a
 * pointer, so Landlock decides what may be opened.
 */
#include "skills/archive/archive_child_confine.h"

#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/err.h"
#include "base/landlock.h"
#include "base/macros.h"
#include "base/seccomp.h"

static const int calls[] = {
	/* the archive, what is made of it, and the answer */
	SCMP_SYS(pread64),
	SCMP_SYS(openat2),
	SCMP_SYS(mkdirat),
	SCMP_SYS(write),
	SCMP_SYS(close),
	SCMP_SYS(syncfs),
	/* memory */
	SCMP_SYS(munmap),
	SCMP_SYS(mremap),
	SCMP_SYS(madvise),
	SCMP_SYS(brk),
	SCMP_SYS(futex),
	/* threads of its own */
	SCMP_SYS(sched_getaffinity),
	SCMP_SYS(set_robust_list),
	SCMP_SYS(rseq),
	SCMP_SYS(exit),
	/* randomness, for the hash tables */
	SCMP_SYS(getrandom),
	/* the end, and abort() */
	SCMP_SYS(exit_group),
	SCMP_SYS(rt_sigprocmask),
	SCMP_SYS(rt_sigaction),
	SCMP_SYS(gettid),
	SCMP_SYS(getpid),
#ifdef BOX_SANITIZED /* the sanitizer cleans up at exit */
	SCMP_SYS(sigaltstack),
#endif
};

static int fail(struct box_err *err, int errnum, const char *step)
{
	return box_err_set(err, BOX_ERR_OS, errnum, "%s: %s", step, box_err_strerror(errnum));
}

/* --- limits --- */

static int set_limits(struct box_err *err)
{
	static const struct {
		__rlimit_resource_t which;
		rlim_t value;
	} limits[] = {
#ifndef BOX_SANITIZED /* the sanitizer's shadow memory takes terabytes */
		{RLIMIT_AS, BOX_ARCHIVE_MEMORY_BYTES_MAX},
#endif
		{RLIMIT_CPU, BOX_ARCHIVE_CPU_SEC},
		{RLIMIT_FSIZE, BOX_ARCHIVE_ENTRY_BYTES_MAX},
		{RLIMIT_CORE, 0},
	};
	for (size_t i = 0; i < BOX_COUNT_OF(limits); i++) {
		struct rlimit limit;
		if (getrlimit(limits[i].which, &limit) < 0) {
			return fail(err, errno, "getrlimit");
		}
		/* A limit that is already lower stays. */
		if (limit.rlim_max > limits[i].value) {
			limit.rlim_max = limits[i].value;
		}
		limit.rlim_cur = limit.rlim_max;
		if (setrlimit(limits[i].which, &limit) < 0) {
			return fail(err, errno, "setrlimit");
		}
	}
	return 0;
}

/* --- seccomp --- */

static int add_calls(scmp_filter_ctx filter)
{
	for (size_t i = 0; i < BOX_COUNT_OF(calls); i++) {
		int r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, calls[i], 0);
		if (r < 0) {
			return r;
		}
	}
	int r = box_seccomp_allow_memory(filter);
	/* Threads may be made, processes may not. */
	if (r < 0) {
		return r;
	}
	r = box_seccomp_allow_clone(filter, CLONE_THREAD, CLONE_THREAD);
	if (r < 0) {
		return r;
	}
	return box_seccomp_allow_abort(filter);
}

static int load_filter(struct box_err *err)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	if (!filter) {
		return fail(err, ENOMEM, "seccomp_init");
	}
	int r = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
	if (r == 0) {
		r = add_calls(filter);
	}
	if (r == 0) {
		r = seccomp_load(filter);
	}
	seccomp_release(filter);
	return r < 0 ? fail(err, -r, "seccomp") : 0;
}

/* Files and folders may be made below out_fd. */
static int enter_landlock(int out_fd, struct box_err *err)
{
	const struct box_landlock_rule rule = {
		out_fd, BOX_LANDLOCK_WRITE_FILE | BOX_LANDLOCK_MAKE_REG | BOX_LANDLOCK_MAKE_DIR};
	const char *step = "Landlock";
	uint32_t abi = box_landlock_abi();
	int r = abi == 0 ? -errno : box_landlock_enter(abi, BOX_LANDLOCK_ALL, &rule, 1, &step);
	return r < 0 ? fail(err, -r, step) : 0;
}

int box_archive_child_confine(int out_fd, bool *ret_has_landlock, struct box_err *err)
{
	int r = set_limits(err);
	if (r < 0) {
		return r;
	}
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0) {
		return fail(err, errno, "prctl");
	}
	r = enter_landlock(out_fd, err);
	bool has_landlock = r == 0;
	if (r < 0 && r != -ENOSYS && r != -EOPNOTSUPP) {
		return r;
	}
	r = load_filter(err);
	if (r == 0) {
		*ret_has_landlock = has_landlock;
	}
	return r;
}
