/* The process that measures one folder or one box. Started by measures.c. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct box_mount_roots;

struct box_measures_task {
	int root;              /* O_PATH, of a box; -1: it is a folder of the host */
	const char *workspace; /* of a box: its path inside */
	bool own_workspace;    /* it is not a folder of the host */
	const char *path;      /* of a folder: absolute, checked against the policy */
	const char *below;     /* which part of the folder is measured: a relative path */
};

/* To be called in a fresh child of `parent`: writes one struct box_boxd_measured to `out`. */
_Noreturn void box_measures_run_task(const struct box_measures_task *task,
	struct box_mount_roots *mount_roots, pid_t parent, int out);
