/* One managed process, for the files that share their table: mproc.c and mproc_stream.c. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "init/event_loop.h"
#include "init/process/peeks.h"
#include "init/process/ring.h"
#include "init/process/tail.h"
#include "init/run/input.h"
#include "protocol/init_process.h"

struct box_mproc {
	uint32_t id; /* 0: a free place */
	uint32_t generation;
	pid_t pid;  /* 0: it has ended, or never was */
	int out_fd; /* -1: at its end */
	int err_fd;
	int events;    /* memory events of its own group, or -1 */
	bool unknown;  /* only asked for: free again when that is told */
	bool mounting; /* at the mounter, without a pid yet */
	bool halted;   /* meanwhile, it was asked to end */
	bool ended;
	bool state_due;
	bool out_watched;
	struct box_init_process_state end; /* how, when it has ended */
	uint64_t begin_kills; /* for lack of memory, when it began or was asked to end */
	struct box_ring out;
	struct box_tail err;
	uint64_t out_most; /* of one that has ended: no more is taken */
	uint64_t sent;     /* of its output */
	uint64_t until;    /* may be sent */
	size_t hold;
	bool has_log;      /* it never blocks: the oldest goes */
	bool blocked;      /* as much as may be is held */
	bool told_blocked; /* and that is known */
	struct box_input input;
	uint64_t in_have;
	uint64_t kill_ns; /* BOX_NEVER: not to be killed */
	uint64_t tell_ns; /* when what it wrote to stderr is told; BOX_NEVER: it is known */
	uint64_t told_ns;
	uint64_t fed_ns;    /* when it is told what it has read; BOX_NEVER: that is known */
	uint64_t shrink_ns; /* when memory of its output goes; BOX_NEVER: it is needed */
	struct box_peeks peeks;
};

/* --- mproc.c --- */

/* box_mproc_tick is due then. */
void box_mproc_due_at(uint64_t ns);
struct box_watch box_mproc_watch(const struct box_mproc *kept, enum box_watch_kind kind);

/* --- mproc_stream.c --- */

/* Its own ends are watched; `theirs` are the process's. What was made is closed by the caller. */
int box_mproc_open_pipes(struct box_mproc *kept, int theirs[3]);
void box_mproc_close_fd(int *fd);
void box_mproc_pump_output(struct box_mproc *kept);
void box_mproc_pump_stderr(struct box_mproc *kept);

/* What is due, if it can go out. The state of one that was only asked for frees it. */
void box_mproc_report_state(struct box_mproc *kept);
void box_mproc_report_input(struct box_mproc *kept);
void box_mproc_report_input_soon(struct box_mproc *kept);
void box_mproc_send_output(struct box_mproc *kept);
void box_mproc_answer_peeks(struct box_mproc *kept);
