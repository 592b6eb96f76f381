/* One managed process, for the files that share their table: kept.c and kept_stream.c. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "runtime/guest/input.h"
#include "runtime/guest/loop.h"
#include "runtime/guest/peeks.h"
#include "runtime/guest/ring.h"
#include "runtime/guest/tail.h"
#include "runtime/guest/wire_kept.h"

struct box_kept {
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
	struct box_guest_state end; /* how, when it has ended */
	uint64_t begin_kills;       /* for lack of memory, when it began or was asked to end */
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

/* --- kept.c --- */

/* box_kept_tick is due then. */
void box_kept_due_at(uint64_t ns);
struct box_watch box_kept_watch(const struct box_kept *kept, enum box_watch_kind kind);

/* --- kept_stream.c --- */

/* Its own ends are watched; `theirs` are the process's. What was made is closed by the caller. */
int box_kept_open_pipes(struct box_kept *kept, int theirs[3]);
void box_kept_close_fd(int *fd);
void box_kept_pump_output(struct box_kept *kept);
void box_kept_pump_stderr(struct box_kept *kept);

/* What is due, if it can go out. The state of one that was only asked for frees it. */
void box_kept_tell_state(struct box_kept *kept);
void box_kept_tell_fed(struct box_kept *kept);
void box_kept_tell_fed_soon(struct box_kept *kept);
void box_kept_send_output(struct box_kept *kept);
void box_kept_tell_peeks(struct box_kept *kept);
