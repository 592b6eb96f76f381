/* Network namespaces of boxes. They belong to our own user namespace, not to a box's: whoever is
 * root in a box has no say over its network at all.
 */
#pragma once

struct box_netns;

/* NULL for a plain user: who leaves the host's own network namespace cannot go back, so each box then
 * makes one for itself. */
struct box_netns *box_netns_new(void);
void box_netns_free(struct box_netns *netns);

/* One with nothing but lo, which is up; the fd is the caller's. 0 or -errno. */
int box_netns_make(const struct box_netns *netns, int *ret_fd);

/* Goes into it, and back home. What is made in between is in it. Being unable to come back ends
 * boxd. */
int box_netns_enter(const struct box_netns *netns, int fd);
void box_netns_return(const struct box_netns *netns);
