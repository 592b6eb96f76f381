/* How much of files is read at once for one connection. An answer may be 16 MiB, and a client that
 * asks for a hundred of them in one go would have its connection given up for what it has not read
 * yet. So reads have turns, in the order in which they came: what is under way has a bound, and
 * nothing new begins while the connection has much to send. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct box_read_turn {
	struct box_list links;
	uint64_t bytes; /* at most */
	bool begun;
	/* 0, or negative: it has ended already, and so has its turn. Must not call
	 * box_reads_leave. */
	int (*begin)(struct box_read_turn *turn);
};

struct box_reads {
	struct box_list waiting;
	uint64_t bytes; /* of those that have begun */
	bool going_on;
	bool (*is_clogged)(const void *connection); /* may be NULL */
	const void *connection;
};

void box_reads_init(struct box_reads *reads, bool (*is_clogged)(const void *connection),
	const void *connection);
/* Begins when it is its turn: now, or later. */
void box_reads_enter(struct box_reads *reads, struct box_read_turn *turn);
/* Its turn is over, or is not wanted any more. Call box_reads_go_on when its answer is out. */
void box_reads_leave(struct box_reads *reads, struct box_read_turn *turn);
/* Begins what may begin by now. */
void box_reads_go_on(struct box_reads *reads);
