/* One command, for the files that share the table of commands: run.c, mounter_queue.c and
 * run_requests.c. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "init/run/gather.h"
#include "init/run/input.h"
#include "init/run/stream.h"
#include "protocol/init.h"

enum box_run_state {
	BOX_RUN_FREE,
	BOX_RUN_GATHERING, /* not all of it is here */
	BOX_RUN_QUEUED,    /* for the mounter */
	BOX_RUN_MOUNTING,  /* at the mounter */
	BOX_RUN_RUNNING,
	BOX_RUN_ENDED, /* its EXIT is due */
};

struct box_run {
	enum box_run_state state;
	uint32_t generation;
	bool asked; /* its RUN was here */
	bool timed_out;
	bool kill_wanted; /* MOUNTING: as soon as it runs */
	bool start_due;   /* STARTED must be sent */
	pid_t pid;
	struct box_init_run ask;
	struct box_gather gather;
	struct box_stream out;
	struct box_stream err;
	struct box_input input;
	int child_fds[3];
	uint64_t credit;
	uint64_t begin_ns;
	uint64_t begin_kills; /* for lack of memory, as far as we see them */
	uint64_t deadline_ns;
	uint64_t order; /* of those that are QUEUED */
	struct box_init_exit end;
	/* Not 0: it is no command but a managed process on its way through the mounter, with this
	 * number. Nobody has asked for an EXIT, and its streams are not here. */
	uint32_t kept;
	int door; /* of its group, or -1 */
};

/* --- run.c --- */

/* All of them in turn: NULL for the first, NULL after the last. One may be freed meanwhile. */
struct box_run *box_run_next(const struct box_run *after);
uint32_t box_run_id(const struct box_run *run);
struct box_run *box_run_find(uint32_t id);
/* NULL when there is no place. */
struct box_run *box_run_new(uint32_t id);
void box_run_free(struct box_run *run);

/* Its body is here, and writable with one more byte behind it. */
void box_run_start(struct box_run *run, char *body);
void box_run_start_gathered(struct box_run *run);
void box_run_set_running(struct box_run *run, pid_t pid);
/* Ends its process group; it is RUNNING. */
void box_run_kill(const struct box_run *run);
/* It never started. May free it, as may finish. */
void box_run_fail(struct box_run *run, uint32_t step, int errnum, uint32_t mount);
/* Sends what is left of one that has ENDED, as far as that can be done now. */
void box_run_finish(struct box_run *run);
void box_run_tell_taken(struct box_run *run);
/* box_run_tick is due then. */
void box_run_wake_at(uint64_t deadline_ns);

/* --- mounter_queue.c --- */

/* QUEUED from now on; may be free already. */
void box_mounter_queue_add(struct box_run *run);
/* The managed process `kept`, whose mounts have come under `id`, goes to the mounter: `body` is as of
 * the RUN. The fds are the run's from now on, whatever comes of it; box_mproc_started is told. */
void box_mounter_queue_add_mproc(uint32_t id, uint32_t kept, const struct box_init_run *ask,
	const char *body, const int fds[3], int door);
/* Mounts that came under `id` for a managed process which was not started go. */
void box_mounter_queue_drop_mproc(uint32_t id);
/* It is being freed. */
void box_mounter_queue_forget(const struct box_run *run);
void box_mounter_queue_answered(void);
/* A child was reaped. True: it was the mounter itself. */
bool box_mounter_queue_reaped(pid_t pid);
void box_mounter_queue_tick(uint64_t now_ns);

/* --- run_requests.c --- */

/* RESET_DONE, if it is due. */
void box_run_resume_reset(void);
