/* A fixed table of children, watched by their pidfds. One that does not die when it is killed keeps its
 * place until it does. */
#include "boxd/jobs.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/limits.h"
#include "boxd/program.h"

#define NEVER UINT64_MAX
#define FREE_WAIT_MS 1000 /* at the end of boxd, for one that was killed */
#define END_WAIT_MS 1500  /* and for one that ends by itself */

struct errand {
	int pidfd; /* -1: this place is free */
	uint64_t kill_ms;
	bool ends_alone; /* it was given no limit, and was not killed */
	box_jobs_ended *ended;
	void *arg;
};

struct box_jobs {
	int epoll;
	struct errand all[BOX_JOBS_MAX];
};

struct box_jobs *box_jobs_new(void)
{
	struct box_jobs *errands = box_alloc(sizeof(*errands));
	errands->epoll = epoll_create1(EPOLL_CLOEXEC);
	for (size_t i = 0; i < BOX_JOBS_MAX; i++) {
		errands->all[i].pidfd = -1;
	}
	return errands;
}

static struct errand *find_place(struct box_jobs *errands)
{
	for (size_t i = 0; i < BOX_JOBS_MAX; i++) {
		if (errands->all[i].pidfd < 0) {
			return &errands->all[i];
		}
	}
	return NULL;
}

static void send_kill(struct errand *errand)
{
	errand->kill_ms = NEVER;
	errand->ends_alone = false;
	(void)pidfd_send_signal(errand->pidfd, SIGKILL, NULL, 0);
}

static bool has_ended(const struct errand *errand, int wait_ms)
{
	struct pollfd polled = {.fd = errand->pidfd, .events = POLLIN};
	return poll(&polled, 1, wait_ms) == 1;
}

static void bury(struct box_jobs *errands, struct errand *errand)
{
	siginfo_t end = {0};
	(void)epoll_ctl(errands->epoll, EPOLL_CTL_DEL, errand->pidfd, NULL);
	(void)waitid(P_PIDFD, (id_t)errand->pidfd, &end, WEXITED | WNOHANG);
	(void)close(TAKE_FD(errand->pidfd));
}

int box_jobs_start(struct box_jobs *errands, const struct box_program *wanted, uint64_t limit_ms,
	box_jobs_ended *ended, void *arg, struct box_err *err)
{
	struct errand *errand = find_place(errands);
	struct box_program_process child;
	if (!errand) {
		return box_err_set(err, BOX_ERR_BUSY, EAGAIN, "too many programs run already");
	}
	int r = box_program_start(wanted, &child, err);
	if (r < 0) {
		return r;
	}
	*errand = (struct errand){
		.pidfd = child.pidfd,
		.kill_ms = limit_ms == 0 ? NEVER : box_clock_ms() + limit_ms,
		.ends_alone = limit_ms == 0,
		.ended = ended,
		.arg = arg,
	};
	struct epoll_event event = {.events = EPOLLIN};
	if (epoll_ctl(errands->epoll, EPOLL_CTL_ADD, errand->pidfd, &event) < 0) {
		r = box_err_set(err, BOX_ERR_OS, errno, "%s cannot be watched: %s", wanted->name,
			box_err_strerror(errno));
		send_kill(errand);
		(void)has_ended(errand, FREE_WAIT_MS);
		bury(errands, errand);
	}
	return r;
}

void box_jobs_kill(struct box_jobs *errands, const void *arg)
{
	for (size_t i = 0; i < BOX_JOBS_MAX; i++) {
		if (errands->all[i].pidfd >= 0 && errands->all[i].arg == arg) {
			send_kill(&errands->all[i]);
		}
	}
}

int box_jobs_fd(const struct box_jobs *errands)
{
	return errands->epoll;
}

int box_jobs_timeout_ms(const struct box_jobs *errands)
{
	uint64_t next = NEVER;
	for (size_t i = 0; i < BOX_JOBS_MAX; i++) {
		const struct errand *errand = &errands->all[i];
		if (errand->pidfd >= 0 && errand->kill_ms < next) {
			next = errand->kill_ms;
		}
	}
	uint64_t now = box_clock_ms();
	return next == NEVER ? -1 : next > now ? (int)(next - now) : 0;
}

void box_jobs_step(struct box_jobs *errands)
{
	uint64_t now = box_clock_ms();
	for (size_t i = 0; i < BOX_JOBS_MAX; i++) {
		struct errand *errand = &errands->all[i];
		if (errand->pidfd < 0) {
			continue;
		}
		if (has_ended(errand, 0)) {
			struct errand last = *errand;
			bury(errands, errand);
			last.ended(last.arg);
		} else if (now >= errand->kill_ms) {
			send_kill(errand);
		}
	}
}

void box_jobs_free(struct box_jobs *errands)
{
	uint64_t end_ms = box_clock_ms() + END_WAIT_MS;
	for (size_t i = 0; i < BOX_JOBS_MAX; i++) {
		if (errands->all[i].pidfd >= 0 && !errands->all[i].ends_alone) {
			send_kill(&errands->all[i]);
		}
	}
	for (size_t i = 0; i < BOX_JOBS_MAX; i++) {
		struct errand *errand = &errands->all[i];
		if (errand->pidfd < 0) {
			continue;
		}
		uint64_t now = box_clock_ms();
		int left_ms = errand->ends_alone && now < end_ms ? (int)(end_ms - now) : 0;
		if (!has_ended(errand, left_ms)) {
			send_kill(errand);
			(void)has_ended(errand, FREE_WAIT_MS);
		}
		bury(errands, errand);
	}
	(void)close(errands->epoll);
	free(errands);
}
