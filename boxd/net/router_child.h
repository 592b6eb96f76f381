/* Processes that boxd forks to do something in the router: open a socket there, run nft, or stay
 * (pasta, port proxies).
 *
 * Such a process never returns into boxd's code: it answers with fds, with nft's output, or lives on
 * and dies with boxd.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

struct box_router;

/* --- in boxd --- */

/* Something that must be opened in a namespace that boxd does not enter itself. `run` is called in a fresh
 * child: 0, with fds[0] to fds[fd_count - 1] opened, or -errno. */
#define BOX_ROUTER_CHILD_FDS_MAX 8
struct box_router_child_opener {
	const char *name; /* for an error */
	int (*run)(const struct box_router *router, const void *arg, pid_t parent,
		int fds[BOX_ROUTER_CHILD_FDS_MAX]);
	const void *arg;
	size_t fd_count;
};
int box_router_child_open(const struct box_router_child_opener *opener,
	const struct box_router *router, int ret_fds[BOX_ROUTER_CHILD_FDS_MAX],
	struct box_err *err);

/* Runs the commands with nft in the router's network namespace, with CAP_NET_ADMIN there and no right
 * outside. *ret_listing is what nft printed; to be freed. */
int box_router_child_run_nft(const struct box_router *router, const struct box_buf *commands,
	char **ret_listing, struct box_err *err);
/* Where the program nft is, or NULL. */
const char *box_router_child_nft_path(void);

/* The first of a list of paths (ended by NULL) that can be executed, or NULL. */
const char *box_router_child_find_program(const char *const *paths);

/* Kills a child and waits until it is gone. The pidfd stays open. */
void box_router_child_end(int pidfd);

/* --- in a fresh child --- */

/* Signals as at the start of a program, death with the parent. 0 or -errno. */
int box_router_child_begin(pid_t parent);
/* Takes the ids of the router's owner, unless it has them already. 0 or -errno. */
int box_router_child_become_owner(const struct box_router *router, pid_t parent);
/* Becomes a program with these as its only fds and an empty environment; returns when it cannot. */
void box_router_child_exec(const char *path, char *const arguments[], int input, int output);
