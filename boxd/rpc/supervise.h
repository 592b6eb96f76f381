/* The loop of boxd: starts box-rpc, serves its packets, starts it again when it dies, stops it. Called by
 * main.c. */
#pragma once

#include "boxd/rpc/serve.h"

struct box_supervise_setup {
	const char *rpc_path; /* the program box-rpc */
	struct box_serve_setup serve;
};

/* Runs until box-rpc need not be started again; returns boxd's exit code. From here on SIGTERM, SIGINT
 * and SIGHUP come to the loop. */
int box_supervise_run(const struct box_supervise_setup *setup);
