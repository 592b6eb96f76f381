/* Starts a process from the body of a RUN or START_PROCESS. Used by PID 1, and by the mounter for commands
 * with mounts. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "protocol/init.h"

struct box_launch_ids {
	uint32_t uid;
	uint32_t gid;
	uint32_t same; /* not 0: box-init has these ids already */
};

/* Where a start failed. */
struct box_launch_failure {
	uint32_t step;  /* enum box_init_step; 0: it runs */
	int32_t errnum; /* 0: it runs */
	uint32_t mount; /* with BOX_INIT_STEP_MOUNT: the index of the mount */
};

struct box_launch {
	const struct box_init_run *run;
	char *body;   /* complete, and one more byte */
	int stdin_fd; /* -1: that of box-init, /dev/null */
	int stdout_fd;
	int stderr_fd;
	bool search_path; /* search a program without a slash in the PATH of its environment */

	/* Called first in the new process, or NULL. Returns 0, or -errno with the step set. */
	int (*prepare)(struct box_launch *launch);
	void *prepare_data;
	unsigned long clone_flags; /* in addition to those of every launch */
	volatile struct box_launch_failure *failure;
	volatile pid_t *pid_to; /* where the new process writes its pid, or NULL */
};

/* The ids of commands. */
void box_launch_set_ids(struct box_launch_ids ids);

/* Opens the file of our OOM score, before we become untraceable and no longer own it. 0 or -errno. */
int box_launch_find_oom_score(void);
/* Sets our OOM score, which forked processes inherit, to that of commands or back. */
void box_launch_raise_oom_score(bool raise);
/* In a forked process: opens its own file. */
void box_launch_refind_oom_score(void);

/* In a new process: takes the ids of commands, drops all capabilities, and dies with its parent. 0 or
 * -errno. */
int box_launch_change_ids(void);

/* Returns when the process has executed its program, or has failed. Then `failure` says where; if a pid
 * is returned, the caller must reap it. -errno if there is no process. */
pid_t box_launch(struct box_launch *launch);
