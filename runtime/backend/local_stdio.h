/* The bytes of a run: stdin, and the pipes of live commands. */
#pragma once

#include "runtime/backend/backend.h"

struct box_local_run;

/* --- stdin --- */

void box_local_stdio_input(struct box_backend_op *op, struct box_str bytes, bool eof,
	box_backend_input_done *taken, void *arg);
void box_local_stdio_forget_input(struct box_backend_op *op, void *arg);
/* Sends as much as may be in flight. */
void box_local_stdio_send_input(struct box_local_run *run);
/* box-init reports how much the command has taken in total. */
void box_local_stdio_input_taken(struct box_local_run *run, uint64_t bytes);
/* Ends the input after the last byte. */
void box_local_stdio_end_input(struct box_local_run *run);
/* The run is over: input that was not taken fails. */
void box_local_stdio_drop_input(struct box_local_run *run);

/* --- pipes --- */

/* Makes the pipes of a live command, if that is possible here; the command's ends are for box-init. */
bool box_local_stdio_open_pipes(struct box_local_run *run, int ret_fds[3]);
/* Watches them for output, or not, depending on the credit. */
void box_local_stdio_update_reading(struct box_local_run *run);
/* After the end of the command: reads what it left. False: there is more than the credit allows. */
bool box_local_stdio_drain_pipes(struct box_local_run *run);
/* Accepts a run without pipes too. What others still write goes to box-init. */
void box_local_stdio_close_pipes(struct box_local_run *run);
