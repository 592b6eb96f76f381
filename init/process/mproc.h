/* The managed processes of a box, each from its KEEP to its DROP. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "init/control.h"
#include "init/event_loop.h"

/* A request about one of them. Of those that are not well-formed (`verdict` < 0) a KEEP is told to
 * have failed: someone waits for its end. */
void box_mproc_request(struct box_control_request *request, int verdict);
/* An event of a pipe of theirs. */
void box_mproc_event(struct box_watch watch);
/* A child was reaped. True: it was one of them. */
bool box_mproc_reaped(pid_t pid, int status);

/* One that went through the mounter for its mounts: its process, or 0 and why there is none. */
void box_mproc_started(uint32_t id, pid_t pid, uint32_t step, int errnum);

/* When one must be killed; BOX_NEVER for none. */
uint64_t box_mproc_deadline(void);
void box_mproc_tick(void);

/* Answers can go out again. */
void box_mproc_resume(void);
