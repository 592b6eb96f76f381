/* The router: a network namespace between all boxes and the host, in a user namespace of its own.
 * Called by network.c.
 *
 * It contains no process. It exists as long as boxd holds its fds, so it and everything in it ends with
 * boxd. Its user namespace belongs to the ids that pasta runs as, so that an unprivileged pasta may
 * enter it.
 */
#pragma once

#include <inttypes.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "boxd/net/netlink.h"

#define BOX_ROUTER_SLOTS_MAX 16384
#define BOX_ROUTER_VETH "b%" PRIu32 /* the router's end of a box's veth pair, by the slot */
#define BOX_ROUTER_UPLINK "out"     /* pasta's interface */
#define BOX_ROUTER_DNS "198.18.0.2" /* the name server in a box's resolv.conf */

struct box_router {
	uid_t uid; /* of its owner: boxd's own or other ids */
	gid_t gid;
	int userns;
	int netns;
	int socket; /* rtnetlink of this namespace, with boxd's rights */
};

/* The addresses of the host, which no box may reach. They change while boxd runs. */
struct box_router_denied {
	struct box_netlink_address_list host; /* every address of the host */
	struct box_netlink_address_list gateways;
};

/* Reads the present ones, and whether the host has a default route. 0 or -errno. */
int box_router_read_host(struct box_router_denied *ret_denied, bool *ret_has_default_route);

/* Makes the namespaces, sets the rules and reads them back. On failure nothing remains. */
int box_router_make(uid_t uid, gid_t gid, const struct box_router_denied *denied,
	struct box_router *ret_router, struct box_err *err);
void box_router_close(struct box_router *router);

/* Replaces the denied addresses, and reads them back. */
int box_router_set_denied(const struct box_router *router, const struct box_router_denied *denied,
	struct box_err *err);
/* Whether pasta has set up its interface. */
bool box_router_has_uplink(const struct box_router *router);

#ifdef BOX_ROUTER_WITHOUT
/* Tests leave defences out, by names separated by commas, to check that other tests notice. boxd is
 * never built with this. */
extern const char *box_router_without;
#endif
/* Whether the defence of this name is left out: always false, except in those tests. */
bool box_router_is_left_out(const char *name);
