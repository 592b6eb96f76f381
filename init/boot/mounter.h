/* The second process of a box: starts commands that have mounts of their own. It is forked before
 * the filter of commands, has one of its own, and keeps CAP_SYS_ADMIN over the box's own user
 * namespace. PID 1 may have been taken over: what it sends is checked. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "init/run/launch.h"
#include "protocol/init.h"

/* A step of boot. */
int box_mounter_start(void);

pid_t box_mounter_pid(void);

/* A command with mounts, a managed process, or work on files. `body_fd` is a memfd: the targets,
 * each with its NUL, then the body of the RUN, then one more byte. */
struct box_mounter_job {
	struct box_init_run run;
	uint32_t targets_size;
	int body_fd;
	int stdin_fd; /* -1: none */
	int stdout_fd;
	int stderr_fd;
	int door_fd; /* of a cgroup that it goes into first; -1: none */
	bool search_path;
	const int *mount_fds; /* run.mount_count of them */
};

/* One at a time: the next one when the answer to this one is there. 0, or -errno. The new process
 * will be our child. Everything stays the caller's. */
int box_mounter_send(const struct box_mounter_job *job);

/* The pid of the process of the last job, once there is one: 0 before. */
pid_t box_mounter_child(void);
/* How far it came: step 0 when it runs its program or has not failed yet. */
struct box_launch_failure box_mounter_failure(void);

/* Takes an answer: 0, -EAGAIN when there is none, -EPIPE when the mounter is gone. */
int box_mounter_receive(void);
