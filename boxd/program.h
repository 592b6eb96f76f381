/* Starting one of our other programs: a child with no rights, no environment, and the fds it is given.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"
#include "boxd/identity.h"

#define BOX_PROGRAM_FDS_MAX 4

struct box_program {
	const char *path;
	const char *name;
	const char *task; /* its one argument, or NULL */
	struct box_identity ids;
	bool stdio;                   /* keeps our stdin and stdout; else it has nothing there */
	int output;                   /* without that: its stdout, or 0: none */
	int fds[BOX_PROGRAM_FDS_MAX]; /* from 3 on; they stay the caller's */
	size_t fd_count;
};

struct box_program_process {
	pid_t pid;
	int pidfd;
};

/* Returns when the program runs, or negative with the step that failed in err. */
int box_program_start(const struct box_program *wanted, struct box_program_process *ret_child,
	struct box_err *err);
