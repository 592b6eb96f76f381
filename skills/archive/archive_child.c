/* Forks and confines the child that unpacks, receives its answer, and kills it at a timeout.
 *
 * Its answer is one fixed struct over a pipe. The child has read hostile bytes, so its answer is only
 * believed to say whether this archive is valid.
 */
#include "skills/archive/archive_child.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/utf8.h"
#include "skills/archive/archive_child_confine.h"

/* The fds of the child. */
enum {
	ARCHIVE_FD = 3,
	OUT_FD,
	ANSWER_FD,
	FDS_END,
};

#define TEXT_BYTES 2048

struct answer {
	int32_t errnum; /* 0 on success */
	uint8_t is_validation;
	uint8_t has_landlock;
	char text[TEXT_BYTES];
};
_Static_assert(sizeof(struct answer) <= PIPE_BUF, "an answer is written at once");

static int fail(struct box_err *err, int errnum, const char *step)
{
	return box_err_set(err, BOX_ERR_OS, errnum, "Archive cannot be unpacked: %s: %s", step,
		box_err_strerror(errnum));
}

/* --- in the child --- */

/* Moves the three fds to their fixed numbers and closes all others. */
static int keep_fds(const struct box_archive_child_job *job, int answer_fd)
{
	/* The folder is reopened: the caller's fd may be O_PATH, which cannot be synced. All three are first
	 * moved above the fixed numbers. */
	int folder = openat(job->out_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int out = fcntl(folder, F_DUPFD_CLOEXEC, FDS_END);
	int archive = fcntl(job->archive_fd, F_DUPFD_CLOEXEC, FDS_END);
	int answer = fcntl(answer_fd, F_DUPFD_CLOEXEC, FDS_END);
	if (dup3(archive, ARCHIVE_FD, O_CLOEXEC) < 0 || dup3(out, OUT_FD, O_CLOEXEC) < 0 ||
		dup3(answer, ANSWER_FD, O_CLOEXEC) < 0 || close_range(FDS_END, ~0U, 0) < 0) {
		return -errno;
	}
#ifndef BOX_SANITIZED /* the sanitizer reports at exit */
	(void)close(STDERR_FILENO);
#endif
	(void)close(STDIN_FILENO);
	(void)close(STDOUT_FILENO);
	return 0;
}

/* Blocks all signals, so that none of the caller's handlers runs, and dies with the caller. */
static int detach(pid_t parent)
{
	sigset_t all;
	(void)sigfillset(&all);
	if (sigprocmask(SIG_SETMASK, &all, NULL) < 0 ||
		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0) {
		return -errno;
	}
	(void)umask(0);
	return getppid() == parent ? 0 : -ESRCH;
}

static void send_answer(const struct box_err *err, int r, bool has_landlock)
{
	struct answer answer = {.errnum = -r, .has_landlock = has_landlock};
	if (r < 0) {
		size_t len = strlen(err->text);
		len = len < TEXT_BYTES ? len : box_utf8_floor(err->text, TEXT_BYTES - 1);
		memcpy(answer.text, err->text, len);
		answer.is_validation = err->code == BOX_ERR_VALIDATION;
	}
	/* Without an answer the caller assumes a failure. */
	(void)!write(ANSWER_FD, &answer, sizeof(answer));
}

_Noreturn static void run_child(const struct box_archive_child_job *job,
	box_archive_child_work work, pid_t parent, int answer_fd)
{
	static struct box_err err;
	struct box_archive_child_job own = *job;
	bool has_landlock = true;
	own.archive_fd = ARCHIVE_FD;
	own.out_fd = OUT_FD;
	if (detach(parent) < 0 || keep_fds(job, answer_fd) < 0) {
		/* ANSWER_FD may not exist yet; the caller treats a missing answer as a failure. */
		_exit(1);
	}
	int r = box_archive_child_confine(OUT_FD, &has_landlock, &err);
	if (r == 0) {
		r = work(&own, &err);
	}
	send_answer(&err, r, has_landlock);
	_exit(0);
}

/* --- in the caller --- */

static int wait_until(int fd, uint64_t deadline_ms)
{
	for (;;) {
		uint64_t now = box_clock_ms();
		struct pollfd item = {.fd = fd, .events = POLLIN};
		int r = poll(&item, 1, now < deadline_ms ? (int)(deadline_ms - now) : 0);
		if (r > 0) {
			return 0;
		}
		if (r == 0) {
			return -ETIMEDOUT;
		}
		if (errno != EINTR) {
			return -errno;
		}
	}
}

static int take_answer(const struct answer *answer, struct box_err *err)
{
	size_t len = strnlen(answer->text, TEXT_BYTES);
	if (!answer->has_landlock) {
		BOX_LOG(BOX_LOG_WARNING, "archive.no_landlock");
	}
	if (answer->errnum == 0) {
		return 0;
	}
	if (answer->errnum < 0 || answer->errnum > 4095 || len == TEXT_BYTES ||
		!box_utf8_valid(answer->text, len)) {
		return fail(err, EPROTO, "answer");
	}
	return box_err_set(err, answer->is_validation ? BOX_ERR_VALIDATION : BOX_ERR_OS,
		answer->errnum, "%s%s",
		answer->is_validation ? "" : "Archive cannot be unpacked: ", answer->text);
}

static int receive_answer(pid_t child, int child_fd, int fd, int timeout_ms, struct box_err *err)
{
	struct answer answer;
	int r = wait_until(fd, box_clock_ms() + (uint64_t)timeout_ms);
	ssize_t got = r == 0 ? read(fd, &answer, sizeof(answer)) : 0;
	/* After its answer the child has nothing left to do. */
	(void)syscall(SYS_pidfd_send_signal, child_fd, SIGKILL, NULL, 0);
	while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
	}
	if (r == -ETIMEDOUT) {
		return box_err_set(err, BOX_ERR_VALIDATION, ETIMEDOUT,
			"Archive could not be unpacked in time");
	}
	if (r < 0) {
		return fail(err, -r, "poll");
	}
	if (got != (ssize_t)sizeof(answer)) {
		return fail(err, ECHILD, "the unpacking process ended without an answer");
	}
	return take_answer(&answer, err);
}

/* fork() with a pidfd for signals, since a seccomp filter cannot tell one pid from another. It bypasses
 * glibc, whose fork has nothing to do in a process with one thread. */
static pid_t fork_with_fd(int *ret_fd)
{
	return (pid_t)syscall(SYS_clone, CLONE_PIDFD | SIGCHLD, NULL, ret_fd, NULL, 0L);
}

int box_archive_child_run(const struct box_archive_child_job *job, box_archive_child_work work,
	int timeout_ms, struct box_err *err)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) < 0) {
		return fail(err, errno, "pipe");
	}
	_cleanup_(box_close_p) int from = ends[0];
	_cleanup_(box_close_p) int to = ends[1];
	pid_t self = getpid();
	int pidfd = -1;
	pid_t child = fork_with_fd(&pidfd);
	_cleanup_(box_close_p) int child_fd = pidfd;
	if (child < 0) {
		return fail(err, errno, "fork");
	}
	if (child == 0) {
		run_child(job, work, self, to);
	}
	(void)close(TAKE_FD(to));
	return receive_answer(child, child_fd, from, timeout_ms, err);
}
