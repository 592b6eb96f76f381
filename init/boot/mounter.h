/* The mounter: the second process of a box, which starts commands that have mounts of their own. It is
 * forked before PID 1 installs the filter of commands, has a filter of its own, and keeps CAP_SYS_ADMIN
 * over the box's own user namespace. PID 1 may have been compromised, so the mounter checks its jobs. */
#pragma once

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "init/run/launch.h"
#include "protocol/init.h"

/* A boot step: forks the mounter. 0 or -errno. */
int box_mounter_start(void);

pid_t box_mounter_pid(void);

/* A command with mounts, a managed process, or a file operation. `body_fd` is a memfd: the targets of the
 * mounts, each with its NUL, then the body of the RUN, then one more byte. */
struct box_mounter_job {
	struct box_init_run run;
	uint32_t targets_size;
	int body_fd;
	int stdin_fd; /* -1: none */
	int stdout_fd;
	int stderr_fd;
	int procs_fd; /* cgroup.procs of a cgroup to enter first; -1: none */
	bool search_path;
	const int *mount_fds; /* run.mount_count of them */
};

/* Sends a job; the next one only after the answer. The new process will be our child. All fds stay the
 * caller's. 0 or -errno. */
int box_mounter_send(const struct box_mounter_job *job);

/* The pid of the process of the last job, or 0 before it is forked. */
pid_t box_mounter_child(void);
/* Where it failed; step 0 if it runs its program or has not failed yet. */
struct box_launch_failure box_mounter_failure(void);

/* Receives an answer: 0, -EAGAIN if there is none, -EPIPE if the mounter is dead. */
int box_mounter_receive(void);

/* --- what the mounter checks --- */

/* Seals of the memfd of a job, so that its bytes cannot change after the check. */
#define BOX_MOUNTER_JOB_SEALS (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* The first packet of a job. Its mounts follow in packets of their own. */
struct box_mounter_packet {
	struct box_init_run run;
	uint32_t targets_size;
	uint32_t has_stdin;
	uint32_t has_procs;
	uint32_t search_path;
};

/* Whether the bytes of the memfd match the packet and each target has its NUL: 0 or -EBADMSG. Pure. */
int box_mounter_check_job(const struct box_mounter_packet *packet, const char *bytes, size_t size);
