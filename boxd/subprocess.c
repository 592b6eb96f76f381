/* A child that does not die when it is killed, because a file system does not respond, keeps the
 * caller's slot until it does. */
#include "boxd/subprocess.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"

#define END_WAIT_MS 1000

static void kill_and_reap(pid_t pid)
{
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
}

int box_subprocess_start(struct box_subprocess *ret_child, int epoll, uint64_t limit_ms,
	box_subprocess_main *child_main, const void *task)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0) {
		return -errno;
	}
	_cleanup_(box_close_p) int answer = ends[0];
	_cleanup_(box_close_p) int out = ends[1];
	pid_t parent = getpid();
	pid_t pid = fork();
	if (pid == 0) {
		child_main(task, parent, out);
		_exit(1);
	}
	if (pid < 0) {
		return -errno;
	}
	int pidfd = pidfd_open(pid, 0);
	if (pidfd < 0) {
		int r = -errno;
		/* It has not yet touched a file system that could block it. */
		kill_and_reap(pid);
		return r;
	}
	struct box_subprocess child = BOX_SUBPROCESS_NONE;
	int r = box_subprocess_adopt(&child, epoll, limit_ms, pidfd);
	if (r < 0) {
		return r;
	}
	child.answer = TAKE_FD(answer);
	*ret_child = child;
	return 0;
}

int box_subprocess_adopt(struct box_subprocess *ret_child, int epoll, uint64_t limit_ms, int pidfd)
{
	struct box_subprocess child = BOX_SUBPROCESS_NONE;
	struct epoll_event event = {.events = EPOLLIN};
	child.pidfd = pidfd;
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, pidfd, &event) < 0) {
		int r = -errno;
		box_subprocess_end(&child, epoll);
		return r;
	}
	if (limit_ms > 0) {
		child.deadline_ms = box_clock_ms() + limit_ms;
	}
	*ret_child = child;
	return 0;
}

bool box_subprocess_has_ended(const struct box_subprocess *child, int wait_ms)
{
	struct pollfd polled = {.fd = child->pidfd, .events = POLLIN};
	return poll(&polled, 1, wait_ms) == 1;
}

void box_subprocess_kill(struct box_subprocess *child)
{
	child->killed = true;
	child->deadline_ms = UINT64_MAX;
	(void)pidfd_send_signal(child->pidfd, SIGKILL, NULL, 0);
}

void box_subprocess_check_deadline(struct box_subprocess *child)
{
	if (child->deadline_ms <= box_clock_ms()) {
		box_subprocess_kill(child);
	}
}

bool box_subprocess_finish(struct box_subprocess *child, int epoll, void *answer, size_t size)
{
	siginfo_t end = {0};
	ssize_t got = child->answer < 0 ? 0 : read(child->answer, answer, size);
	(void)epoll_ctl(epoll, EPOLL_CTL_DEL, child->pidfd, NULL);
	(void)waitid(P_PIDFD, (id_t)child->pidfd, &end, WEXITED | WNOHANG);
	box_close_p(&child->pidfd);
	box_close_p(&child->answer);
	*child = BOX_SUBPROCESS_NONE;
	return got == (ssize_t)size;
}

void box_subprocess_end(struct box_subprocess *child, int epoll)
{
	box_subprocess_kill(child);
	(void)box_subprocess_has_ended(child, END_WAIT_MS);
	(void)box_subprocess_finish(child, epoll, NULL, 0);
}
