/* Owns the queue of jobs for the mounter and what is known about the one that it works on. Jobs are
 * served in the order in which they were queued. A job that is with the mounter cannot be taken back:
 * if its owner goes away meanwhile, the process is killed when it has started. Called by run.c. */
#include "init/run/mounter_queue.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>

#include "init/event_loop.h"

/* Timeout of one job: less than the time that box-rpc waits for us to end a command. */
#define JOB_TIMEOUT_NS 3000000000ULL

static struct box_mounter_ticket *first; /* queued, oldest first */
static struct box_mounter_ticket
	*current;       /* with the mounter; NULL: nobody waits for it any more */
static bool busy;       /* the mounter has a job, wanted or not */
static bool job_reaped; /* the process of that job was reaped already */
static bool mounter_dead;
static uint64_t deadline_ns = BOX_NEVER; /* of that job */

/* Gives the mounter its next job if it is idle. */
static void serve(void)
{
	while (!busy && first) {
		struct box_mounter_ticket *ticket = first;
		first = ticket->next;
		ticket->queued = false;
		int r = mounter_dead ? -ESRCH : box_mounter_send(&ticket->job);
		if (r < 0) {
			const struct box_launch_failure failure = {
				.step = BOX_INIT_STEP_MOUNTER, .errnum = -r};
			mounter_dead = true;
			ticket->events->failed(ticket, &failure);
			continue;
		}
		busy = true;
		job_reaped = false;
		current = ticket;
		deadline_ns = box_event_loop_now_ns() + JOB_TIMEOUT_NS;
		ticket->events->sent(ticket);
	}
}

/* The current job has a process, or never will. */
static void finish_current(void)
{
	struct box_mounter_ticket *ticket = current;
	struct box_launch_failure failure = box_mounter_failure();
	pid_t pid = box_mounter_child();
	if (!ticket) {
		if (!job_reaped && pid > 0) {
			(void)kill(-pid, SIGKILL);
		}
		return;
	}
	current = NULL;
	if (failure.step == BOX_INIT_STEP_NONE && pid > 0) {
		ticket->events->started(ticket, pid);
		return;
	}
	if (failure.step == BOX_INIT_STEP_NONE) {
		failure = (struct box_launch_failure){
			.step = BOX_INIT_STEP_MOUNTER, .errnum = ESRCH};
	}
	ticket->events->failed(ticket, &failure);
}

/* The mounter is idle again, or dead. */
static void job_done(void)
{
	if (busy) {
		finish_current();
		busy = false;
		deadline_ns = BOX_NEVER;
	}
	serve();
}

void box_mounter_queue_add(struct box_mounter_ticket *ticket)
{
	struct box_mounter_ticket **end = &first;
	while (*end) {
		end = &(*end)->next;
	}
	*end = ticket;
	ticket->next = NULL;
	ticket->queued = true;
	serve();
}

void box_mounter_queue_remove(struct box_mounter_ticket *ticket)
{
	if (current == ticket) {
		current = NULL;
	}
	if (!ticket->queued) {
		return;
	}
	struct box_mounter_ticket **at = &first;
	while (*at != ticket) {
		at = &(*at)->next;
	}
	*at = ticket->next;
	ticket->queued = false;
}

void box_mounter_queue_answered(void)
{
	int r = box_mounter_receive();
	if (r == -EAGAIN) {
		return;
	}
	mounter_dead = mounter_dead || r < 0;
	job_done();
}

bool box_mounter_queue_reaped(pid_t pid)
{
	if (pid == box_mounter_pid()) {
		mounter_dead = true;
		job_done();
		return true;
	}
	if (busy && pid == box_mounter_child()) {
		finish_current();
		job_reaped = true;
	}
	return false;
}

uint64_t box_mounter_queue_deadline(void)
{
	return deadline_ns;
}

void box_mounter_queue_tick(uint64_t now_ns)
{
	if (!busy || mounter_dead || now_ns < deadline_ns) {
		return;
	}
	uint64_t expired_ns = deadline_ns;
	/* While our own packets cannot be sent, nobody looks whether the mounter has answered. */
	box_mounter_queue_answered();
	if (busy && deadline_ns == expired_ns) {
		/* When it is reaped, its job and those that are queued fail. */
		(void)kill(box_mounter_pid(), SIGKILL);
		deadline_ns = BOX_NEVER;
	}
}
