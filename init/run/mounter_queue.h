/* The queue in front of the mounter, which works on one job at a time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "init/boot/mounter.h"

struct box_mounter_ticket;

/* What happens to a job, told to its owner. After `started` or `failed` the queue has forgotten it, so
 * the owner may free it. */
struct box_mounter_events {
	void (*sent)(struct box_mounter_ticket *ticket); /* it is with the mounter now */
	void (*started)(struct box_mounter_ticket *ticket, pid_t pid);
	void (*failed)(struct box_mounter_ticket *ticket, const struct box_launch_failure *failure);
};

/* A job and its place in the queue. Embedded in its owner, who fills in `events` and `job`. */
struct box_mounter_ticket {
	const struct box_mounter_events *events;
	struct box_mounter_job job;
	struct box_mounter_ticket *next; /* the queue's */
	bool queued;                     /* the queue's */
};

/* Queues a job. If the mounter is idle, it is sent at once; it may even have failed on return. */
void box_mounter_queue_add(struct box_mounter_ticket *ticket);
/* Forgets a job, queued or not. If it is with the mounter, its process is killed as soon as it starts. */
void box_mounter_queue_remove(struct box_mounter_ticket *ticket);

/* The socket to the mounter is readable. */
void box_mounter_queue_answered(void);
/* A child was reaped. True: it was the mounter itself. */
bool box_mounter_queue_reaped(pid_t pid);

/* When box_mounter_queue_tick has something to do, or BOX_NEVER. */
uint64_t box_mounter_queue_deadline(void);
/* Kills a mounter that takes too long. */
void box_mounter_queue_tick(uint64_t now_ns);
