/* Looks at what a managed process wrote that were not answered yet. */
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

struct box_peeks_seen {
	const struct box_ring *out;
	const struct box_tail *err;
	bool out_ended;
	bool err_ended;
};

/* A struct box_init_peek as it came, well-formed: in the place of one with the same token; of too many
 * the oldest goes. */
void box_peeks_put(struct box_peeks *peeks, const char *bytes);

/* Answers all that need not wait any longer, as far as the socket takes it. */
void box_peeks_answer(struct box_peeks *peeks, uint32_t id, const struct box_peeks_seen *seen);
