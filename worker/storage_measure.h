/* Measures folders and boxes for the storage analysis, through boxd or the box itself. */
#pragma once

#include "runtime/runtime.h"

struct box_boxd_client;
struct box_local;

/* As struct box_runtime_host.measure. */
void box_storage_measure_start(struct box_boxd_client *boxd, struct box_local *local,
	const struct box_storage_measure *what, box_storage_measure_done *done, void *arg);
