/* Owns the way of commands and managed processes with mounts through the mounter: it has one at a
 * time, in the order of their coming. One that it has is ended only by what comes of it; who dies or
 * is not wanted meanwhile is remembered until then. */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>

#include "base/cleanup.h"
#include "init/boot/mounter.h"
#include "init/event_loop.h"
#include "init/process/mproc.h"
#include "init/run/run_internal.h"

/* With the mounter, for one command: less than box-rpc has with us when it wants one ended. */
#define PATIENCE_NS 3000000000ULL

static uint64_t last_order;
static struct box_run *mounting; /* at the mounter, if it is wanted yet */
static bool mounter_busy;
static uint64_t busy_since_ns;
static bool job_reaped; /* the process of its last job is gone already */
static bool mounter_gone;

static struct box_run *first_queued(void)
{
	struct box_run *first = NULL;
	for (struct box_run *run = box_run_next(NULL); run; run = box_run_next(run)) {
		if (run->state == BOX_RUN_QUEUED && (!first || run->order < first->order)) {
			first = run;
		}
	}
	return first;
}

static int send_job(const struct box_run *run)
{
	struct box_mounter_job job = {
		.run = run->ask,
		.targets_size = run->gather.targets_size,
		.body_fd = run->gather.fd,
		.stdin_fd = run->child_fds[0],
		.stdout_fd = run->child_fds[1],
		.stderr_fd = run->child_fds[2],
		.door_fd = run->door,
		.search_path = run->kept != 0,
		.mount_fds = run->gather.mount_fds,
	};
	return box_mounter_send(&job);
}

/* Gives the mounter its next one, if it has time. */
static void serve_mounter(void)
{
	while (!mounter_busy) {
		struct box_run *run = first_queued();
		if (!run) {
			return;
		}
		int r = mounter_gone ? -ESRCH : send_job(run);
		if (r < 0) {
			mounter_gone = true;
			box_run_fail(run, BOX_INIT_STEP_MOUNTER, -r, 0);
			continue;
		}
		mounter_busy = true;
		job_reaped = false;
		mounting = run;
		run->state = BOX_RUN_MOUNTING;
		run->begin_ns = box_event_loop_now_ns();
		busy_since_ns = run->begin_ns;
		box_run_wake_at(busy_since_ns + PATIENCE_NS);
	}
}

/* The one at the mounter has a process, or never will. */
static void mounted(void)
{
	struct box_run *run = mounting;
	struct box_launch_failure failure = box_mounter_failure();
	if (!run) {
		/* Nobody wants it any more. */
		if (!job_reaped && box_mounter_child() > 0) {
			(void)kill(-box_mounter_child(), SIGKILL);
		}
		return;
	}
	mounting = NULL;
	box_gather_free(&run->gather);
	if (failure.step != 0) {
		box_run_fail(run, failure.step, failure.errnum, failure.mount);
	} else if (box_mounter_child() > 0) {
		box_run_set_running(run, box_mounter_child());
	} else {
		box_run_fail(run, BOX_INIT_STEP_MOUNTER, ESRCH, 0);
	}
}

/* The mounter has time again, or is gone. What stands of a job before this one counts no more. */
static void job_over(void)
{
	if (mounter_busy) {
		mounted();
		mounter_busy = false;
	}
	serve_mounter();
}

void box_mounter_queue_answered(void)
{
	int r = box_mounter_receive();
	if (r == -EAGAIN) {
		return;
	}
	mounter_gone = mounter_gone || r < 0;
	job_over();
}

void box_mounter_queue_add(struct box_run *run)
{
	run->state = BOX_RUN_QUEUED;
	run->order = ++last_order;
	serve_mounter();
}

void box_mounter_queue_forget(const struct box_run *run)
{
	if (mounting == run) {
		mounting = NULL;
	}
}

bool box_mounter_queue_reaped(pid_t pid)
{
	if (pid == box_mounter_pid()) {
		mounter_gone = true;
		job_over();
		return true;
	}
	if (mounter_busy && pid == box_mounter_child()) {
		mounted();
		job_reaped = true;
	}
	return false;
}

void box_mounter_queue_tick(uint64_t now_ns)
{
	if (!mounter_busy || mounter_gone) {
		return;
	}
	uint64_t since_ns = busy_since_ns;
	if (now_ns - since_ns < PATIENCE_NS) {
		box_run_wake_at(since_ns + PATIENCE_NS);
		return;
	}
	/* While an answer of ours waits to go out nobody looks for one of its. */
	box_mounter_queue_answered();
	if (mounter_busy && busy_since_ns == since_ns) {
		/* Its end is reaped, and what waits for it fails. */
		(void)kill(box_mounter_pid(), SIGKILL);
	}
}

void box_mounter_queue_drop_mproc(uint32_t id)
{
	struct box_run *run = box_run_find(id);
	if (run && run->kept == 0) {
		box_run_free(run);
	}
}

void box_mounter_queue_add_mproc(uint32_t id, uint32_t kept, const struct box_init_run *ask,
	const char *body, const int fds[3], int door)
{
	struct box_run *run = box_run_find(id);
	uint32_t size = ask->env_size + ask->workdir_size + ask->command_size;
	bool fits = run && run->state == BOX_RUN_GATHERING && !run->asked &&
		run->gather.mount_count == ask->mount_count;
	/* Without them it is one that only carries the fds to their end. */
	run = run ? run : box_run_new(id);
	if (!run) {
		int own[] = {fds[0], fds[1], fds[2], door};
		for (size_t i = 0; i < 4; i++) {
			box_close_p(&own[i]);
		}
		box_mproc_started(kept, 0, BOX_INIT_STEP_REQUEST, EAGAIN);
		return;
	}
	run->ask = *ask;
	run->asked = true;
	run->kept = kept;
	run->door = door;
	memcpy(run->child_fds, fds, sizeof(run->child_fds));
	int r = fits ? box_gather_begin(&run->gather, size) : -EINVAL;
	r = r < 0 ? r : box_gather_add(&run->gather, body, size);
	if (r < 0) {
		box_run_fail(run, BOX_INIT_STEP_REQUEST, -r, 0);
		return;
	}
	box_mounter_queue_add(run);
}
