/* A mount over a folder, for the host and for boxd. */
#pragma once

#include <stdbool.h>

#include "base/err.h"

struct box_quota_attach {
	int mount;        /* detached */
	int under;        /* the folder itself, O_PATH */
	int parent;       /* what it is in, O_PATH, as boxd sees it */
	const char *name; /* and what it is called there */
	const char *path; /* where it is for the host */
	int host_ns;
	int own_ns;
};

/* Whether all who use the folder will see a mount over it: `alone` says that there is nobody beyond
 * the namespace that boxd was started in. */
int box_quota_attach_check(int under, bool alone, struct box_err *err);

/* Does what is missing of both: it may be attached for the host already. Changes the root and the
 * working folder of the process, which must have one thread. */
int box_quota_attach(const struct box_quota_attach *attach, struct box_err *err);

/* Whether a line of mountinfo is that of this mount, and what is mounted below it reaches others.
 * Pure. */
bool box_quota_attach_mount_is_shared(const char *line, unsigned long mount);
