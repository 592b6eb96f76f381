/* The event loop of boxd: starts box-rpc, serves its packets, restarts it when it dies, stops it.
 * Called by main.c. */
#pragma once

#include "boxd/rpc/serve.h"

struct box_supervise_setup {
	const char *rpc_path; /* the program box-rpc */
	struct box_serve_setup serve;
};

/* Runs until box-rpc need not be restarted; returns boxd's exit code. From here on the loop handles
 * SIGTERM, SIGINT and SIGHUP. */
int box_supervise_run(const struct box_supervise_setup *setup);
