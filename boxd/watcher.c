/* The start of the watcher, its rights, and how boxd restarts it. What it does after boxd's death is
 * box_cgroups_clean_up. */
#include "boxd/watcher.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fds.h"
#include "base/log.h"
#include "base/seccomp.h"
#include "boxd/cgroup/cgroup.h"

#define NAME "box-watcher"
#define OUTLIVE_MS 30000  /* what is left after that is left to the next boxd */
#define ROUND_PAUSE_MS 10 /* what was killed dies within milliseconds */
#define STAT_ARG_START 48 /* fields of /proc/self/stat, from 1 */

/* --- the process --- */

/* Sets the name that `ps` shows, which would be boxd's command line. */
static void take_name(void)
{
	char text[1024];
	unsigned long start = 0;
	unsigned long end = 0;
	(void)prctl(PR_SET_NAME, NAME, 0L, 0L, 0L);
	_cleanup_(box_close_p) int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	text[len < 0 ? 0 : len] = '\0';
	const char *at = strrchr(text, ')'); /* the end of the second field */
	for (int field = 2; at && field < STAT_ARG_START; field++) {
		at = strchr(at + 1, ' ');
	}
	if (at && sscanf(at, " %lu %lu", &start, &end) == 2 && end - start > sizeof(NAME)) {
		/* NOLINTNEXTLINE(performance-no-int-to-ptr): the kernel gives it as a number */
		char *words = (char *)start;
		memset(words, 0, end - start);
		memcpy(words, NAME, sizeof(NAME));
	}
}

/* Closes all fds of boxd but the folders and the pidfd; above all those of the parent cgroups, which
 * are locked as long as a process has them open. */
static int close_others(const int *folders, size_t count, int boxd)
{
	int kept[BOX_CGROUP_PROCS_FDS_MAX + 1];
	memcpy(kept, folders, count * sizeof(kept[0]));
	kept[count++] = boxd;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null < 0) {
		return -errno;
	}
	/* A process that reads boxd's stdio until EOF must not wait for us. */
	for (int fd = 0; fd <= STDERR_FILENO; fd++) {
		if (dup2(null, fd) < 0) {
			return -errno;
		}
	}
	return box_fds_close_but(STDERR_FILENO + 1, kept, count);
}

/* Rights to read, wait, kill, and remove folders. */
static int add_calls(scmp_filter_ctx filter)
{
	static const char *const names[] = {"read", "pread64", "write", "openat", "close", "fstat",
		"newfstatat", "fcntl", "lseek", "getdents64", "flock", "unlinkat", "poll", "ppoll",
		"pidfd_open", "pidfd_send_signal", "nanosleep", "clock_nanosleep", "clock_gettime",
		"brk", "munmap", "mremap", "madvise", "futex", "getpid", "gettid", "sigaltstack",
		"rt_sigprocmask", "exit_group", NULL};
	int r = box_seccomp_allow_names(filter, names);
	if (r < 0) {
		return r;
	}
	return box_seccomp_allow_memory(filter);
}

static int give_up_rights(const int *folders, size_t count)
{
	struct rlimit core = {0, 0};
	struct box_err err;
	/* Processes in boxes have other ids, and nobody may write to the root of a version 1 hierarchy
	 * by its mode. Landlock closes what DAC_OVERRIDE would open of the host. */
	int r = box_caps_keep(1ULL << CAP_KILL | 1ULL << CAP_DAC_OVERRIDE);
	if (r < 0) {
		return r;
	}
	if (setrlimit(RLIMIT_CORE, &core) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1L, 0L, 0L, 0L) < 0 ||
		prctl(PR_SET_DUMPABLE, 0L, 0L, 0L, 0L) < 0) {
		return -errno;
	}
	r = box_cgroup_confine(folders, count);
	if (r < 0) {
		return r;
	}
	return box_seccomp_load(SCMP_ACT_ERRNO(EPERM), add_calls, &err);
}

/* Neither signals from boxd's terminal nor to its process group must reach us. */
static int leave_session(void)
{
	sigset_t all;
	(void)sigfillset(&all);
	if (setsid() < 0 || chdir("/") < 0 || sigprocmask(SIG_SETMASK, &all, NULL) < 0) {
		return -errno;
	}
	return 0;
}

static int confine(const int *folders, size_t count, int boxd)
{
	int r = leave_session();
	if (r < 0) {
		return r;
	}
	r = close_others(folders, count, boxd);
	if (r < 0) {
		return r;
	}
	return give_up_rights(folders, count);
}

_Noreturn static void run(struct box_cgroups *cgroups, int boxd)
{
	int folders[BOX_CGROUP_PROCS_FDS_MAX];
	size_t count = box_cgroups_become_cleaner(cgroups, folders);
	take_name();
	if (confine(folders, count, boxd) < 0) {
		_exit(1);
	}
	struct pollfd wait = {.fd = boxd, .events = POLLIN};
	while (poll(&wait, 1, -1) != 1) {
	}
	uint64_t until_ms = box_clock_ms() + OUTLIVE_MS;
	while (!box_cgroups_clean_up(cgroups) && box_clock_ms() < until_ms) {
		const struct timespec pause = {.tv_nsec = ROUND_PAUSE_MS * 1000000L};
		(void)nanosleep(&pause, NULL);
	}
	_exit(0);
}

/* --- boxd's side --- */

/* A watcher that cannot run on this host must not write a log line every second for ever. */
static void lengthen_pause(struct box_watcher *watcher)
{
	bool at_once = (int64_t)box_clock_ms() < watcher->started_ms + BOX_WATCHER_PAUSE_MAX_MS;
	watcher->pause_ms = !at_once                               ? BOX_WATCHER_PAUSE_MS
		: 2 * watcher->pause_ms < BOX_WATCHER_PAUSE_MAX_MS ? 2 * watcher->pause_ms
								   : BOX_WATCHER_PAUSE_MAX_MS;
}

static void start(struct box_watcher *watcher)
{
	_cleanup_(box_close_p) int boxd = pidfd_open(getpid(), 0);
	watcher->started_ms = (int64_t)box_clock_ms();
	pid_t pid = boxd < 0 ? -1 : fork();
	if (pid == 0) {
		run(watcher->cgroups, boxd);
	}
	watcher->pidfd = pid < 0 ? -1 : pidfd_open(pid, 0);
	if (pid < 0 || watcher->pidfd < 0) {
		BOX_LOG(BOX_LOG_WARNING, "watcher.failed", box_log_errno("why", errno),
			box_log_str("then",
				"after a kill of boxd its cgroups stay until the next start"));
		lengthen_pause(watcher);
	}
	watcher->pid = pid;
}

void box_watcher_start(struct box_watcher *watcher, struct box_cgroups *cgroups)
{
	*watcher = BOX_WATCHER_NONE;
	watcher->cgroups = cgroups;
	start(watcher);
}

static int get_fd(const void *arg)
{
	const struct box_watcher *watcher = arg;
	return watcher->pidfd;
}

static int get_timeout_ms(const void *arg)
{
	const struct box_watcher *watcher = arg;
	if (!watcher->cgroups || watcher->pidfd >= 0) {
		return -1;
	}
	int64_t left = watcher->started_ms + watcher->pause_ms - (int64_t)box_clock_ms();
	return left > 0 ? (int)left : 0;
}

static void step(void *arg, short revents)
{
	struct box_watcher *watcher = arg;
	(void)revents;
	siginfo_t end = {0};
	if (watcher->pidfd >= 0 &&
		(waitid(P_PIDFD, (id_t)watcher->pidfd, &end, WEXITED | WNOHANG) < 0 ||
			end.si_pid != 0)) {
		BOX_LOG(BOX_LOG_WARNING, "watcher.died", box_log_int("pid", watcher->pid));
		box_close_p(&watcher->pidfd);
		lengthen_pause(watcher);
	}
	if (get_timeout_ms(watcher) == 0) {
		start(watcher);
	}
}

struct box_event_source box_watcher_event_source(struct box_watcher *watcher)
{
	return (struct box_event_source){
		.arg = watcher, .fd = get_fd, .timeout_ms = get_timeout_ms, .step = step};
}

void box_watcher_stop(struct box_watcher *watcher)
{
	if (watcher->pidfd >= 0) {
		(void)pidfd_send_signal(watcher->pidfd, SIGKILL, NULL, 0);
		(void)waitid(P_PIDFD, (id_t)watcher->pidfd, &(siginfo_t){0}, WEXITED);
		box_close_p(&watcher->pidfd);
	}
	watcher->cgroups = NULL;
}
