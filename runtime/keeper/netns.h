/* Network namespaces made ahead: making one is the longest single step of making a box.
 *
 * They belong to our own user namespace, not to a box's: whoever is root in a box has no say over
 * its network at all.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "runtime/keeper/network.h"

struct box_netns;

/* NULL for a plain user: who leaves the host's own network namespace cannot go back, so each box
 * then makes one for itself. */
struct box_netns *box_netns_new(void);
void box_netns_free(struct box_netns *netns);

/* A namespace of its own with nothing but lo, which is up; the fd is the caller's. */
int box_netns_take(struct box_netns *netns, int *ret_fd, struct box_err *err);

/* Goes into it, and back home. What is made in between is in it. Being unable to come back ends
 * boxd. */
int box_netns_enter(const struct box_netns *netns, int fd);
void box_netns_come_home(const struct box_netns *netns);

/* Whether there is room for one more ahead, and making it: for when there is nothing else to do. */
bool box_netns_wants_more(const struct box_netns *netns);
void box_netns_make_ahead(struct box_netns *netns);
