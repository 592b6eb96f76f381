/* Accepts connections, reads one request head from each, answers plain HTTP and refusals, and hands
 * authenticated upgrades to the WebSocket side.
 *
 * A connection that is not authenticated yet gets BOX_HANDSHAKE_MS and 8 KiB. When too many wait, in all
 * or from one address, the one that waits longest is closed: an honest client is done in a moment, an
 * idle one is not.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct box_dispatch;
struct box_acceptor;
struct box_runtime;
struct box_ws;

struct box_acceptor_rules {
	bool loopback_names_only; /* Host must name this machine */
	/* The valid tokens, the first NULL if there is none; read at every connection. */
	const char *const *tokens; /* BOX_TOKENS_MAX of them */
	/* Without tokens: */
	bool unauthenticated; /* every client is admitted; the configuration may also say so */
	uint32_t uid; /* otherwise only this user (BOX_BOXD_NO_UID: none) and root, over loopback */
	/* On the operator's socket: */
	uint32_t operator_uid; /* only this user (BOX_BOXD_NO_UID: none) and root are admitted */
	bool socket_group;     /* or every user that the mode of the socket file admits */
};

struct box_acceptor *box_acceptor_new(uv_loop_t *loop, struct box_runtime *runtime,
	struct box_dispatch *dispatch, struct box_ws *ws, const struct box_acceptor_rules *rules);

/* Starts accepting on a listening socket, which the acceptor owns from now on. Clients of a Unix socket
 * are the operator: the mode of its file admits no other user, and the kernel confirms who they are. For
 * a netlink socket see base/sock_diag.h. Returns 1 (0 for the netlink socket) or negative errno. */
int box_acceptor_listen(struct box_acceptor *acceptor, int fd);

/* Logs refused connections; called about once a second. */
void box_acceptor_tick(struct box_acceptor *acceptor);

/* Stops accepting and closes the connections that are still pending. */
void box_acceptor_close(struct box_acceptor *acceptor);
