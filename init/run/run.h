/* The commands of a box, each from its RUN to its EXIT. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "init/control.h"
#include "init/event_loop.h"

/* A request that box_control_receive gave; `verdict` is what it returned: 0 or -EBADMSG. */
void box_run_request(struct box_control_request *request, int verdict);
/* An event of a pipe of theirs, or of the mounter. */
void box_run_event(struct box_watch watch);
/* Some child has ended. */
void box_run_reap(void);

/* When something must be done without an event; BOX_NEVER for nothing. */
uint64_t box_run_deadline(void);
void box_run_tick(void);

/* Answers can go out again. */
void box_run_resume(void);
/* Whether a request could have to be refused without a place to remember that. */
bool box_run_is_full(void);
