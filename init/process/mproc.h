/* The managed processes of a box, each from START_PROCESS to FORGET_PROCESS. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "init/control.h"
#include "init/event_loop.h"

/* Handles a request from box_control_receive, whose result was `verdict`: 0 or -EBADMSG. A malformed
 * START_PROCESS makes a process that has failed, because its sender waits for its end. */
void box_mproc_request(struct box_control_request *request, int verdict);
/* Handles an event of a managed process's pipe. */
void box_mproc_event(struct box_watch watch);
/* A child was reaped. True: it was a managed process. */
bool box_mproc_reaped(pid_t pid, int status);

/* The mounter has started a managed process with mounts: `pid`, or 0 with the step that failed. */
void box_mproc_started(uint32_t id, pid_t pid, uint32_t step, int errnum);

/* When box_mproc_tick has something to do, or BOX_NEVER. */
uint64_t box_mproc_deadline(void);
void box_mproc_tick(void);

/* Packets can be sent again: sends what is due. */
void box_mproc_resume(void);
