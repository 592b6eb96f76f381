/* The network of boxes that are to have one: a router of our own between them and the host.
 *
 * One network namespace, the router, holds one end of a veth pair for each such box, rules that
 * refuse what no box may reach, and the way out: pasta, which makes ordinary sockets of the host
 * out of packets. Nothing of the host's own network is changed. The other end is eth0 in the box.
 * Boxes do not reach each other.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "plan/egress.h"

#define BOX_NETWORK_SLOTS_MAX 16384
#define BOX_NETWORK_ETH0_INDEX 100000 /* of eth0 in a box */

struct box_network; /* the router, made when the first box needs it */

#define BOX_NETWORK_DNS "198.18.0.2" /* what a box's resolv.conf names */

/* The place of one box at the router. */
struct box_network_slot {
	uint32_t number;
	uint32_t router_address; /* IPv4, network order; the box's gateway */
	uint32_t box_address;
};

/* Cheap: starts nothing. NULL when the host cannot be watched. `uid` and `gid` are what pasta runs
 * as when we are root; in a user namespace of our own, where there are no others, they are 0. */
struct box_network *box_network_new(uid_t uid, gid_t gid);
/* Ends the router and pasta. */
void box_network_free(struct box_network *network);

/* Whether boxes can have a network here; else why not, in words for an operator. */
bool box_network_is_possible(struct box_network *network, struct box_err *err);

/* Makes the router and its way out if there is none yet, and takes a seat: the lowest that nobody
 * has or had a short time ago. A host without any way out gives boxes that reach nothing: that is
 * no error. */
int box_network_slot(
	struct box_network *network, struct box_network_slot *ret_seat, struct box_err *err);
/* Makes the pair, one end in the router, the other as eth0 (down) in the network namespace
 * `netns`. */
int box_network_attach(struct box_network *network, const struct box_network_slot *seat, int netns,
	struct box_err *err);
/* Lets the box of this seat, which has its cable, reach what `egress` allows and nothing else, before
 * anything of it runs; what no box may reach stays refused. With ports of the host the box gets an
 * address on the host's loopback (network order), until it leaves. Does nothing when `egress` limits
 * nothing. */
int box_network_limit(struct box_network *network, const struct box_network_slot *seat,
	const struct box_egress *egress, uint32_t *ret_host_address, struct box_err *err);
/* In the box's own network namespace, with CAP_NET_ADMIN there: lo and eth0 up, address, route.
 * Async-signal-safe: the caller is a fresh clone. 0 or -errno. */
int box_network_configure(const struct box_network_slot *seat);
/* Only lo up, for boxes with network off. Likewise. */
int box_network_configure_off(void);
/* Gives the seat back. The pair dies with the box's namespace, or when the seat is taken again. */
void box_network_release(struct box_network *network, const struct box_network_slot *seat);

/* For the poll loop: an fd that wants POLLIN (changes of the host's addresses, pasta's end), or -1;
 * and what to do then: refused addresses are brought up to date, pasta is started again. */
int box_network_fd(const struct box_network *network);
void box_network_step(struct box_network *network);
