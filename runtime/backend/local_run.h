/* A run: what box-init does for one RUN packet, a command (local_exec.c) or a file operation (local_file.c).
 *
 * boxd opens its mounts one after the other, then the RUN is sent; output is collected up to a limit, or passed on
 * as far as there is credit; it ends with EXIT, or when the box does. box-init is not trusted: packets are known to be
 * well-formed, but nothing in them is known to be true.
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

/* The parts that differ between commands and file operations. */
struct box_local_run_ops {
	const char *what; /* "the command", for errors */
	/* Its mounts are open and sent: sends the RUN. */
	void (*send)(struct box_local_run *run);
	/* It was cancelled: memory of the caller must not be used any more. */
	void (*forget)(struct box_local_run *run);
	/* box-init should have ended it by now. */
	void (*late)(struct box_local_run *run);
	/* Why it could not be started, if only this kind knows: true with err. May be NULL. */
	bool (*explain)(const struct box_local_run *run, const struct box_init_exit *end,
		int errnum, struct box_err *err);
};

/* Folders of the host, which boxd opens for this run. */
struct box_local_run_mounts {
	const struct box_mount *wanted; /* the caller's, until done; NULL if it was cancelled */
	size_t count;
	size_t opened; /* how many fds */
	int *fds;
};

struct box_local_run_output {
	const struct box_backend_stream_events *live; /* NULL: output is collected */
	bool started;                                 /* reported by box-init */
	bool has_reported;                            /* the caller knows that it started */
	uint64_t credit;                              /* live: how much output may still arrive */
	struct box_buf out;                           /* collected: each up to its limit */
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
	bool cancelled; /* its EXIT is awaited, but not reported to anybody */
	bool refused;   /* the timer reports to the caller: */
	struct box_err refusal;
	bool late;   /* its deadline has passed */
	bool exited; /* its EXIT has arrived: */
	struct box_init_exit end;
	uv_timer_t timer;   /* its deadline; and reports that must not be made from inside a call */
	uint64_t oom_kills; /* of the box, when it began */
	struct box_local_run_mounts mounts;
	struct box_local_run_output output;
	struct box_local_run_input input;
	struct box_local_stdio_pipes *pipes; /* NULL: its bytes are sent in packets */
	box_backend_exec_done *done;
	void *arg;
};

static inline struct box_local_run *box_local_run_of(struct box_backend_op *op)
{
	return (struct box_local_run *)(void *)op;
}

/* --- start --- */

/* Makes a run that is listed and has an id, and is not sent yet. `size` is that of the struct that begins with it. */
void *box_local_run_new(struct box_backend_box *box, size_t size,
	const struct box_local_run_ops *ops, int64_t max_output_bytes, box_backend_exec_done *done,
	void *arg);
/* Whether the box can take one more: 0, or negative with run->refusal. */
int box_local_run_check_capacity(struct box_local_run *run);
/* Whether a run or a process of a box can have these mounts: 0, or negative with err. */
int box_local_run_check_mounts(const struct box_mount *mounts, size_t count, struct box_err *err);
/* run->refusal will be reported to the caller later. */
void box_local_run_refuse(struct box_local_run *run);
/* Lets boxd open its mounts, one after the other, then sends it. */
void box_local_run_begin(struct box_local_run *run, const struct box_mount *mounts, size_t count);
/* The time by which box-init must have ended it; it is late some seconds after that. */
void box_local_run_set_deadline(struct box_local_run *run, uint64_t timeout_ms);
/* Starts these seconds again from now. */
void box_local_run_reset_deadline(struct box_local_run *run);

/* --- while it runs --- */

void box_local_run_credit(struct box_backend_op *op, uint64_t bytes);
void box_local_run_signal(struct box_backend_op *op, int number);
void box_local_run_cancel(struct box_backend_op *op);
/* Its output, from a packet or a pipe. */
void box_local_run_take_output(
	struct box_local_run *run, bool is_stderr, const char *bytes, size_t size);
/* Handles a well-formed packet about a run. */
void box_local_run_take_packet(struct box_backend_box *box, const struct box_init_header *header,
	const char *bytes, size_t size);

/* --- the end --- */

/* It has exited: reports to the caller, once what is left in its pipes was read. */
void box_local_run_conclude(struct box_local_run *run);
/* Reports to the caller, unless it was cancelled, and frees the run. */
void box_local_run_finish(struct box_local_run *run, const struct box_backend_exec_outcome *outcome,
	const struct box_err *err);
/* The box is gone: ends all its runs. */
void box_local_run_fail_all(struct box_backend_box *box, const struct box_err *err);
/* The text for an errno from a box. */
const char *box_local_run_error_text(int errnum);
