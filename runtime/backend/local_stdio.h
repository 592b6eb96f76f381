/* The bytes of a run: stdin, and the pipes of live commands. */
#pragma once

#include "runtime/backend/backend.h"

struct box_local_run;

/* --- stdin --- */

void box_local_stdio_input(struct box_backend_op *op, struct box_str bytes, bool eof,
	box_backend_input_done *taken, void *arg);
void box_local_stdio_forget_input(struct box_backend_op *op, void *arg);
/* Sends as much as may be under way. */
void box_local_stdio_send_input(struct box_local_run *run);
/* box-init says that the command has taken so much in all. */
void box_local_stdio_input_taken(struct box_local_run *run, uint64_t bytes);
/* After the last of it. */
void box_local_stdio_end_input(struct box_local_run *run);
/* The run is over: input that was not taken fails. */
void box_local_stdio_drop_input(struct box_local_run *run);

/* --- pipes --- */

/* Makes the pipes of a live command, if that is possible here; the command's ends are for box-init. */
bool box_local_stdio_open_pipes(struct box_local_run *run, int ret_fds[3]);
/* Watches them for output, or not, by the credit there is. */
void box_local_stdio_update_reading(struct box_local_run *run);
/* After the end of the command: reads what it left. False: there is more than there is credit. */
bool box_local_stdio_drain_pipes(struct box_local_run *run);
/* Takes a run without pipes, too. What others may still write to goes to box-init. */
void box_local_stdio_close_pipes(struct box_local_run *run);
