/* Network namespaces of boxes: made, entered and configured from inside.
 *
 * They belong to boxd's user namespace, not to that of the box: even root in a box cannot change its network.
 */
#pragma once

#include <stdint.h>

#define BOX_NETNS_ETH0_INDEX 100000 /* of eth0 in a box, beyond what the kernel gives itself */

struct box_netns;

/* NULL for a plain user, who cannot come back after leaving the host's network namespace: then each box makes
 * a namespace for itself. */
struct box_netns *box_netns_new(void);
void box_netns_free(struct box_netns *netns);

/* A new one with nothing but lo, which is up; the fd is the caller's. 0 or -errno. */
int box_netns_make(const struct box_netns *netns, int *ret_fd);

/* Goes into a namespace, and back to boxd's own. What is made in between is in that namespace. If boxd
 * cannot come back, it ends. */
int box_netns_enter(const struct box_netns *netns, int fd);
void box_netns_return(const struct box_netns *netns);

/* For a caller in the box's network namespace with CAP_NET_ADMIN there; async-signal-safe, since that may be a
 * fresh clone. 0 or -errno. The first brings up lo and eth0, with an address (/31) and a default route (IPv4,
 * network order); the second only lo, for boxes without a network. */
int box_netns_configure(uint32_t address, uint32_t gateway);
int box_netns_configure_off(void);
