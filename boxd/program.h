/* Box's other programs: where they are, and how they are started, as children without rights and
 * environment and with the given fds. Called by jobs.c, rpc/supervise.c and main.c. */
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
	bool stdio;                   /* gets our stdin and stdout; else stdin is empty */
	int output;                   /* its stdout without `stdio`; 0: our stderr */
	int fds[BOX_PROGRAM_FDS_MAX]; /* numbered from 3; the caller keeps them */
	size_t fd_count;
};

struct box_program_process {
	pid_t pid;
	int pidfd;
};

/* The path of a program of Box: beside boxd, else where the build installs it. */
int box_program_find(const char *name, char ret_path[BOX_PATH_MAX], struct box_err *err);

/* Returns when the program runs, or negative with the failed step in err. */
int box_program_start(const struct box_program *wanted, struct box_program_process *ret_child,
	struct box_err *err);
