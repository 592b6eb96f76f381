/* The commands of a box, each from its first request to its EXIT. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "init/control.h"
#include "init/event_loop.h"

/* Handles a request from box_control_receive, whose result was `verdict`: 0 or -EBADMSG. */
void box_run_request(struct box_control_request *request, int verdict);
/* Handles an event of a command's pipe or of the mounter. */
void box_run_event(struct box_watch watch);
/* Reaps all children that have ended, of whatever kind. */
void box_run_reap(void);

/* When box_run_tick has something to do, or BOX_NEVER. */
uint64_t box_run_deadline(void);
void box_run_tick(void);

/* Packets can be sent again: sends what is due. */
void box_run_resume(void);
/* Whether the table is full, so that a further request would have to be refused at once. */
bool box_run_is_full(void);

/* Has the mounter start the managed process `mproc_id`, whose mounts were received under `id`. Takes
 * the fds in any case; box_mproc_started is called with the result. */
void box_run_start_mproc(uint32_t id, uint32_t mproc_id, const struct box_init_run *request,
	const char *body, const int fds[3], int procs_fd);
/* Closes the mounts received under `id` if the managed process did not take them. */
void box_run_drop_mproc_mounts(uint32_t id);
