/* The allowlists of single boxes, as rules of the router: for each limited seat a chain, and an
 * element of the map by which its packets come there. It is after what no box may reach, so it opens
 * nothing of that; the box is behind its cable and cannot change it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "boxd/net/network.h"
#include "plan/egress.h"

struct box_router;

/* What the router has for the seats. */
struct box_egress_rules_slots {
	uint8_t states[BOX_NETWORK_SLOTS_MAX];
};

/* Sets the rules of a seat and reads them back; seats that nobody has any more lose theirs on the
 * way. On failure the seat is nobody's. */
int box_egress_rules_set(struct box_egress_rules_slots *seats, const struct box_router *router,
	uint32_t seat, const struct box_egress *egress, struct box_err *err);
/* The box of a seat is gone. Its rules stay, and close the seat, until there is work for nft
 * anyway. */
void box_egress_rules_release(struct box_egress_rules_slots *seats, uint32_t seat);
/* Before a seat is taken: no rules of another box are there. */
int box_egress_rules_clear(struct box_egress_rules_slots *seats, const struct box_router *router,
	uint32_t seat, struct box_err *err);

/* Pure, for tests: what nft is told, and whether what it lists (the map, then the chain of the seat)
 * is exactly that. */
void box_egress_rules_write(const struct box_egress_rules_slots *seats, uint32_t seat,
	const struct box_egress *egress, struct box_buf *text);
bool box_egress_rules_match(const struct box_egress_rules_slots *seats, uint32_t seat,
	const struct box_egress *egress, const char *listing);
