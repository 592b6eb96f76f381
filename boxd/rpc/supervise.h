/* The loop of boxd: starts box-rpc, serves its packets, starts it again, stops it. */
#pragma once

#include "boxd/rpc/rpc_process.h"
#include "boxd/rpc/serve.h"

struct box_supervise_setup {
	const char *worker_path;
	struct box_serve_setup serve;
};

/* Runs until box-rpc needs no other start; returns boxd's exit code. From here on SIGTERM, SIGINT
 * and SIGHUP come to the loop. */
int box_supervise_run(const struct box_supervise_setup *setup);
