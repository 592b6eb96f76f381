/* The queue and the children, as in measures.c. A request is answered once; a child that does not
 * die when it is killed keeps its place until it does. */
#include "boxd/quota/quota_queue.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fair_queue.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/log.h"
#include "boxd/box/boxes.h"
#include "boxd/box/make_from_warm.h"
#include "boxd/files/location.h"
#include "boxd/quota/quota.h"
#include "boxd/subprocess.h"

#define ROUNDS_MAX 16     /* images in images, each mounted for the next to be seen */
#define FREE_WAIT_MS 1000 /* at the end of boxd, for children that were killed */

struct job {
	struct box_fair_queue_item turn; /* waits for a child, or has one */
	uint32_t request;                /* 0: nobody waits for it any more */
	struct box_plan_request ask;
	struct box_quota_folder folder;
	dev_t device; /* of the folder, without what may be mounted over it later */
	ino_t inode;
	bool above;      /* it is one above what was asked for, and is mounted only */
	unsigned rounds; /* in which the request was looked at */
};

struct child {
	struct box_subprocess helper; /* none: this place is free */
	uint64_t deadline_ms;
	bool killed;
	struct job *job;
};

struct box_quota_queue {
	const struct box_host_state *ground;
	struct box_boxes *boxes;
	box_quota_queue_done *done;
	void *arg;
	int epoll;
	struct child children[BOX_QUOTAS_MAX];
	struct box_fair_queue queue;
	bool begin_due; /* one was put into it since it was looked at */
};

struct box_quota_queue *box_quota_queue_new(const struct box_host_state *ground,
	struct box_boxes *boxes, box_quota_queue_done *done, void *arg)
{
	struct box_quota_queue *quotas = box_alloc(sizeof(*quotas));
	quotas->ground = ground;
	quotas->boxes = boxes;
	quotas->done = done;
	quotas->arg = arg;
	quotas->epoll = epoll_create1(EPOLL_CLOEXEC);
	box_fair_queue_init(&quotas->queue, BOX_QUOTAS_MAX, BOX_QUOTAS_WAITING_MAX);
	for (size_t i = 0; i < BOX_QUOTAS_MAX; i++) {
		quotas->children[i].helper = BOX_SUBPROCESS_NONE;
	}
	return quotas;
}

static struct job *job_of(struct box_list *links)
{
	return BOX_CONTAINER_OF(
		BOX_CONTAINER_OF(links, struct box_fair_queue_item, links), struct job, turn);
}

static void job_free(struct box_quota_queue *quotas, struct job *job)
{
	box_fair_queue_leave(&quotas->queue, &job->turn);
	box_close_p(&job->folder.parent);
	free(job);
}

static void finish(struct box_quota_queue *quotas, struct job *job, const struct box_err *err)
{
	if (err) {
		BOX_LOG(BOX_LOG_WARNING, "quota.failed", box_log_str("path", job->ask.host_path),
			box_log_str("why", err->text));
	}
	if (job->request != 0) {
		quotas->done(quotas->arg, job->request, &job->ask, err);
	}
	job_free(quotas, job);
}

/* --- requests --- */

static int check_unused(struct box_quota_queue *quotas, int source,
	const struct box_quota_state *state, struct box_err *err)
{
	if (state->mounted || !box_boxes_uses_folder(quotas->boxes, source)) {
		return 0;
	}
	return box_err_set(err, BOX_ERR_SESSION_CONFLICT, EBUSY,
		"workspace_quota_mb cannot begin to hold: another session uses host_path without "
		"it; end that one first");
}

static bool is_of(const struct job *job, const struct stat *status)
{
	return job->inode == status->st_ino && job->device == status->st_dev;
}

/* Whoever comes to a folder that is being moved waits until it is, with a quota or without. */
static bool is_moving(struct box_quota_queue *quotas, int source)
{
	struct stat status;
	bool found = fstat(source, &status) < 0;
	for (size_t i = 0; i < BOX_QUOTAS_MAX; i++) {
		const struct child *child = &quotas->children[i];
		found = found || (child->helper.pidfd >= 0 && is_of(child->job, &status));
	}
	struct box_list *waiting = &quotas->queue.waiting;
	for (struct box_list *at = waiting->next; !found && at != waiting; at = at->next) {
		found = is_of(job_of(at), &status);
	}
	return found;
}

/* One above the folder that has an image which is not mounted: what is seen below it now is not
 * what it has. -1 where there is none. */
static int find_above(int source, int *ret_fd, struct box_err *err)
{
	struct box_location before = {0};
	_cleanup_(box_close_p) int fd = -1;
	int r = box_location_open_following(source, "..", &fd);
	for (int depth = 0; r == 0 && depth < BOX_PATH_MAX; depth++) {
		struct box_quota_state state = {0};
		struct box_location place = {0};
		_cleanup_(box_close_p) int up = -1;
		r = box_location_of(fd, &place);
		if (r < 0 || (place.inode == before.inode && place.mount == before.mount)) {
			break;
		}
		r = box_quota_read_state(fd, &state, err);
		if (r < 0) {
			return r;
		}
		if (state.has_image && !state.mounted) {
			*ret_fd = TAKE_FD(fd);
			return 0;
		}
		before = place;
		r = box_location_open_following(fd, "..", &up);
		box_close_p(&fd);
		fd = TAKE_FD(up);
	}
	return r < 0 ? box_err_set(err, BOX_ERR_OS, -r, "the folders above host_path: %s",
			       box_err_strerror(-r))
		     : 0;
}

static int add_job(struct box_quota_queue *quotas, uint32_t request,
	const struct box_plan_request *ask, int source, bool above, unsigned rounds,
	struct box_err *err)
{
	struct box_quota_folder folder = {.parent = -1};
	int r = box_quota_find(source, &folder, err);
	if (r < 0) {
		return r;
	}
	struct job *job = box_alloc(sizeof(*job));
	if (!box_fair_queue_put(&quotas->queue, &job->turn, ask->tenant)) {
		box_close_p(&folder.parent);
		free(job);
		return box_err_set(err, BOX_ERR_CAPACITY, EBUSY,
			"too many workspace quotas are being prepared");
	}
	job->request = request;
	job->ask = *ask;
	job->folder = folder;
	job->above = above;
	job->rounds = rounds;
	quotas->begin_due = true;
	struct stat status;
	if (fstat(source, &status) == 0) {
		job->device = status.st_dev;
		job->inode = status.st_ino;
	}
	return 0;
}

/* 0: the box may be made; 1: it waits for a child. */
static int look(struct box_quota_queue *quotas, uint32_t request, struct box_plan_request *ask,
	unsigned rounds, struct box_err *err)
{
	const struct box_host_state *ground = quotas->ground;
	struct box_quota_state state = {0};
	enum box_quota_verdict verdict = BOX_QUOTA_READY;
	_cleanup_(box_close_p) int source = -1;
	_cleanup_(box_close_p) int above = -1;
	uint64_t quota_bytes = ask->host_mode == BOX_PLAN_MOUNT_RW ? ask->quota_bytes : 0;
	int r = box_make_open_folder(ground, ask, &source, err);
	r = r < 0 ? r : find_above(source, &above, err);
	if (r == 0 && above >= 0) {
		if (rounds >= ROUNDS_MAX) {
			return box_err_set(err, BOX_ERR_BOX, ELOOP,
				"a folder above host_path has an image that is not mounted");
		}
		r = add_job(quotas, request, ask, above, true, rounds + 1, err);
		return r < 0 ? r : 1;
	}
	r = r < 0 ? r : box_quota_read_state(source, &state, err);
	r = r < 0 ? r
		  : box_quota_decide(&ground->quota, &state, quota_bytes,
			    ground->policy.degraded != 0, &verdict, err);
	if (r == 0 && verdict != BOX_QUOTA_WAIVED && is_moving(quotas, source)) {
		verdict = BOX_QUOTA_NEEDS_WORK;
	}
	if (r < 0 || verdict == BOX_QUOTA_READY) {
		return r;
	}
	if (verdict == BOX_QUOTA_WAIVED) {
		BOX_LOG(BOX_LOG_WARNING, "quota.waived", box_log_str("path", ask->host_path),
			box_log_str("why", ground->quota.missing));
		ask->quota_bytes = 0;
		return 0;
	}
	r = check_unused(quotas, source, &state, err);
	r = r < 0 ? r : add_job(quotas, request, ask, source, false, rounds, err);
	return r < 0 ? r : 1;
}

static void ask_again(struct box_quota_queue *quotas, uint32_t request,
	const struct box_plan_request *wanted, unsigned rounds)
{
	const struct box_host_state *ground = quotas->ground;
	struct box_plan_request ask = *wanted;
	struct box_err err;
	int r = 0;
	/* One that will be refused anyway is refused by who makes boxes. */
	if (ground->possible && ask.host_mode != BOX_PLAN_MOUNT_NONE &&
		box_plan_check(&ask, &ground->policy, &ground->host, &err) == 0) {
		r = look(quotas, request, &ask, rounds, &err);
	}
	if (r <= 0) {
		quotas->done(quotas->arg, request, &ask, r < 0 ? &err : NULL);
	}
}

void box_quota_queue_request(
	struct box_quota_queue *quotas, uint32_t request, const struct box_plan_request *ask)
{
	ask_again(quotas, request, ask, 0);
}

/* --- children --- */

static void run_child(const void *task, pid_t parent, int out)
{
	box_quota_run_task(task, parent, out);
}

static int start_child(struct box_quota_queue *quotas, struct child *child, struct job *job)
{
	const struct box_quota_task task = {
		.means = &quotas->ground->quota,
		.folder = &job->folder,
		.quota_bytes = job->above || job->ask.host_mode != BOX_PLAN_MOUNT_RW
			? 0
			: job->ask.quota_bytes,
		.alone = quotas->ground->alone,
	};
	struct box_subprocess helper;
	int r = box_subprocess_start(&helper, quotas->epoll, run_child, &task);
	if (r < 0) {
		return r;
	}
	*child = (struct child){
		.helper = helper,
		.deadline_ms = box_clock_ms() + BOX_QUOTA_MS,
		.job = job,
	};
	return 0;
}

static void take_result(struct box_quota_queue *quotas, struct child *child)
{
	struct box_quota_report report;
	struct box_err err;
	struct job *job = child->job;
	bool killed = child->killed;
	bool told = box_subprocess_finish(&child->helper, quotas->epoll, &report, sizeof(report));
	if (told && report.failure.result == 0) {
		if (job->above && job->request != 0) {
			ask_again(quotas, job->request, &job->ask, job->rounds);
			job->request = 0;
		}
		finish(quotas, job, NULL);
		return;
	}
	if (told) {
		(void)box_err_set(&err, (enum box_code)report.failure.code, -report.failure.result,
			"%s", report.failure.text);
	} else {
		(void)box_err_set(&err, BOX_ERR_BOX, killed ? ETIMEDOUT : ECHILD,
			"the quota of host_path cannot be held: %s",
			killed ? "it took too long" : "the process that prepares it has died");
	}
	finish(quotas, job, &err);
}

static void begin_jobs(struct box_quota_queue *quotas)
{
	quotas->begin_due = false;
	for (size_t i = 0; i < BOX_QUOTAS_MAX; i++) {
		struct child *child = &quotas->children[i];
		struct box_fair_queue_item *turn;
		while (child->helper.pidfd < 0 && (turn = box_fair_queue_take(&quotas->queue))) {
			struct job *job = BOX_CONTAINER_OF(turn, struct job, turn);
			int r = start_child(quotas, child, job);
			if (r < 0) {
				struct box_err err;
				(void)box_err_set(&err, BOX_ERR_OS, -r,
					"the quota of host_path cannot be prepared: %s",
					box_err_strerror(-r));
				finish(quotas, job, &err);
			}
		}
	}
}

/* --- the loop --- */

int box_quota_queue_fd(const struct box_quota_queue *quotas)
{
	return quotas->epoll;
}

int box_quota_queue_timeout_ms(const struct box_quota_queue *quotas)
{
	uint64_t now_ms = box_clock_ms();
	uint64_t next_ms = UINT64_MAX;
	for (size_t i = 0; i < BOX_QUOTAS_MAX; i++) {
		const struct child *child = &quotas->children[i];
		if (child->helper.pidfd >= 0 && !child->killed && child->deadline_ms < next_ms) {
			next_ms = child->deadline_ms;
		}
	}
	if (quotas->begin_due) {
		return 0;
	}
	if (next_ms == UINT64_MAX) {
		return -1;
	}
	return next_ms > now_ms ? (int)(next_ms - now_ms) : 0;
}

void box_quota_queue_step(struct box_quota_queue *quotas)
{
	uint64_t now_ms = box_clock_ms();
	for (size_t i = 0; i < BOX_QUOTAS_MAX; i++) {
		struct child *child = &quotas->children[i];
		if (child->helper.pidfd >= 0 && box_subprocess_has_ended(&child->helper, 0)) {
			take_result(quotas, child);
		} else if (child->helper.pidfd >= 0 && !child->killed &&
			now_ms >= child->deadline_ms) {
			child->killed = true;
			box_subprocess_kill(&child->helper);
		}
	}
	begin_jobs(quotas);
}

static void drop_waiting(struct box_quota_queue *quotas)
{
	while (!box_list_empty(&quotas->queue.waiting)) {
		job_free(quotas, job_of(quotas->queue.waiting.next));
	}
}

void box_quota_queue_drop_requests(struct box_quota_queue *quotas)
{
	drop_waiting(quotas);
	for (size_t i = 0; i < BOX_QUOTAS_MAX; i++) {
		if (quotas->children[i].helper.pidfd >= 0) {
			quotas->children[i].job->request = 0;
		}
	}
}

void box_quota_queue_free(struct box_quota_queue *quotas)
{
	box_quota_queue_drop_requests(quotas);
	for (size_t i = 0; i < BOX_QUOTAS_MAX; i++) {
		struct child *child = &quotas->children[i];
		if (child->helper.pidfd >= 0) {
			box_subprocess_kill(&child->helper);
			(void)box_subprocess_has_ended(&child->helper, FREE_WAIT_MS);
			(void)box_subprocess_finish(&child->helper, quotas->epoll, NULL, 0);
			job_free(quotas, child->job);
		}
	}
	(void)close(quotas->epoll);
	free(quotas);
}
