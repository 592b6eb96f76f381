/* Programs that boxd has started (box-skills, box-vmm --probe): each is reaped when it ends, and killed
 * when its time is over or boxd ends. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "boxd/event_source.h"

struct box_jobs;
struct box_program;

/* Called once, when the program has ended; never from inside box_jobs_start. */
typedef void box_jobs_ended(void *arg);

struct box_jobs *box_jobs_new(void);
/* Kills all that run, without calling `ended`. Programs without a time limit get a moment to end by
 * themselves: box-skills may still be writing to disk. */
void box_jobs_free(struct box_jobs *jobs);

/* Starts a program. With `limit_ms` it is killed after that time; with 0 it ends by itself, at the latest
 * when box-rpc does. -EAGAIN when BOX_JOBS_MAX run. */
int box_jobs_start(struct box_jobs *jobs, const struct box_program *wanted, uint64_t limit_ms,
	box_jobs_ended *ended, void *arg, struct box_err *err);

/* Kills the programs that were started with this argument; `ended` follows as always. */
void box_jobs_kill(struct box_jobs *jobs, const void *arg);

struct box_event_source box_jobs_event_source(struct box_jobs *jobs);
