/* The queue and the child processes, as in quota_queue.c. A request is answered once; a child that does
 * not die when it is killed keeps its slot until it does. */
#include "boxd/image/caller_roots.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/caps.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/fair_queue.h"
#include "base/fsmount.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/macros.h"
#include "boxd/image/etc.h"
#include "boxd/image/images.h"
#include "boxd/subprocess.h"

#define NICENESS 10
#define OUT_FD 0
#define FOLDER_FD 1
#define ETC_FD 3

struct job {
	struct box_fair_queue_item turn; /* while it waits for a child or has one */
	struct box_making *making;
	int folder;
	struct box_root *root; /* NULL while it waits: a root has an fd for each of its folders */
};

struct child {
	struct box_subprocess helper; /* none: the slot is free */
	struct job *job;
};

struct box_caller_roots {
	const struct box_host_state *host;
	box_making_done *done;
	void *arg;
	int epoll;
	struct child children[BOX_CALLERS_ROOTS_MAX];
	struct box_fair_queue queue;
};

struct box_caller_roots *box_caller_roots_new(
	const struct box_host_state *host, box_making_done *done, void *arg)
{
	struct box_caller_roots *roots = box_alloc(sizeof(*roots));
	roots->host = host;
	roots->done = done;
	roots->arg = arg;
	roots->epoll = epoll_create1(EPOLL_CLOEXEC);
	box_fair_queue_init(&roots->queue, BOX_CALLERS_ROOTS_MAX, BOX_CALLERS_ROOTS_WAITING_MAX);
	for (size_t i = 0; i < BOX_CALLERS_ROOTS_MAX; i++) {
		roots->children[i].helper = BOX_SUBPROCESS_NONE;
	}
	return roots;
}

static void job_free(struct box_caller_roots *roots, struct job *job)
{
	box_fair_queue_leave(&roots->queue, &job->turn);
	box_making_free(job->making);
	box_close_p(&job->folder);
	box_images_release(job->root);
	free(job);
}

static void refuse(const struct box_plan_request *ask, int r, struct box_err *err)
{
	if (r == -ENOSPC) {
		(void)box_err_set(err, BOX_ERR_VALIDATION, ENOSPC,
			"image %s: its /etc has more than %d entries or %lu MiB: take out what "
			"programs do not need",
			ask->image, BOX_CALLERS_ETC_ENTRIES_MAX,
			BOX_CALLERS_ETC_BYTES_MAX / BOX_MIB);
	} else {
		(void)box_err_set(err, BOX_ERR_VALIDATION, -r,
			"image %s: its /etc cannot be copied: %s", ask->image,
			r == -ETIMEDOUT ? "it takes too long" : box_err_strerror(-r));
	}
}

static void finish(struct box_caller_roots *roots, struct job *job, const struct box_err *err)
{
	struct box_making *making = job->making;
	if (making->request != 0) {
		making->root = err ? NULL : TAKE_PTR(job->root);
		job->making = NULL;
		roots->done(roots->arg, making, err);
	}
	job_free(roots, job);
}

void box_caller_roots_request(struct box_caller_roots *roots, struct box_making *making)
{
	const struct box_host_state *host = roots->host;
	const struct box_plan_request *ask = &making->ask;
	struct box_err err;
	int folder = -1;
	/* boxes.c will refuse such a request anyway. */
	if (!host->possible || !memchr(ask->image, '\0', sizeof(ask->image)) ||
		!box_images_is_folder(host->images, ask->image)) {
		roots->done(roots->arg, making, NULL);
		return;
	}
	int r = box_images_open_folder(host->images, ask->image, &folder, &err);
	if (r < 0) {
		roots->done(roots->arg, making, &err);
		return;
	}
	struct job *job = box_alloc(sizeof(*job));
	job->making = making;
	job->folder = folder;
	if (box_fair_queue_put(&roots->queue, &job->turn, ask->tenant)) {
		return;
	}
	box_close_p(&job->folder);
	free(job);
	(void)box_err_set(
		&err, BOX_ERR_CAPACITY, EBUSY, "too many images are being prepared: try again");
	roots->done(roots->arg, making, &err);
}

/* --- the process --- */

struct work {
	int folder;
	int etc;
};

static int take_fd(int fd, int at)
{
	return fd == at || dup3(fd, at, O_CLOEXEC) >= 0 ? 0 : -errno;
}

static int drop_rights(const struct work *work, pid_t parent, int out)
{
	struct rlimit core = {0, 0};
	/* boxd always has 0 to 2 open, so none of these fds has such a number already. */
	int r = take_fd(out, OUT_FD);
	if (r < 0) {
		return r;
	}
	r = take_fd(work->folder, FOLDER_FD);
	if (r < 0) {
		return r;
	}
	r = take_fd(work->etc, ETC_FD);
	if (r == 0 && close_range(ETC_FD + 1, ~0U, 0) < 0) {
		r = -errno;
	}
	if (r == 0) {
		r = box_caps_keep(1ULL << CAP_DAC_READ_SEARCH);
	}
	/* After the change of capabilities, which clears it. */
	if (r == 0 &&
		(prctl(PR_SET_PDEATHSIG, (long)SIGKILL, 0L, 0L, 0L) < 0 ||
			prctl(PR_SET_NO_NEW_PRIVS, 1L, 0L, 0L, 0L) < 0 ||
			setrlimit(RLIMIT_CORE, &core) < 0)) {
		r = -errno;
	}
	(void)setpriority(PRIO_PROCESS, 0, NICENESS);
	return r == 0 && getppid() != parent ? -EOWNERDEAD : r;
}

static void run_child(const void *task, pid_t parent, int out)
{
	int answer = drop_rights(task, parent, out);
	if (answer == 0) {
		answer = box_etc_fill(FOLDER_FD, BOX_ETC_CALLER, ETC_FD);
	}
	_exit(write(OUT_FD, &answer, sizeof(answer)) == (ssize_t)sizeof(answer) ? 0 : 1);
}

static int start_child(
	struct box_caller_roots *roots, struct child *child, struct job *job, struct box_err *err)
{
	int r = box_images_take_folder(job->folder, job->making->ask.image, &job->root, err);
	if (r < 0) {
		return r;
	}
	const struct work work = {job->folder, job->root->etc};
	struct box_subprocess helper;
	r = box_subprocess_start(&helper, roots->epoll, BOX_CALLERS_ROOT_MS, run_child, &work);
	if (r < 0) {
		refuse(&job->making->ask, r, err);
		return r;
	}
	*child = (struct child){.helper = helper, .job = job};
	return 0;
}

static void take_result(struct box_caller_roots *roots, struct child *child)
{
	struct job *job = child->job;
	int answer = 0;
	bool killed = child->helper.killed;
	bool answered = box_subprocess_finish(
		&child->helper, roots->epoll, &answer, sizeof(answer));
	int r = answered ? answer : killed ? -ETIMEDOUT : -ECHILD;
	if (r == 0) {
		r = box_fsmount_make_read_only(job->root->etc);
	}
	struct box_err err;
	if (r < 0) {
		refuse(&job->making->ask, r, &err);
	}
	finish(roots, job, r < 0 ? &err : NULL);
}

/* --- the loop --- */

static int get_fd(const void *arg)
{
	const struct box_caller_roots *roots = arg;
	return roots->epoll;
}

static int get_timeout_ms(const void *arg)
{
	const struct box_caller_roots *roots = arg;
	uint64_t due_ms = UINT64_MAX;
	for (size_t i = 0; i < BOX_CALLERS_ROOTS_MAX; i++) {
		due_ms = BOX_MIN(roots->children[i].helper.deadline_ms, due_ms);
	}
	return box_event_source_timeout_ms(due_ms);
}

static void begin_jobs(struct box_caller_roots *roots)
{
	for (size_t i = 0; i < BOX_CALLERS_ROOTS_MAX; i++) {
		struct child *child = &roots->children[i];
		struct box_fair_queue_item *turn;
		while (child->helper.pidfd < 0 && (turn = box_fair_queue_take(&roots->queue))) {
			struct job *job = BOX_CONTAINER_OF(turn, struct job, turn);
			struct box_err err;
			if (start_child(roots, child, job, &err) < 0) {
				finish(roots, job, &err);
			}
		}
	}
}

static void step(void *arg, short revents)
{
	struct box_caller_roots *roots = arg;
	(void)revents;
	for (size_t i = 0; i < BOX_CALLERS_ROOTS_MAX; i++) {
		struct child *child = &roots->children[i];
		if (child->helper.pidfd < 0) {
			continue;
		}
		if (box_subprocess_has_ended(&child->helper, 0)) {
			take_result(roots, child);
		} else {
			box_subprocess_check_deadline(&child->helper);
		}
	}
	begin_jobs(roots);
}

struct box_event_source box_caller_roots_event_source(struct box_caller_roots *roots)
{
	return (struct box_event_source){
		.arg = roots, .fd = get_fd, .timeout_ms = get_timeout_ms, .step = step};
}

void box_caller_roots_drop_requests(struct box_caller_roots *roots)
{
	struct box_list *waiting = &roots->queue.waiting;
	while (!box_list_empty(waiting)) {
		struct box_fair_queue_item *turn = BOX_CONTAINER_OF(
			waiting->next, struct box_fair_queue_item, links);
		job_free(roots, BOX_CONTAINER_OF(turn, struct job, turn));
	}
	for (size_t i = 0; i < BOX_CALLERS_ROOTS_MAX; i++) {
		if (roots->children[i].helper.pidfd >= 0) {
			roots->children[i].job->making->request = 0;
		}
	}
}

void box_caller_roots_free(struct box_caller_roots *roots)
{
	box_caller_roots_drop_requests(roots);
	for (size_t i = 0; i < BOX_CALLERS_ROOTS_MAX; i++) {
		struct child *child = &roots->children[i];
		if (child->helper.pidfd >= 0) {
			box_subprocess_end(&child->helper, roots->epoll);
			job_free(roots, child->job);
		}
	}
	(void)close(roots->epoll);
	free(roots);
}
