/* The queue and its child processes, as in measures.c. A child that does not die when it is killed
 * keeps its slot until it does. */
#include "boxd/quota/quota_queue.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/fair_queue.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/log.h"
#include "base/macros.h"
#include "boxd/box/boxes.h"
#include "boxd/box/make.h"
#include "boxd/files/location.h"
#include "boxd/quota/quota.h"
#include "boxd/quota/quota_task.h"
#include "boxd/subprocess.h"

#define ROUNDS_MAX 16 /* nested images: each must be mounted before the next can be seen */

struct job {
	struct box_fair_queue_item turn; /* while it waits for a child or has one */
	struct box_making *making;       /* its request is 0 when nobody waits any more */
	struct box_quota_folder folder;
	dev_t device; /* of the folder itself, not of what may be mounted over it later */
	ino_t inode;
	bool above;      /* a folder above the one of the request, which only needs to be mounted */
	unsigned rounds; /* how often a folder above was found */
};

struct child {
	struct box_subprocess process; /* none: the slot is free */
	struct job *job;
};

struct box_quota_queue {
	const struct box_host_state *host_state;
	struct box_boxes *boxes;
	box_making_done *done;
	void *arg;
	int epoll;
	struct child children[BOX_QUOTAS_MAX];
	struct box_fair_queue fair;
	bool begin_due; /* a job was added since the last turn */
};

struct box_quota_queue *box_quota_queue_new(const struct box_host_state *host_state,
	struct box_boxes *boxes, box_making_done *done, void *arg)
{
	struct box_quota_queue *queue = box_alloc(sizeof(*queue));
	queue->host_state = host_state;
	queue->boxes = boxes;
	queue->done = done;
	queue->arg = arg;
	queue->epoll = epoll_create1(EPOLL_CLOEXEC);
	box_fair_queue_init(&queue->fair, BOX_QUOTAS_MAX, BOX_QUOTAS_WAITING_MAX);
	for (size_t i = 0; i < BOX_QUOTAS_MAX; i++) {
		queue->children[i].process = BOX_SUBPROCESS_NONE;
	}
	return queue;
}

static struct job *job_of(struct box_list *links)
{
	return BOX_CONTAINER_OF(
		BOX_CONTAINER_OF(links, struct box_fair_queue_item, links), struct job, turn);
}

static void job_free(struct box_quota_queue *queue, struct job *job)
{
	box_fair_queue_leave(&queue->fair, &job->turn);
	box_making_free(job->making);
	box_close_p(&job->folder.parent);
	free(job);
}

static void finish(struct box_quota_queue *queue, struct job *job, const struct box_err *err)
{
	if (err) {
		BOX_LOG(BOX_LOG_WARNING, "quota.failed",
			box_log_str("path", job->making->ask.host_path),
			box_log_str("why", err->text));
	}
	if (job->making->request != 0) {
		queue->done(queue->arg, TAKE_PTR(job->making), err);
	}
	job_free(queue, job);
}

/* --- what a request needs --- */

static int check_unused(struct box_quota_queue *queue, int source,
	const struct box_quota_state *state, struct box_err *err)
{
	if (state->mounted || !box_boxes_uses_folder(queue->boxes, source)) {
		return 0;
	}
	return box_err_set(err, BOX_ERR_SESSION_CONFLICT, EBUSY,
		"workspace_quota_mb cannot take effect: another session uses host_path without "
		"it; end that one first");
}

static bool is_for(const struct job *job, const struct stat *status)
{
	return job->inode == status->st_ino && job->device == status->st_dev;
}

/* While the content of a folder is moved into its image, every request for it waits, with a quota or
 * without. */
static bool is_moving(struct box_quota_queue *queue, int source)
{
	struct stat status;
	if (fstat(source, &status) < 0) {
		return true;
	}
	for (size_t i = 0; i < BOX_QUOTAS_MAX; i++) {
		const struct child *child = &queue->children[i];
		if (child->process.pidfd >= 0 && is_for(child->job, &status)) {
			return true;
		}
	}
	struct box_list *waiting = &queue->fair.waiting;
	for (struct box_list *at = waiting->next; at != waiting; at = at->next) {
		if (is_for(job_of(at), &status)) {
			return true;
		}
	}
	return false;
}

/* Whether a folder has an image that is not mounted. 1, 0, or negative with err. */
static int has_hidden_content(int fd, struct box_err *err)
{
	struct box_quota_state state = {0};
	int r = box_quota_read_state(fd, &state, err);
	return r < 0 ? r : state.has_image && !state.mounted;
}

static int fail_above(int r, struct box_err *err)
{
	return box_err_set(
		err, BOX_ERR_OS, -r, "the folders above host_path: %s", box_err_strerror(-r));
}

/* Finds a folder above `source` that has an image which is not mounted: the files visible in it now are
 * not its content. If there is none, *ret_fd is not written. */
static int find_above(int source, int *ret_fd, struct box_err *err)
{
	struct box_location before = {0};
	_cleanup_(box_close_p) int fd = -1;
	int r = box_location_open_following(source, "..", &fd);
	if (r < 0) {
		return fail_above(r, err);
	}
	for (int depth = 0; depth < BOX_PATH_MAX; depth++) {
		struct box_location location = {0};
		int up = -1;
		r = box_location_of(fd, &location);
		if (r < 0) {
			return fail_above(r, err);
		}
		if (location.inode == before.inode && location.mount == before.mount) {
			return 0; /* the root */
		}
		r = has_hidden_content(fd, err);
		if (r < 0) {
			return r;
		}
		if (r > 0) {
			*ret_fd = TAKE_FD(fd);
			return 0;
		}
		before = location;
		r = box_location_open_following(fd, "..", &up);
		if (r < 0) {
			return fail_above(r, err);
		}
		box_close_p(&fd);
		fd = up;
	}
	return 0;
}

/* Takes the request on success. */
static int add_job(struct box_quota_queue *queue, struct box_making *making, int source, bool above,
	unsigned rounds, struct box_err *err)
{
	struct box_quota_folder folder = {.parent = -1};
	int r = box_quota_find(source, &folder, err);
	if (r < 0) {
		return r;
	}
	struct job *job = box_alloc(sizeof(*job));
	if (!box_fair_queue_put(&queue->fair, &job->turn, making->ask.tenant)) {
		box_close_p(&folder.parent);
		free(job);
		return box_err_set(err, BOX_ERR_CAPACITY, EBUSY,
			"too many workspace quotas are being prepared");
	}
	job->making = making;
	job->folder = folder;
	job->above = above;
	job->rounds = rounds;
	queue->begin_due = true;
	struct stat status;
	if (fstat(source, &status) == 0) {
		job->device = status.st_dev;
		job->inode = status.st_ino;
	}
	return 0;
}

static int add_job_above(struct box_quota_queue *queue, struct box_making *making, int above,
	unsigned rounds, struct box_err *err)
{
	if (rounds >= ROUNDS_MAX) {
		return box_err_set(err, BOX_ERR_BOX, ELOOP,
			"a folder above host_path has an image that is not mounted");
	}
	return add_job(queue, making, above, true, rounds + 1, err);
}

static int decide(struct box_quota_queue *queue, const struct box_plan_request *ask, int source,
	const struct box_quota_state *state, enum box_quota_verdict *ret_verdict,
	struct box_err *err)
{
	const struct box_host_state *host_state = queue->host_state;
	uint64_t quota_bytes = ask->host_mode == BOX_PLAN_MOUNT_RW ? ask->quota_bytes : 0;
	enum box_quota_verdict verdict = BOX_QUOTA_READY;
	int r = box_quota_decide(&host_state->quota, state, quota_bytes,
		host_state->policy.degraded != 0, &verdict, err);
	if (r < 0) {
		return r;
	}
	if (verdict != BOX_QUOTA_WAIVED && is_moving(queue, source)) {
		verdict = BOX_QUOTA_NEEDS_WORK;
	}
	*ret_verdict = verdict;
	return 0;
}

/* 0: the request can continue; 1: it was taken and waits for a child. */
static int prepare(struct box_quota_queue *queue, struct box_making *making, unsigned rounds,
	struct box_err *err)
{
	const struct box_host_state *host_state = queue->host_state;
	struct box_plan_request *ask = &making->ask;
	struct box_quota_state state = {0};
	enum box_quota_verdict verdict = BOX_QUOTA_READY;
	_cleanup_(box_close_p) int source = -1;
	_cleanup_(box_close_p) int above = -1;
	int r = box_make_open_folder(host_state, ask, &source, err);
	if (r < 0) {
		return r;
	}
	r = find_above(source, &above, err);
	if (r < 0) {
		return r;
	}
	if (above >= 0) {
		r = add_job_above(queue, making, above, rounds, err);
		return r < 0 ? r : 1;
	}
	r = box_quota_read_state(source, &state, err);
	if (r < 0) {
		return r;
	}
	r = decide(queue, ask, source, &state, &verdict, err);
	if (r < 0 || verdict == BOX_QUOTA_READY) {
		return r;
	}
	if (verdict == BOX_QUOTA_WAIVED) {
		BOX_LOG(BOX_LOG_WARNING, "quota.waived", box_log_str("path", ask->host_path),
			box_log_str("why", host_state->quota.missing));
		ask->quota_bytes = 0;
		return 0;
	}
	r = check_unused(queue, source, &state, err);
	if (r < 0) {
		return r;
	}
	r = add_job(queue, making, source, false, rounds, err);
	return r < 0 ? r : 1;
}

static void prepare_and_go_on(
	struct box_quota_queue *queue, struct box_making *making, unsigned rounds)
{
	const struct box_host_state *host_state = queue->host_state;
	struct box_err err;
	int r = 0;
	/* boxes.c refuses such a request anyway. */
	if (host_state->possible && making->ask.host_mode != BOX_PLAN_MOUNT_NONE &&
		box_plan_check(&making->ask, &host_state->policy, &host_state->host, &err) == 0) {
		r = prepare(queue, making, rounds, &err);
	}
	if (r <= 0) {
		queue->done(queue->arg, making, r < 0 ? &err : NULL);
	}
}

void box_quota_queue_request(struct box_quota_queue *queue, struct box_making *making)
{
	prepare_and_go_on(queue, making, 0);
}

/* --- children --- */

static void run_child(const void *task, pid_t parent, int out)
{
	box_quota_task_run(task, parent, out);
}

static int start_child(struct box_quota_queue *queue, struct child *child, struct job *job)
{
	const struct box_plan_request *ask = &job->making->ask;
	bool has_quota = !job->above && ask->host_mode == BOX_PLAN_MOUNT_RW;
	const struct box_quota_task task = {
		.support = &queue->host_state->quota,
		.folder = &job->folder,
		.quota_bytes = has_quota ? ask->quota_bytes : 0,
		.alone = queue->host_state->alone,
	};
	int r = box_subprocess_start(&child->process, queue->epoll, BOX_QUOTA_MS, run_child, &task);
	if (r < 0) {
		return r;
	}
	child->job = job;
	return 0;
}

static void take_result(struct box_quota_queue *queue, struct child *child)
{
	struct box_quota_report report;
	struct box_err err;
	struct job *job = child->job;
	bool killed = child->process.killed;
	bool complete = box_subprocess_finish(
		&child->process, queue->epoll, &report, sizeof(report));
	if (complete && report.failure.result == 0) {
		if (job->above && job->making->request != 0) {
			prepare_and_go_on(queue, TAKE_PTR(job->making), job->rounds);
			job_free(queue, job);
			return;
		}
		finish(queue, job, NULL);
		return;
	}
	if (complete) {
		(void)box_err_set(&err, (enum box_code)report.failure.code, -report.failure.result,
			"%s", report.failure.text);
	} else {
		(void)box_err_set(&err, BOX_ERR_BOX, killed ? ETIMEDOUT : ECHILD,
			"the quota of host_path cannot be enforced: %s",
			killed ? "it took too long" : "the process that was preparing it died");
	}
	finish(queue, job, &err);
}

static void begin_jobs(struct box_quota_queue *queue)
{
	queue->begin_due = false;
	for (size_t i = 0; i < BOX_QUOTAS_MAX; i++) {
		struct child *child = &queue->children[i];
		struct box_fair_queue_item *turn;
		while (child->process.pidfd < 0 && (turn = box_fair_queue_take(&queue->fair))) {
			struct job *job = BOX_CONTAINER_OF(turn, struct job, turn);
			int r = start_child(queue, child, job);
			if (r < 0) {
				struct box_err err;
				(void)box_err_set(&err, BOX_ERR_OS, -r,
					"the quota of host_path cannot be prepared: %s",
					box_err_strerror(-r));
				finish(queue, job, &err);
			}
		}
	}
}

/* --- the loop --- */

static int get_fd(const void *arg)
{
	const struct box_quota_queue *queue = arg;
	return queue->epoll;
}

static int get_timeout_ms(const void *arg)
{
	const struct box_quota_queue *queue = arg;
	uint64_t due_ms = queue->begin_due ? 0 : UINT64_MAX;
	for (size_t i = 0; i < BOX_QUOTAS_MAX; i++) {
		due_ms = BOX_MIN(queue->children[i].process.deadline_ms, due_ms);
	}
	return box_event_source_timeout_ms(due_ms);
}

static void step(void *arg, short revents)
{
	struct box_quota_queue *queue = arg;
	(void)revents;
	for (size_t i = 0; i < BOX_QUOTAS_MAX; i++) {
		struct child *child = &queue->children[i];
		if (child->process.pidfd < 0) {
			continue;
		}
		if (box_subprocess_has_ended(&child->process, 0)) {
			take_result(queue, child);
		} else {
			box_subprocess_check_deadline(&child->process);
		}
	}
	begin_jobs(queue);
}

struct box_event_source box_quota_queue_event_source(struct box_quota_queue *queue)
{
	return (struct box_event_source){
		.arg = queue, .fd = get_fd, .timeout_ms = get_timeout_ms, .step = step};
}

void box_quota_queue_drop_requests(struct box_quota_queue *queue)
{
	while (!box_list_empty(&queue->fair.waiting)) {
		job_free(queue, job_of(queue->fair.waiting.next));
	}
	for (size_t i = 0; i < BOX_QUOTAS_MAX; i++) {
		if (queue->children[i].process.pidfd >= 0) {
			queue->children[i].job->making->request = 0;
		}
	}
}

void box_quota_queue_free(struct box_quota_queue *queue)
{
	box_quota_queue_drop_requests(queue);
	for (size_t i = 0; i < BOX_QUOTAS_MAX; i++) {
		struct child *child = &queue->children[i];
		if (child->process.pidfd >= 0) {
			box_subprocess_end(&child->process, queue->epoll);
			job_free(queue, child->job);
		}
	}
	(void)close(queue->epoll);
	free(queue);
}
