/* WebSocket connections, from an authenticated upgrade on; ws.c and ws_socket.c alone know
 * libwebsockets.
 *
 * Everything before that (heads, tokens, plain HTTP) is the door's. libwebsockets sees a request
 * head that we wrote ourselves, so no byte of a stranger reaches its HTTP parser. What a connection
 * is for is its user's: ws_rpc.c or ws_relay.c.
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
	/* While it is not read, its pongs are not either: the kernel alone watches the peer then. Without
	 * this, one that takes nothing of what it is owed goes. */
	bool patient;
	/* Often sends several messages at once: they go out together. */
	bool gathers;
	/* The handshake is done; from now on `socket` may be used. */
	void (*opened)(void *arg, struct box_ws_socket *socket);
	/* A whole message, whose buffer is the callee's. 0, or a code to close with, and why. */
	int (*message)(void *arg, struct box_buf message, bool binary, const char **ret_why);
	/* That was the last of those that lay there; may be NULL. */
	void (*settled)(void *arg);
	/* What is to be sent next, if there is anything; and that so much of it was sent. */
	bool (*next)(void *arg, struct box_ws_frame *ret_frame);
	void (*sent)(void *arg, const struct box_ws_frame *frame);
	/* An answer to a PING, perhaps to none of its own; may be NULL. */
	void (*pong)(void *arg, struct box_str bytes);
	/* What box_ws_wake_after asked for; may be NULL. */
	void (*woken)(void *arg);
	/* The peer closes with 1009: a message was too large for it; may be NULL. */
	void (*refused)(void *arg);
	/* It will be closed: no message is taken any more. */
	void (*closing)(void *arg);
	/* The last word, always, opened or not: `arg` may be freed. */
	void (*closed)(void *arg);
};

/* Whether libwebsockets reads by the function of ours that judges frames. Without that nobody may be
 * served. */
bool box_ws_recv_is_hooked(void);

/* NULL when libwebsockets cannot start, usually because its libuv plugin is not installed. */
struct box_ws *box_ws_new(uv_loop_t *loop, const struct box_keepalive_times *times);

/* An upgrade that the gate let through. */
struct box_ws_upgrade {
	int fd;               /* closed on failure too */
	const char *key;      /* its Sec-WebSocket-Key */
	const char *protocol; /* the one that was chosen, one of "mcp" and "box.v1"; or NULL */
	struct box_str rest;  /* what came behind the head */
};
int box_ws_adopt(struct box_ws *ws, const struct box_ws_upgrade *upgrade,
	const struct box_ws_user *user, void *arg);

/* There is something to send. */
void box_ws_want_write(struct box_ws_socket *socket);
/* Has it woken once, after so long. */
void box_ws_wake_after(struct box_ws_socket *socket, unsigned int ms);
void box_ws_pause_reading(struct box_ws_socket *socket, bool paused);
/* Closes soon, but not before this returns; what is still to be sent goes out first with `drain`.
 * Messages are not taken any more. */
void box_ws_close(struct box_ws_socket *socket, int code, const char *reason, bool drain);

size_t box_ws_count(const struct box_ws *ws);

/* Pings who was silent for long, and closes what has announced a message that is too large:
 * libwebsockets tells of a frame only when its first byte is there. To be called about once a
 * second. */
void box_ws_tick(struct box_ws *ws);

/* Closes every connection with 1001 and `reason`. */
void box_ws_close_all(struct box_ws *ws, const char *reason);
