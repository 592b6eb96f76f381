/* Starting one box-rpc: a child with no rights, no environment, and four fds. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "runtime/keeper/identity.h"

struct box_worker {
	pid_t pid;
	int pidfd;
	int socket; /* boxd's end; not blocking */
};

/* Starts it; returns when box-rpc runs, or negative with the step that failed in err. With `stdio`
 * it gets boxd's fds 0 and 1, and boxd has /dev/null there from then on. */
int box_worker_start(const char *path, const struct box_worker_ids *ids, bool stdio,
	struct box_worker *ret_worker, struct box_err *err);
