/* Limits how much is read from files at once for one connection. An answer may be 16 MiB, and the connection
 * of a client that asks for a hundred of them at once would be closed for the bytes that it has not received
 * yet. So reads wait for their turn, first come, first served: the bytes under way are limited, and no read
 * begins while the connection is congested. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct box_read_queue_entry {
	struct box_list links;
	uint64_t bytes; /* of the answer, at most */
	bool begun;
	/* 0, or negative: the read has failed already, and its turn is over. Must not call
	 * box_read_queue_leave. */
	int (*begin)(struct box_read_queue_entry *turn);
};

struct box_read_queue {
	struct box_list waiting;
	uint64_t bytes; /* of the reads under way */
	bool resuming;
	bool (*is_congested)(const void *connection); /* may be NULL */
	const void *connection;
};

void box_read_queue_init(struct box_read_queue *reads, bool (*is_congested)(const void *connection),
	const void *connection);
/* Begins the read when it is its turn: now, or later. */
void box_read_queue_enter(struct box_read_queue *reads, struct box_read_queue_entry *turn);
/* The read is done or cancelled. Call box_read_queue_resume when its answer was sent. */
void box_read_queue_leave(struct box_read_queue *reads, struct box_read_queue_entry *turn);
/* Begins the reads that may begin now. */
void box_read_queue_resume(struct box_read_queue *reads);
