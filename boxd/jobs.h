/* Programs that boxd has started and waits for: each is reaped when it ends, and ended when its time is
 * over or boxd's is. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct box_jobs;
struct box_program;

/* Called once, when it is no more; never from inside box_jobs_start. */
typedef void box_jobs_ended(void *arg);

struct box_jobs *box_jobs_new(void);
/* Those that run are killed; nobody is told. One without a limit gets a moment first: it ends by itself,
 * and what it still does (box-skills waits for the disk) is better not cut off. */
void box_jobs_free(struct box_jobs *errands);

/* Starts it. With `limit_ms` not 0 it is killed after that time; with 0 it ends by itself, at the latest
 * when box-rpc does. -EAGAIN when BOX_JOBS_MAX run. */
int box_jobs_start(struct box_jobs *errands, const struct box_program *wanted, uint64_t limit_ms,
	box_jobs_ended *ended, void *arg, struct box_err *err);

/* Kills those that were started with this argument; each is told of as ever. */
void box_jobs_kill(struct box_jobs *errands, const void *arg);

/* For the loop: an fd that wants POLLIN, how long it may wait, and what to do then. */
int box_jobs_fd(const struct box_jobs *errands);
int box_jobs_timeout_ms(const struct box_jobs *errands);
void box_jobs_step(struct box_jobs *errands);
