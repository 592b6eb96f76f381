/* What the process does that measures one folder or one box. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct box_mount_roots;

struct box_measures_task {
	int root;              /* of a box, O_PATH; -1: it is a folder of the host */
	const char *workspace; /* of a box: where it is inside */
	bool own_workspace;    /* and whether it is no folder of the host */
	const char *path;      /* of a folder: absolute, judged by the policy */
	const char *below;     /* and what of it is measured, relative */
};

/* To be called in a fresh child of `parent`: writes one struct box_boxd_measured to `out`. */
_Noreturn void box_measures_run_task(const struct box_measures_task *task,
	struct box_mount_roots *mount_roots, pid_t parent, int out);
