/* Which program box-rpc is, and who it runs as. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/limits.h"

/* Who box-rpc runs as. */
struct box_worker_ids {
	bool change; /* false: it keeps boxd's own ids */
	uid_t uid;
	gid_t gid;
};

/* As root: the account `box-rpc`, else ids that nobody has. Where ids cannot be changed, it says so
 * in the log. */
int box_worker_choose_ids(struct box_worker_ids *ret_ids, struct box_err *err);

/* The path of box-rpc: beside boxd, else where the build installs it. */
int box_worker_find(char ret_path[BOX_PATH_MAX], struct box_err *err);
