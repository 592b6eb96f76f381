/* A child with a pipe and a timeout. The child leads a process group, so that its own children are killed with
 * it, and it has an alarm in case that we are gone. */
#include "cli/doctor/probe_child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/write.h"
#include "boxd/box/userns.h"

#define ALARM_SPARE_SEC 2
#define EXIT_STEP_FAILED 1

static void hide_errors(void)
{
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (null >= 0) {
		(void)dup2(null, STDERR_FILENO);
	}
}

/* -ECHILD at the end of the pipe. */
static int read_all(int fd, char *bytes, size_t len, int timeout_ms)
{
	uint64_t end_ms = box_clock_ms() + (uint64_t)timeout_ms;
	while (len > 0) {
		uint64_t now_ms = box_clock_ms();
		struct pollfd wait = {.fd = fd, .events = POLLIN};
		int ready = now_ms < end_ms ? poll(&wait, 1, (int)(end_ms - now_ms)) : 0;
		if (ready == 0) {
			return -ETIMEDOUT;
		}
		ssize_t got = ready < 0 ? -1 : read(fd, bytes, len);
		if (got == 0) {
			return -ECHILD;
		}
		if (got < 0 && errno != EINTR) {
			return -errno;
		}
		bytes += got > 0 ? got : 0;
		len -= got > 0 ? (size_t)got : 0;
	}
	return 0;
}

_Noreturn static void be_child(void (*work)(void *arg, void *result), void *arg, void *result,
	size_t size, int fd, bool verbose)
{
	if (!verbose) {
		hide_errors();
	}
	work(arg, result);
	_exit(box_write_all(fd, result, size) == 0 ? 0 : EXIT_STEP_FAILED);
}

static void reap(pid_t pid)
{
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
	}
}

/* Forks with a pipe from the child to us; 0 in the child. Both have both ends. */
static pid_t fork_with_pipe(int *ret_ours, int *ret_theirs)
{
	int pair[2];
	if (pipe2(pair, O_CLOEXEC) < 0) {
		return -errno;
	}
	pid_t pid = fork();
	if (pid < 0) {
		int errnum = errno;
		(void)close(pair[0]);
		(void)close(pair[1]);
		return -errnum;
	}
	*ret_ours = pair[0];
	*ret_theirs = pair[1];
	return pid;
}

int box_probe_child_run(void (*work)(void *arg, void *result), void *arg, void *result, size_t size,
	int timeout_ms, bool verbose)
{
	_cleanup_(box_close_p) int ours = -1;
	_cleanup_(box_close_p) int theirs = -1;
	pid_t pid = fork_with_pipe(&ours, &theirs);
	if (pid < 0) {
		return pid;
	}
	if (pid == 0) {
		(void)setpgid(0, 0);
		(void)prctl(PR_SET_PDEATHSIG, (long)SIGKILL);
		(void)alarm((unsigned)timeout_ms / 1000 + ALARM_SPARE_SEC);
		be_child(work, arg, result, size, theirs, verbose);
	}
	(void)setpgid(pid, pid); /* in both, so that it is done in either order */
	(void)close(TAKE_FD(theirs));
	int r = read_all(ours, result, size, timeout_ms);
	if (r == 0) {
		/* It only has to exit. */
		reap(pid);
	}
	(void)kill(-pid, SIGKILL);
	if (r < 0) {
		reap(pid);
	}
	return r;
}

int box_probe_child_enter_userns(void)
{
	uid_t uid = geteuid();
	gid_t gid = getegid();
	if (unshare(CLONE_NEWUSER) < 0) {
		return -errno;
	}
	int pid = (int)getpid();
	int r = box_userns_deny_groups(pid);
	if (r < 0) {
		return r;
	}
	r = box_userns_write_map(pid, "uid_map", 0, uid, 1);
	return r < 0 ? r : box_userns_write_map(pid, "gid_map", 0, gid, 1);
}

int box_probe_child_enter_mounts(void)
{
	int r = box_probe_child_enter_userns();
	if (r < 0) {
		return r;
	}
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
		return -errno;
	}
	return 0;
}

int box_probe_child_step(int (*step)(void *arg), void *arg)
{
	_cleanup_(box_close_p) int ours = -1;
	_cleanup_(box_close_p) int theirs = -1;
	pid_t pid = fork_with_pipe(&ours, &theirs);
	if (pid < 0) {
		return pid;
	}
	if (pid == 0) {
		int r = step(arg);
		_exit(box_write_all(theirs, &r, sizeof(r)) == 0 ? 0 : EXIT_STEP_FAILED);
	}
	(void)close(TAKE_FD(theirs));
	int r = -ECHILD;
	ssize_t got;
	do {
		got = read(ours, &r, sizeof(r));
	} while (got < 0 && errno == EINTR);
	reap(pid);
	return got == sizeof(r) ? r : -ECHILD;
}
