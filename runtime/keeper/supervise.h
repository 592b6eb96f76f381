/* The loop of boxd: starts box-rpc, serves its packets, starts it again, stops it. */
#pragma once

#include "runtime/keeper/carry.h"
#include "runtime/keeper/ground.h"
#include "runtime/keeper/listen.h"
#include "runtime/keeper/worker.h"

struct box_supervise_setup {
	struct box_carried *carried;
	const char *worker_path;
	const struct box_worker_ids *ids;
	const struct box_listeners *listeners; /* may hold none */
	struct box_ground *ground;
};

/* Runs until box-rpc needs no other start; returns boxd's exit code. From here on SIGTERM, SIGINT
 * and SIGHUP come to the loop. */
int box_supervise(const struct box_supervise_setup *setup);
