/* Owns the way from fork to the answer. */
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

int box_subprocess_start(
	struct box_subprocess *helper, int epoll, box_subprocess_main *child_main, const void *task)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0) {
		return -errno;
	}
	pid_t parent = getpid();
	pid_t pid = fork();
	if (pid == 0) {
		child_main(task, parent, ends[1]);
		_exit(1);
	}
	int r = pid < 0 ? -errno : 0;
	(void)close(ends[1]);
	int pidfd = pid < 0 ? -1 : pidfd_open(pid, 0);
	struct epoll_event event = {.events = EPOLLIN};
	if (pid > 0 && (pidfd < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, pidfd, &event) < 0)) {
		r = -errno;
		/* Nothing of it has touched a file system that could hold it. */
		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, 0);
	}
	if (r < 0) {
		box_close_p(&pidfd);
		(void)close(ends[0]);
		return r;
	}
	*helper = (struct box_subprocess){pidfd, ends[0]};
	return 0;
}

bool box_subprocess_has_ended(const struct box_subprocess *helper, int wait_ms)
{
	struct pollfd polled = {.fd = helper->pidfd, .events = POLLIN};
	return poll(&polled, 1, wait_ms) == 1;
}

void box_subprocess_kill(const struct box_subprocess *helper)
{
	(void)pidfd_send_signal(helper->pidfd, SIGKILL, NULL, 0);
}

bool box_subprocess_finish(struct box_subprocess *helper, int epoll, void *answer, size_t size)
{
	siginfo_t end = {0};
	ssize_t got = read(helper->answer, answer, size);
	(void)epoll_ctl(epoll, EPOLL_CTL_DEL, helper->pidfd, NULL);
	(void)waitid(P_PIDFD, (id_t)helper->pidfd, &end, WEXITED | WNOHANG);
	box_close_p(&helper->pidfd);
	box_close_p(&helper->answer);
	return got == (ssize_t)size;
}
