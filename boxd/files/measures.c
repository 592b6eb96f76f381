/* The queue of measurements and their child processes. A job is answered once: by its child, at its
 * deadline, or because it could not be started. A child that does not die when it is killed keeps its
 * slot until it does. */
#include "boxd/files/measures.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fair_queue.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/macros.h"
#include "boxd/box/boxes.h"
#include "boxd/files/measures_child.h"
#include "boxd/subprocess.h"

/* Waits for a child, or has one: then it occupies a slot until the child is gone. */
struct job {
	struct box_fair_queue_item turn;
	uint32_t id;
	uint64_t deadline_ms;
	uint64_t box; /* 0: measures a folder */
	char below[BOX_BOXD_BELOW_MAX];
	char path[]; /* of the folder */
};

struct child {
	struct box_subprocess helper; /* none: the slot is free */
	struct job *job;
	bool wanted; /* not answered yet */
};

struct box_measures {
	struct box_boxes *boxes;
	struct box_mount_roots *mount_roots;
	box_measures_done *done;
	void *arg;
	int epoll;
	struct child children[BOX_MEASURES_MAX];
	struct box_fair_queue queue;
};

struct box_measures *box_measures_new(struct box_boxes *boxes, struct box_mount_roots *mount_roots,
	box_measures_done *done, void *arg)
{
	struct box_measures *measures = box_alloc(sizeof(*measures));
	measures->boxes = boxes;
	measures->mount_roots = mount_roots;
	measures->done = done;
	measures->arg = arg;
	measures->epoll = epoll_create1(EPOLL_CLOEXEC);
	box_fair_queue_init(&measures->queue, BOX_MEASURES_MAX, BOX_MEASURES_WAITING_MAX);
	for (size_t i = 0; i < BOX_MEASURES_MAX; i++) {
		measures->children[i].helper = BOX_SUBPROCESS_NONE;
	}
	return measures;
}

static struct job *job_of(struct box_fair_queue_item *turn)
{
	return BOX_CONTAINER_OF(turn, struct job, turn);
}

static void job_free(struct box_measures *measures, struct job *job)
{
	box_fair_queue_leave(&measures->queue, &job->turn);
	free(job);
}

static void answer_failed(struct box_measures *measures, uint32_t id, int result)
{
	struct box_boxd_measured answer = {.kind = BOX_BOXD_MEASURED, .id = id, .result = result};
	measures->done(measures->arg, &answer);
}

/* --- children --- */

struct work {
	const struct box_measures_task *task;
	struct box_mount_roots *mount_roots;
};

static void run_child(const void *arg, pid_t parent, int out)
{
	const struct work *work = arg;
	box_measures_run_task(work->task, work->mount_roots, parent, out);
}

static int start_child(
	struct box_measures *measures, struct child *child, const struct box_measures_task *task)
{
	const struct work work = {task, measures->mount_roots};
	int r = box_subprocess_start(
		&child->helper, measures->epoll, BOX_MEASURE_MS, run_child, &work);
	if (r < 0) {
		return r;
	}
	child->wanted = true;
	return 0;
}

static void take_result(struct box_measures *measures, struct child *child)
{
	struct box_boxd_measured answer;
	bool wanted = child->wanted;
	uint32_t id = child->job->id;
	bool answered = box_subprocess_finish(
		&child->helper, measures->epoll, &answer, sizeof(answer));
	job_free(measures, TAKE_PTR(child->job));
	if (!wanted) {
		return;
	}
	if (!answered) {
		BOX_LOG(BOX_LOG_WARNING, "measure.died");
		answer_failed(measures, id, -ECHILD);
		return;
	}
	answer.kind = BOX_BOXD_MEASURED;
	answer.id = id;
	measures->done(measures->arg, &answer);
}

/* A process that waits for an unresponsive file system may live on; its slot stays occupied. */
static void give_up(struct box_measures *measures, struct child *child, int result)
{
	bool wanted = child->wanted;
	child->wanted = false;
	box_subprocess_kill(&child->helper);
	if (wanted && result < 0) {
		answer_failed(measures, child->job->id, result);
	}
}

/* --- jobs --- */

static void add_job(struct box_measures *measures, struct job *job, const char *tenant)
{
	job->deadline_ms = box_clock_ms() + BOX_MEASURE_MS;
	if (!box_fair_queue_put(&measures->queue, &job->turn, tenant)) {
		answer_failed(measures, job->id, -EBUSY);
		free(job);
	}
}

void box_measures_folder(struct box_measures *measures, uint32_t id, const char *tenant,
	const char *path, const char *below)
{
	size_t len = strlen(path);
	struct job *job = box_alloc(sizeof(*job) + len + 1);
	job->id = id;
	memcpy(job->path, path, len + 1);
	memcpy(job->below, below, strnlen(below, sizeof(job->below) - 1));
	add_job(measures, job, tenant);
}

void box_measures_box(struct box_measures *measures, uint32_t id, uint64_t box)
{
	struct job *job = box_alloc(sizeof(*job) + 1);
	const char *tenant = box_boxes_tenant(measures->boxes, box);
	job->id = id;
	job->box = box;
	/* A child that has ended is handled when its event comes. */
	add_job(measures, job, tenant ? tenant : "");
}

/* 0, or negative when nothing was started. */
static int begin_job(struct box_measures *measures, struct child *child, const struct job *job)
{
	_cleanup_(box_close_p) int root = -1;
	struct box_measures_task task = {.root = -1, .path = job->path, .below = job->below};
	int r = 0;
	if (job->box != 0) {
		r = box_boxes_root(
			measures->boxes, job->box, &root, &task.workspace, &task.own_workspace);
		task.root = root;
	}
	return r < 0 ? r : start_child(measures, child, &task);
}

static struct job *oldest_job(const struct box_measures *measures)
{
	struct box_list *first = measures->queue.waiting.next;
	return first == &measures->queue.waiting
		? NULL
		: job_of(BOX_CONTAINER_OF(first, struct box_fair_queue_item, links));
}

static void drop_late(struct box_measures *measures)
{
	uint64_t now_ms = box_clock_ms();
	for (size_t i = 0; i < BOX_MEASURES_MAX; i++) {
		struct child *child = &measures->children[i];
		if (child->wanted && now_ms >= child->helper.deadline_ms) {
			BOX_LOG(BOX_LOG_WARNING, "measure.late");
			give_up(measures, child, -ETIMEDOUT);
		}
	}
	/* Oldest first: the first one whose time is not over ends the search. */
	for (struct job *job; (job = oldest_job(measures)) && job->deadline_ms <= now_ms;) {
		uint32_t id = job->id;
		job_free(measures, job);
		answer_failed(measures, id, -ETIMEDOUT);
	}
}

static void step(void *arg, short revents)
{
	struct box_measures *measures = arg;
	(void)revents;
	for (size_t i = 0; i < BOX_MEASURES_MAX; i++) {
		struct child *child = &measures->children[i];
		if (child->helper.pidfd >= 0 && box_subprocess_has_ended(&child->helper, 0)) {
			take_result(measures, child);
		}
	}
	drop_late(measures);
	for (size_t i = 0; i < BOX_MEASURES_MAX; i++) {
		struct child *child = &measures->children[i];
		struct box_fair_queue_item *turn;
		while (child->helper.pidfd < 0 && (turn = box_fair_queue_take(&measures->queue))) {
			struct job *job = job_of(turn);
			int r = begin_job(measures, child, job);
			if (r == 0) {
				child->job = job;
				continue;
			}
			uint32_t id = job->id;
			job_free(measures, job);
			answer_failed(measures, id, r);
		}
	}
}

static int get_fd(const void *arg)
{
	const struct box_measures *measures = arg;
	return measures->epoll;
}

static int get_timeout_ms(const void *arg)
{
	const struct box_measures *measures = arg;
	uint64_t next_ms = UINT64_MAX;
	for (size_t i = 0; i < BOX_MEASURES_MAX; i++) {
		next_ms = BOX_MIN(measures->children[i].helper.deadline_ms, next_ms);
	}
	/* Waiting jobs are newer than running ones, unless those were abandoned. */
	const struct job *job = oldest_job(measures);
	if (job) {
		next_ms = BOX_MIN(job->deadline_ms, next_ms);
	}
	return box_event_source_timeout_ms(next_ms);
}

struct box_event_source box_measures_event_source(struct box_measures *measures)
{
	return (struct box_event_source){
		.arg = measures, .fd = get_fd, .timeout_ms = get_timeout_ms, .step = step};
}

void box_measures_drop_requests(struct box_measures *measures)
{
	for (struct job *job; (job = oldest_job(measures));) {
		job_free(measures, job);
	}
	for (size_t i = 0; i < BOX_MEASURES_MAX; i++) {
		if (measures->children[i].helper.pidfd >= 0) {
			give_up(measures, &measures->children[i], 0);
		}
	}
}

void box_measures_free(struct box_measures *measures)
{
	box_measures_drop_requests(measures);
	for (size_t i = 0; i < BOX_MEASURES_MAX; i++) {
		struct child *child = &measures->children[i];
		if (child->helper.pidfd >= 0) {
			box_subprocess_end(&child->helper, measures->epoll);
			job_free(measures, TAKE_PTR(child->job));
		}
	}
	(void)close(measures->epoll);
	free(measures);
}
