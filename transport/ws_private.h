/* One WebSocket and the adapter that has it, as ws.c (life) and ws_socket.c (what comes in and goes
 * out) share them. */
#pragma once

#include <libwebsockets.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/log_limit.h"
#include "transport/deferred.h"
#include "transport/keepalive.h"
#include "transport/ws.h"
#include "transport/ws_frames.h"

#define BOX_WS_PING_BYTES 1 /* libwebsockets tells of no answer that is empty */

struct box_ws {
	struct lws_context *context;
	struct lws_vhost *vhost;
	struct box_keepalive_times times;
	lws_retry_bo_t hangup;
	struct box_list connections;
	struct box_deferred turn;
	size_t count;
	size_t pinned_bytes; /* of unfinished messages, all connections */
	uint64_t ticked_ms;
	struct box_ws_socket *adopting;
	struct box_log_limit closed; /* connections of clients that were at fault */
};

struct box_ws_socket {
	const struct box_ws_user *user;
	void *arg;
	struct box_list links;
	struct box_deferred_call heard; /* it got messages in this turn */
	struct box_deferred_call due;   /* it has something to send */
	struct box_ws *ws;
	struct lws *wsi;
	int fd;
	struct box_ws_frames frames; /* of the stream that is read */
	const char *fault;           /* of it: it is closed for this */
	int fault_code;              /* with this code */
	struct box_buf in;
	bool binary;
	bool established;
	bool paused;
	struct box_keepalive alive;
	bool ping_due;
	char ping[BOX_BUF_HEADROOM + BOX_WS_PING_BYTES];
	bool sending; /* unasked, at the end of a turn */
	bool peer_closes;
	int close_code;   /* not 0: to be closed at the next chance */
	bool drain_first; /* but not before the queue is empty */
	const char *close_reason;
};

/* --- ws_socket.c --- */

/* Ready to take and to send; and the end of that. */
void box_ws_socket_init(struct box_ws_socket *socket);
void box_ws_socket_drop(struct box_ws_socket *socket);

/* What libwebsockets tells of a socket. Not 0: it is to be closed, by the value that its callback
 * returns. Pongs and the peer's close may come for a socket that is NULL. */
int box_ws_receive(struct box_ws_socket *socket, const void *bytes, size_t len);
int box_ws_write(struct box_ws_socket *socket);
void box_ws_take_pong(struct box_ws_socket *socket, struct box_str bytes);
void box_ws_take_close(struct box_ws_socket *socket, const unsigned char *in, size_t len);

/* It has sent what is no frame of a client. */
void box_ws_close_for_fault(struct box_ws_socket *socket);

/* --- ws_recv.c --- */

/* What libwebsockets reads from this fd is looked at from now on; and not any more. */
void box_ws_recv_watch(struct box_ws_socket *socket, int fd);
void box_ws_recv_forget(struct box_ws_socket *socket);

/* --- ws_socket.c --- */

/* Closes it if a message will be too large, pings if it was silent for long; `since_ms` is the time
 * since the last look. */
void box_ws_socket_tick(struct box_ws_socket *socket, uint64_t now_ms, uint64_t since_ms);
