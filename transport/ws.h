/* WebSocket connections, from an authenticated upgrade on; ws.c alone knows libwebsockets.
 *
 * Everything before the upgrade (request heads, tokens, plain HTTP) is the acceptor's. libwebsockets
 * sees a request head that we wrote ourselves, so no byte of an unauthenticated client reaches its HTTP
 * parser. What a connection is for is decided by its user: ws_rpc.c or ws_relay.c.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "base/buf.h"
#include "base/value.h"
#include "transport/keepalive.h"

struct box_ws;
struct box_ws_socket;

enum box_ws_close {
	BOX_WS_NORMAL = 1000,
	BOX_WS_GOING_AWAY = 1001,
	BOX_WS_PROTOCOL = 1002,
	BOX_WS_BAD_TEXT = 1007,
	BOX_WS_POLICY = 1008,
	BOX_WS_TOO_LARGE = 1009,
	BOX_WS_INTERNAL = 1011,
	BOX_WS_TRY_LATER = 1013,
};

enum box_ws_frame_kind {
	BOX_WS_FRAME_TEXT,
	BOX_WS_FRAME_BINARY,
	BOX_WS_FRAME_PING, /* of 125 bytes at most */
};

/* The next piece of a message. BOX_BUF_HEADROOM bytes before it are overwritten. */
struct box_ws_frame {
	enum box_ws_frame_kind kind;
	char *bytes;
	size_t len;
	bool first; /* of its message */
	bool last;
};

struct box_ws_user {
	/* While reading is paused, pongs are not read either: with this flag a peer whose kernel still
	 * answers stays connected; without it, a peer that takes nothing of what is sent is closed. */
	bool patient;
	/* The user often sends several messages at once: they share TCP segments (TCP_CORK). */
	bool gathers;
	/* The handshake is done; from now on `socket` may be used. */
	void (*opened)(void *arg, struct box_ws_socket *socket);
	/* A whole message; the callee frees its buffer. Returns 0, or a close code with the reason. */
	int (*message)(void *arg, struct box_buf message, bool binary, const char **ret_why);
	/* All messages that had arrived are delivered; may be NULL. */
	void (*settled)(void *arg);
	/* The next frame to send, if there is one; `sent`: that frame was sent. */
	bool (*next)(void *arg, struct box_ws_frame *ret_frame);
	void (*sent)(void *arg, const struct box_ws_frame *frame);
	/* A pong, perhaps to a ping that the user did not send; may be NULL. */
	void (*pong)(void *arg, struct box_str bytes);
	/* The time given to box_ws_wake_after is over; may be NULL. */
	void (*woken)(void *arg);
	/* The peer closed with 1009: a message was too large for it; may be NULL. */
	void (*refused)(void *arg);
	/* The socket will be closed: no more messages are delivered. */
	void (*closing)(void *arg);
	/* The last call, always made, opened or not: `arg` may be freed. */
	void (*closed)(void *arg);
};

/* Whether libwebsockets reads by our recv, which checks frames. If not, no client may be served. */
bool box_ws_recv_is_hooked(void);

/* NULL when libwebsockets cannot start, usually because its libuv plugin is not installed. */
struct box_ws *box_ws_new(uv_loop_t *loop, const struct box_keepalive_times *times);

/* An upgrade that the gate let through. */
struct box_ws_upgrade {
	int fd;               /* closed on failure too */
	const char *key;      /* its Sec-WebSocket-Key */
	const char *protocol; /* the chosen subprotocol, "mcp" or "box.v1"; or NULL */
	struct box_str rest;  /* bytes received after the request head */
};
int box_ws_adopt(struct box_ws *ws, const struct box_ws_upgrade *upgrade,
	const struct box_ws_user *user, void *arg);

/* There is something to send. */
void box_ws_want_write(struct box_ws_socket *socket);
/* Calls `woken` once, after this time. */
void box_ws_wake_after(struct box_ws_socket *socket, unsigned int ms);
void box_ws_pause_reading(struct box_ws_socket *socket, bool paused);
/* Closes soon, but not before this function returns; with `drain`, after everything queued is sent. No more
 * messages are delivered. */
void box_ws_close(struct box_ws_socket *socket, int code, const char *reason, bool drain);

size_t box_ws_count(const struct box_ws *ws);

/* Pings peers that were silent for long, and closes connections that have announced a message that is
 * too large: libwebsockets calls back for a frame only when its first byte is there. To be called about
 * once a second. */
void box_ws_tick(struct box_ws *ws);

/* Closes every connection with 1001 and `reason`. */
void box_ws_close_all(struct box_ws *ws, const char *reason);
