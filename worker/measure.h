/* Measures for storage analysis: boxd is asked, and where it cannot look into a box, the box. */
#pragma once

#include "runtime/runtime.h"

struct box_link;
struct box_native;

/* As struct box_host.measure. */
void box_measure_ask(struct box_link *link, struct box_native *native,
	const struct box_measure *what, box_measured_done *done, void *arg);
