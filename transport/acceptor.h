/* The front door: accepts sockets, reads one request head each, answers what is plain HTTP or
 * refused, and hands authenticated upgrades to the WebSocket side.
 *
 * A stranger gets BOX_HANDSHAKE_MS and 8 KiB. When too many wait, in all or from one address, the
 * one that has waited longest goes: an honest client is through in a moment, an idle one is not.
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
	/* The tokens that are good, NULL for none; read at every connection. */
	const char *const *tokens; /* BOX_TOKENS_MAX of them */
	/* Where there is none: */
	bool unauthenticated; /* whoever comes is let in; the configuration may say so too */
	uint32_t uid;         /* else only this user, or BOX_BOXD_NO_UID, and root, by loopback */
	/* Over the operator's socket: */
	uint32_t operator_uid; /* only this user, or BOX_BOXD_NO_UID, and root */
	bool socket_group;     /* else whom the mode of its file lets in */
};

struct box_acceptor *box_acceptor_new(uv_loop_t *loop, struct box_runtime *runtime,
	struct box_dispatch *dispatch, struct box_ws *ws, const struct box_acceptor_rules *rules);

/* Starts accepting on a listening socket, which becomes the door's. Who comes by a Unix socket is the
 * operator: boxd has seen to it that nobody else can, and the kernel is asked who it is. One of netlink is that of base/sock_diag.h. 1, 0
 * for that one, or negative errno. */
int box_acceptor_listen(struct box_acceptor *door, int fd);

/* Tells of what was refused, about once a second. */
void box_acceptor_tick(struct box_acceptor *door);

/* Stops accepting and drops who is still waiting. */
void box_acceptor_close(struct box_acceptor *door);
