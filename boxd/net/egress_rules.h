/* The allowlists of single boxes, as rules of the router: for each limited slot a chain, and an element
 * of the map `egress`, which sends the packets of its veth there.
 *
 * The chain comes after the refusals for all boxes, so it cannot undo those; and it is in the router,
 * where the box cannot change it. Called by network.c.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "boxd/net/router.h"
#include "plan/egress.h"

/* What one box may reach, in addresses: the only input of the rules. box_egress_rules_resolve makes it
 * of a policy (plan/egress.h), to which it points. */
struct box_egress_rules_addresses {
	const struct box_egress_allow *allow;
	uint32_t allow_count;
	const uint16_t *host_ports;
	uint32_t host_port_count;
};
struct box_egress_rules_addresses box_egress_rules_resolve(const struct box_egress *policy);

/* Which slots have rules in the router. */
struct box_egress_rules_slots {
	uint8_t states[BOX_ROUTER_SLOTS_MAX];
};

/* Sets the rules of a slot and reads them back; also removes the rules of slots that were released. On
 * failure the slot counts as released. */
int box_egress_rules_set(struct box_egress_rules_slots *slots, const struct box_router *router,
	uint32_t slot, const struct box_egress_rules_addresses *addresses, struct box_err *err);
/* The box of a slot is gone. Its rules stay, and let nothing through, until the next run of nft, since
 * each run takes milliseconds. */
void box_egress_rules_release(struct box_egress_rules_slots *slots, uint32_t slot);
/* Before a slot is taken: removes the remaining rules of an earlier box. */
int box_egress_rules_clear(struct box_egress_rules_slots *slots, const struct box_router *router,
	uint32_t slot, struct box_err *err);

/* Pure, for tests: the commands for nft, and whether nft's listing (the map, then the chain of the
 * slot) is exactly what they set. */
void box_egress_rules_write(const struct box_egress_rules_slots *slots, uint32_t slot,
	const struct box_egress_rules_addresses *addresses, struct box_buf *text);
bool box_egress_rules_match(const struct box_egress_rules_slots *slots, uint32_t slot,
	const struct box_egress_rules_addresses *addresses, const char *listing);
