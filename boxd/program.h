/* Our other programs: where they are, and their start as a child without rights and environment, with the
 * fds it is given. Called by jobs.c, rpc/supervise.c and main.c. */
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
	const char *task; /* its only argument, or NULL */
	struct box_identity ids;
	bool stdio;                   /* gets our stdin and stdout; else an empty stdin */
	int output;                   /* its stdout without `stdio`; 0: our stderr */
	int fds[BOX_PROGRAM_FDS_MAX]; /* from 3 on; they stay the caller's */
	size_t fd_count;
};

struct box_program_process {
	pid_t pid;
	int pidfd;
};

/* The path of a program of ours: beside boxd, else where the build installs it. */
int box_program_find(const char *name, char ret_path[BOX_PATH_MAX], struct box_err *err);

/* Returns when the program runs, or negative with the step that failed in err. */
int box_program_start(const struct box_program *wanted, struct box_program_process *ret_child,
	struct box_err *err);
