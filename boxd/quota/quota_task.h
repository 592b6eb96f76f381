/* What a child of boxd does for one folder: makes, grows or mounts its image. Called by quota_queue.c. */
#pragma once

#include <sys/types.h>

#include "boxd/quota/quota.h"
#include "protocol/boxd.h"

struct box_quota_task {
	const struct box_quota_support *support;
	const struct box_quota_folder *folder;
	uint64_t quota_bytes; /* 0: only mount the image that is there */
	bool alone; /* only processes of the mount namespace that boxd was started in use the folder */
};

/* What the child writes. */
struct box_quota_report {
	struct box_boxd_failure failure;
};

/* To be called in a fresh child of `parent`: writes one report to `out`. */
_Noreturn void box_quota_task_run(const struct box_quota_task *task, pid_t parent, int out);

/* Whether a line of mountinfo is that of this mount, and what is mounted below it is seen by others. Pure; for
 * tests. */
bool box_quota_task_mount_is_shared(const char *line, unsigned long mount);
