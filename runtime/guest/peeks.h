/* Looks at what a managed process wrote that were not answered yet. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "runtime/guest/ring.h"
#include "runtime/guest/tail.h"
#include "runtime/guest/wire_kept.h"

struct box_peeks {
	struct box_guest_peek waiting[BOX_GUEST_PEEKS_MAX]; /* the first `count`, oldest first */
	uint32_t count;
};

struct box_peeks_seen {
	const struct box_ring *out;
	const struct box_tail *err;
	bool out_ended;
	bool err_ended;
};

/* A struct box_guest_peek as it came, well-formed: in the place of one with the same token; of too many
 * the oldest goes. */
void box_peeks_put(struct box_peeks *peeks, const char *bytes);

/* Answers all that need not wait any longer, as far as the socket takes it. */
void box_peeks_answer(struct box_peeks *peeks, uint32_t id, const struct box_peeks_seen *seen);
