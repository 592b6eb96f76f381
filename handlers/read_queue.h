/* How much of files is read at once for one connection. An answer may be 16 MiB, and a client that
 * asks for a hundred of them in one go would have its connection given up for what it has not read
 * yet. So reads have turns, in the order in which they came: what is under way has a bound, and
 * nothing new begins while the connection has much to send. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct box_read_queue_entry {
	struct box_list links;
	uint64_t bytes; /* at most */
	bool begun;
	/* 0, or negative: it has ended already, and so has its turn. Must not call
	 * box_read_queue_leave. */
	int (*begin)(struct box_read_queue_entry *turn);
};

struct box_read_queue {
	struct box_list waiting;
	uint64_t bytes; /* of those that have begun */
	bool going_on;
	bool (*is_clogged)(const void *connection); /* may be NULL */
	const void *connection;
};

void box_read_queue_init(struct box_read_queue *reads, bool (*is_clogged)(const void *connection),
	const void *connection);
/* Begins when it is its turn: now, or later. */
void box_read_queue_enter(struct box_read_queue *reads, struct box_read_queue_entry *turn);
/* Its turn is over, or is not wanted any more. Call box_read_queue_resume when its answer is out. */
void box_read_queue_leave(struct box_read_queue *reads, struct box_read_queue_entry *turn);
/* Begins what may begin by now. */
void box_read_queue_resume(struct box_read_queue *reads);
