/* A run: what box-init does for one RUN packet, a command (local_exec.c) or work on files (local_file.c).
 *
 * Its mounts are opened by boxd one after the other, then the RUN is sent; output is gathered up to a limit, or
 * passed on as far as there is credit; it ends with EXIT, or when the box does. All that box-init says may be a
 * lie: a packet is well-formed, and nothing else is known about it.
 */
#pragma once

#include <uv.h>

#include "base/buf.h"
#include "base/list.h"
#include "protocol/init.h"
#include "runtime/backend/backend.h"
#include "runtime/backend/local_box.h"

struct box_local_run;
struct box_local_stdio_pipes;

/* What commands and work on files do differently. */
struct box_local_run_ops {
	const char *what; /* "the command", for errors */
	/* Its mounts are open and sent: sends the RUN. */
	void (*send)(struct box_local_run *run);
	/* It was cancelled: nothing that the caller has lent may be used any more. */
	void (*forget)(struct box_local_run *run);
	/* box-init should have ended it by now. */
	void (*late)(struct box_local_run *run);
	/* Why it could not be started, when only this kind knows that: true with err. May be NULL. */
	bool (*explain)(const struct box_local_run *run, const struct box_init_exit *end,
		int errnum, struct box_err *err);
};

/* Folders of the host, which boxd opens for this run. */
struct box_local_run_mounts {
	const struct box_mount *wanted; /* the caller's, until done; NULL when it was cancelled */
	size_t count;
	size_t opened; /* so many fds */
	int *fds;
};

struct box_local_run_output {
	const struct box_backend_stream_events *live; /* NULL: output is gathered */
	bool started;                                 /* box-init says so */
	bool told_started;                            /* and the caller knows */
	uint64_t credit;                              /* live: how much output may still come */
	struct box_buf out;                           /* gathered: each up to its limit */
	struct box_buf err;
	uint64_t out_discarded;
	uint64_t err_discarded;
};

/* Its stdin (local_stdio.c). */
struct box_local_run_input {
	struct box_list waiting;
	uint64_t sent;  /* to box-init */
	uint64_t taken; /* by the command */
	bool ended;
};

struct box_local_run {
	struct box_backend_op op;
	const struct box_local_run_ops *ops;
	struct box_list links;
	struct box_backend_box *box;
	uint32_t id;
	struct box_arena *arena;
	bool sent;
	bool cancelled; /* its EXIT is waited for, and nobody is told */
	bool refused;   /* the timer tells the caller, with: */
	struct box_err refusal;
	bool late;   /* its deadline has passed */
	bool exited; /* its EXIT is here: */
	struct box_init_exit end;
	uv_timer_t timer;   /* its deadline; and what must not be told from inside a call */
	uint64_t oom_kills; /* of the box, when it began */
	struct box_local_run_mounts mounts;
	struct box_local_run_output output;
	struct box_local_run_input input;
	struct box_local_stdio_pipes *pipes; /* NULL: its bytes come and go by packets */
	box_backend_exec_done *done;
	void *arg;
};

static inline struct box_local_run *box_local_run_of(struct box_backend_op *op)
{
	return (struct box_local_run *)(void *)op;
}

/* --- beginning --- */

/* A run that is listed and has an id, and is not sent. `size` is that of the struct that begins with it. */
void *box_local_run_new(struct box_backend_box *box, size_t size,
	const struct box_local_run_ops *ops, int64_t max_output_bytes, box_backend_exec_done *done,
	void *arg);
/* Whether the box can take one more: 0, or negative with run->refusal. */
int box_local_run_check_capacity(struct box_local_run *run);
/* Whether a run or a process of a box can have these mounts: 0, or negative with err. */
int box_local_run_check_mounts(const struct box_mount *mounts, size_t count, struct box_err *err);
/* The caller will be told run->refusal, later. */
void box_local_run_refuse(struct box_local_run *run);
/* Has boxd open its mounts, one after the other, then sends it. */
void box_local_run_begin(struct box_local_run *run, const struct box_mount *mounts, size_t count);
/* box-init must have ended it by then; it is late after some seconds more. */
void box_local_run_set_deadline(struct box_local_run *run, uint64_t timeout_ms);
/* From now on box-init has these seconds again. */
void box_local_run_reset_deadline(struct box_local_run *run);

/* --- while it runs --- */

void box_local_run_credit(struct box_backend_op *op, uint64_t bytes);
void box_local_run_signal(struct box_backend_op *op, int number);
void box_local_run_cancel(struct box_backend_op *op);
/* Output of it, by a packet or a pipe. */
void box_local_run_take_output(
	struct box_local_run *run, bool is_stderr, const char *bytes, size_t size);
/* A packet about a run; well-formed. */
void box_local_run_take_packet(struct box_backend_box *box, const struct box_init_header *header,
	const char *bytes, size_t size);

/* --- the end --- */

/* It has exited: tells the caller, as soon as what is left in its pipes was read. */
void box_local_run_conclude(struct box_local_run *run);
/* Tells the caller, unless it was cancelled, and frees the run. */
void box_local_run_finish(struct box_local_run *run, const struct box_backend_exec_outcome *outcome,
	const struct box_err *err);
/* The box is gone: ends its runs. */
void box_local_run_fail_all(struct box_backend_box *box, const struct box_err *err);
/* What an errno that came from a box means. */
const char *box_local_run_error_text(int errnum);
