/* The PEEK requests of one managed process that wait for an answer. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "init/process/ring.h"
#include "init/process/tail.h"
#include "protocol/init_process.h"

struct box_peeks {
	struct box_init_peek waiting[BOX_INIT_PEEKS_MAX]; /* the first `count`, oldest first */
	uint32_t count;
};

/* What the process has written. */
struct box_peeks_output {
	const struct box_ring *out;
	const struct box_tail *err;
	bool out_ended;
	bool err_ended;
};

/* Adds a well-formed struct box_init_peek. It replaces one with the same token; of too many the oldest is
 * forgotten. */
void box_peeks_add(struct box_peeks *peeks, const char *bytes);

/* Answers those that need not wait any longer, until the socket is full. */
void box_peeks_answer(struct box_peeks *peeks, uint32_t id, const struct box_peeks_output *output);
