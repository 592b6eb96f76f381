/* Measures for storage analysis: boxd is asked, and where it cannot look into a box, the box. */
#pragma once

#include "runtime/runtime.h"

struct box_boxd_client;
struct box_local;

/* As struct box_runtime_host.measure. */
void box_storage_measure_start(struct box_boxd_client *boxd, struct box_local *local,
	const struct box_storage_measure *what, box_storage_measure_done *done, void *arg);
