/* A fixed table of children. A child that does not die when it is killed keeps its slot until it does. */
#include "boxd/jobs.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/limits.h"
#include "base/macros.h"
#include "boxd/program.h"
#include "boxd/subprocess.h"

#define ENDS_ALONE_WAIT_MS 1500 /* when boxd ends, for all programs that end by themselves */

struct job {
	struct box_subprocess child; /* none: the slot is free */
	bool ends_alone;             /* it has no time limit, and was not killed */
	box_jobs_ended *ended;
	void *arg;
};

struct box_jobs {
	int epoll;
	struct job all[BOX_JOBS_MAX];
};

struct box_jobs *box_jobs_new(void)
{
	struct box_jobs *jobs = box_alloc(sizeof(*jobs));
	jobs->epoll = epoll_create1(EPOLL_CLOEXEC);
	for (size_t i = 0; i < BOX_JOBS_MAX; i++) {
		jobs->all[i].child = BOX_SUBPROCESS_NONE;
	}
	return jobs;
}

static bool is_running(const struct job *job)
{
	return job->child.pidfd >= 0;
}

static struct job *find_free(struct box_jobs *jobs)
{
	for (size_t i = 0; i < BOX_JOBS_MAX; i++) {
		if (!is_running(&jobs->all[i])) {
			return &jobs->all[i];
		}
	}
	return NULL;
}

static void kill_job(struct job *job)
{
	job->ends_alone = false;
	box_subprocess_kill(&job->child);
}

int box_jobs_start(struct box_jobs *jobs, const struct box_program *wanted, uint64_t limit_ms,
	box_jobs_ended *ended, void *arg, struct box_err *err)
{
	struct job *job = find_free(jobs);
	struct box_program_process process;
	if (!job) {
		return box_err_set(err, BOX_ERR_BUSY, EAGAIN, "too many programs are running");
	}
	int r = box_program_start(wanted, &process, err);
	if (r < 0) {
		return r;
	}
	r = box_subprocess_adopt(&job->child, jobs->epoll, limit_ms, process.pidfd);
	if (r < 0) {
		return box_err_set(err, BOX_ERR_OS, -r, "%s cannot be watched: %s", wanted->name,
			box_err_strerror(-r));
	}
	job->ends_alone = limit_ms == 0;
	job->ended = ended;
	job->arg = arg;
	return 0;
}

void box_jobs_kill(struct box_jobs *jobs, const void *arg)
{
	for (size_t i = 0; i < BOX_JOBS_MAX; i++) {
		if (is_running(&jobs->all[i]) && jobs->all[i].arg == arg) {
			kill_job(&jobs->all[i]);
		}
	}
}

static int get_fd(const void *arg)
{
	const struct box_jobs *jobs = arg;
	return jobs->epoll;
}

static int get_timeout_ms(const void *arg)
{
	const struct box_jobs *jobs = arg;
	uint64_t due_ms = UINT64_MAX;
	for (size_t i = 0; i < BOX_JOBS_MAX; i++) {
		due_ms = BOX_MIN(jobs->all[i].child.deadline_ms, due_ms);
	}
	return box_event_source_timeout_ms(due_ms);
}

static void step(void *arg, short revents)
{
	struct box_jobs *jobs = arg;
	(void)revents;
	for (size_t i = 0; i < BOX_JOBS_MAX; i++) {
		struct job *job = &jobs->all[i];
		if (!is_running(job)) {
			continue;
		}
		if (box_subprocess_has_ended(&job->child, 0)) {
			/* `ended` may start another job in this slot. */
			struct job last = *job;
			(void)box_subprocess_finish(&job->child, jobs->epoll, NULL, 0);
			last.ended(last.arg);
		} else {
			box_subprocess_check_deadline(&job->child);
		}
	}
}

struct box_event_source box_jobs_event_source(struct box_jobs *jobs)
{
	return (struct box_event_source){
		.arg = jobs, .fd = get_fd, .timeout_ms = get_timeout_ms, .step = step};
}

void box_jobs_free(struct box_jobs *jobs)
{
	uint64_t until_ms = box_clock_ms() + ENDS_ALONE_WAIT_MS;
	for (size_t i = 0; i < BOX_JOBS_MAX; i++) {
		if (is_running(&jobs->all[i]) && !jobs->all[i].ends_alone) {
			kill_job(&jobs->all[i]);
		}
	}
	for (size_t i = 0; i < BOX_JOBS_MAX; i++) {
		struct job *job = &jobs->all[i];
		if (!is_running(job)) {
			continue;
		}
		if (job->ends_alone) {
			int left_ms = box_event_source_timeout_ms(until_ms);
			(void)box_subprocess_has_ended(&job->child, left_ms);
		}
		box_subprocess_end(&job->child, jobs->epoll);
	}
	(void)close(jobs->epoll);
	free(jobs);
}
