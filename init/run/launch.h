/* From the body of a RUN to a process: for PID 1, and for the mounter when there are mounts. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "protocol/init.h"

struct box_launch_ids {
	uint32_t uid;
	uint32_t gid;
	uint32_t same; /* not 0: they are ours already */
};

struct box_launch_failure {
	uint32_t step; /* enum box_init_step; 0: it runs */
	int32_t errnum;
	uint32_t mount;
};

struct box_launch {
	const struct box_init_run *run;
	char *body;   /* all of it, and one more byte */
	int stdin_fd; /* -1: what box-init has, /dev/null */
	int stdout_fd;
	int stderr_fd;
	bool search_path; /* of its environment, for a program without a slash */

	/* Done first by the new process, or NULL. Returns 0, or -errno with the step set. */
	int (*prepare)(struct box_launch *launch);
	void *prepare_data;
	unsigned long clone_flags; /* besides what every launch has */
	volatile struct box_launch_failure *failure;
	volatile pid_t *pid_place; /* where the new process writes its pid, or NULL */
};

void box_launch_set_ids(struct box_launch_ids ids);

/* Finds our OOM score before we become untraceable: then its file may not be ours any more. */
int box_launch_find_oom_score(void);
/* From now on what we fork has the score of commands, or ours again. */
void box_launch_raise_oom_score(bool raise);
/* In a forked process: its own file. */
void box_launch_refind_oom_score(void);

/* In a new process: the ids of commands, no capability, and death with its parent. 0 or -errno. */
int box_launch_change_ids(void);

/* Returns when the process runs its program, or has failed: then `failure` says where, and a pid
 * that is returned is a child to reap. Negative errno when there is no process. */
pid_t box_launch(struct box_launch *launch);
