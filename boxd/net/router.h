/* The router: a network namespace in a user namespace of its own, with its rules.
 *
 * No process lives in it. It is there as long as its fds are held, so it ends with its owner, and
 * so does everything in it. Its user namespace belongs to the ids that pasta runs as: that is what
 * lets an unprivileged pasta come in.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "boxd/net/netlink.h"

#define BOX_ROUTER_UPLINK "out" /* pasta's interface; those of boxes are b0, b1, ... */

struct box_router {
	uid_t uid; /* of its owner, which is us or another */
	gid_t gid;
	int userns;
	int netns;
	int socket; /* rtnetlink of this namespace, with our own rights */
};

/* What boxes may not reach beside what no box may ever reach. */
struct box_router_denied {
	struct box_netlink_address_list host; /* every address of the host */
	struct box_netlink_address_list gateways;
};

/* Of the host as it is now, and whether it has a default route. */
int box_router_read_host(struct box_router_denied *ret_refused, bool *ret_way);

/* The first of a list of paths, ended by NULL, that can be executed; or NULL. */
const char *box_router_find_program(const char *const *paths);

/* Makes the namespaces and sets the rules; they are read back. On failure nothing remains. */
int box_router_make(uid_t uid, gid_t gid, const struct box_router_denied *refused,
	struct box_router *ret_router, struct box_err *err);
void box_router_close(struct box_router *router);

/* Sets both sets anew, and reads them back. */
int box_router_deny(
	struct box_router *router, const struct box_router_denied *refused, struct box_err *err);
/* Whether pasta has set up its interface. */
bool box_router_has_uplink(struct box_router *router);

/* What a child of ours opens because we cannot, and sends back. `run` is called in the child: 0, or
 * -errno. */
#define BOX_ROUTER_FDS_MAX 8
struct box_router_opener {
	const char *name; /* for an error */
	int (*run)(const struct box_router *router, const void *arg, pid_t parent,
		int fds[BOX_ROUTER_FDS_MAX]);
	const void *arg;
	size_t fd_count;
};
int box_router_open(const struct box_router_opener *opener, const struct box_router *router,
	int ret_fds[BOX_ROUTER_FDS_MAX], struct box_err *err);

/* For children, fresh from fork. Signals as at the start of a program, death with the parent. */
int box_router_child_begin(pid_t parent);
/* Other ids, where they are not ours already; death with the parent anew. */
int box_router_child_become(uid_t uid, gid_t gid, pid_t parent);
/* Its exit status; it is gone then. Negative when it was ended or had to be. */
int box_router_child_wait(pid_t pid);
/* Becomes a program with these as its only fds and an empty environment; returns when it cannot. */
void box_router_child_exec(const char *path, char *const arguments[], int input, int output);

#ifdef BOX_ROUTER_WITHOUT
/* Tests leave defences out, by names with commas between, to see that they would notice. boxd is
 * not built with this. */
extern const char *box_router_without;
#endif
/* Whether the defence of this name is to be left out: never, but in tests. */
bool box_router_is_left_out(const char *name);
