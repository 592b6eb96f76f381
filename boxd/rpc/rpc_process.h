/* Starting one box-rpc: a child with no rights, no environment, and four fds. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "boxd/identity.h"

struct box_rpc_process {
	pid_t pid;
	int pidfd;
	int socket; /* boxd's end; not blocking */
};

/* Starts it; returns when box-rpc runs, or negative with the step that failed in err. With `stdio`
 * it gets boxd's fds 0 and 1, and boxd has /dev/null there from then on. */
int box_rpc_process_start(const char *path, const struct box_identity *ids, bool stdio,
	struct box_rpc_process *ret_worker, struct box_err *err);
