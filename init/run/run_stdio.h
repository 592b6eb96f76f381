/* The stdin, stdout and stderr of one command: pipes made here, pipes received from box-rpc, or a
 * terminal. For run.c. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "init/event_loop.h"
#include "init/run/input.h"
#include "init/run/stream.h"
#include "protocol/init.h"

struct box_run_stdio {
	int child_fds[3];       /* the command's ends, until it has started; -1: none */
	struct box_stream out;  /* our end of stdout, or the terminal's master */
	struct box_stream err;  /* our end of stderr; closed with a terminal */
	struct box_input input; /* our end of stdin, or the terminal's master again */
};

void box_run_stdio_init(struct box_run_stdio *stdio);
/* Closes all that is left. Other processes may still write to the pipes: they are read on as orphans. */
void box_run_stdio_release(struct box_run_stdio *stdio, bool is_terminal);

/* Makes what `request` asks for. `owner` has the index and generation for events. 0 or -errno. */
int box_run_stdio_open(
	struct box_run_stdio *stdio, const struct box_init_run *request, struct box_watch owner);
/* Whether exactly the ends that the flags of `request` announce were received. */
bool box_run_stdio_has_pipes(const struct box_run_stdio *stdio, const struct box_init_run *request);
/* Closes the command's ends, including stdin or not. */
void box_run_stdio_close_child(struct box_run_stdio *stdio, bool including_stdin);

/* Sets the size of the terminal; its foreground process group gets SIGWINCH. */
int box_run_stdio_resize(const struct box_run_stdio *stdio, struct box_init_size size);
