/* Starting one box-rpc: a child with no rights, no environment, and four fds. */
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

struct box_worker {
	pid_t pid;
	int pidfd;
	int socket; /* boxd's end; not blocking */
};

/* As root: the account `box-rpc`, else ids that nobody has. Where ids cannot be changed, it says so
 * in the log. */
int box_worker_choose_ids(struct box_worker_ids *ret_ids, struct box_err *err);

/* The path of box-rpc: beside boxd, else where the build installs it. */
int box_worker_find(char ret_path[BOX_PATH_MAX], struct box_err *err);

/* Starts it; returns when box-rpc runs, or negative with the step that failed in err. With `stdio`
 * it gets boxd's fds 0 and 1, and boxd has /dev/null there from then on. */
int box_worker_start(const char *path, const struct box_worker_ids *ids, bool stdio,
	struct box_worker *ret_worker, struct box_err *err);
