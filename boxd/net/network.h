/* The network of boxes that have one: a router between them and the host.
 *
 * The router is a network namespace. It has one end of a veth pair for each such box, rules that refuse
 * what no box may reach, and a way out: pasta, which turns packets into ordinary sockets of the host.
 * The other end of the pair is eth0 in the box. The host's own network is not changed, and boxes do not
 * reach each other. This is the only header by which other folders change the router (netns.h is for a
 * box's own namespace); the calls for one box are, in order, take_slot, attach, set_egress, (the box
 * runs,) release_slot.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "boxd/event_source.h"
#include "plan/egress.h"

struct box_network;

/* The connection of one box at the router. */
struct box_network_slot {
	uint32_t number;
	uint32_t router_address; /* IPv4, network order; the box's gateway */
	uint32_t box_address;
};

/* Cheap: starts nothing. NULL when the host's addresses cannot be watched. If boxd is root, pasta runs
 * as `uid` and `gid`; in a user namespace of boxd's own, which has no other ids, they are 0. */
struct box_network *box_network_new(uid_t uid, gid_t gid);
/* Ends the router and pasta. */
void box_network_free(struct box_network *network);

/* Whether boxes can have a network here; else the reason, for the operator. */
bool box_network_is_possible(struct box_network *network, struct box_err *err);

/* Makes the router and starts pasta unless they exist, and takes a slot: the lowest that no box has or
 * has had recently. Without a default route of the host boxes reach nothing: that is not an error. */
int box_network_take_slot(
	struct box_network *network, struct box_network_slot *ret_slot, struct box_err *err);
/* Makes the veth pair: one end in the router, the other as eth0 (down) in the network namespace `netns`. */
int box_network_attach(struct box_network *network, const struct box_network_slot *slot, int netns,
	struct box_err *err);
/* Lets the box of this slot, which is attached and runs nothing yet, reach what the policy allows and
 * nothing else; what no box may reach stays refused. With ports of the host the box gets an address on
 * the host's loopback (network order) until its slot is released. Does nothing when the policy is
 * unlimited. */
int box_network_set_egress(struct box_network *network, const struct box_network_slot *slot,
	const struct box_egress *policy, uint32_t *ret_host_address, struct box_err *err);
/* Gives the slot back. The veth pair goes with the box's namespace, or when the slot is taken again. */
void box_network_release_slot(struct box_network *network, const struct box_network_slot *slot);

/* An event means that the host's addresses have changed, or that pasta or a port proxy has ended:
 * updates the refused addresses and restarts processes. */
struct box_event_source box_network_event_source(struct box_network *network);
