/* The adapter to libwebsockets on our libuv loop: its context, and sockets from their adoption to
 * their end. */
#include "transport/ws.h"

#include <errno.h>
#include <libwebsockets.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/log.h"
#include "transport/deferred.h"
#include "transport/keepalive.h"
#include "transport/ws_private.h"
#include "transport/ws_request_head.h"

static void socket_free(struct box_ws_socket *socket)
{
	socket->user->closed(socket->arg);
	box_ws_recv_forget(socket);
	box_ws_socket_drop(socket);
	box_list_drop(&socket->links);
	socket->ws->count--;
	free(socket);
}

/* The socket of a wsi. libwebsockets may call back from inside the adoption, before we could
 * tell it whose the wsi is. */
static struct box_ws_socket *socket_of(struct lws *wsi)
{
	struct box_ws_socket *socket = lws_get_opaque_user_data(wsi);
	if (!socket) {
		struct box_ws *ws = lws_context_user(lws_get_context(wsi));
		socket = ws->adopting;
		ws->adopting = NULL;
		if (socket) {
			socket->wsi = wsi;
			lws_set_opaque_user_data(wsi, socket);
		}
	}
	return socket;
}

static int callback(
	struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t len)
{
	(void)user;
	struct box_ws_socket *socket;
	switch (reason) {
	case LWS_CALLBACK_ESTABLISHED:
		socket = socket_of(wsi);
		if (!socket) {
			return -1;
		}
		socket->established = true;
		box_keepalive_heard(&socket->alive, box_clock_ms());
		socket->user->opened(socket->arg, socket);
		if (socket->fault) {
			box_ws_close_for_fault(socket);
		}
		return 0;
	case LWS_CALLBACK_RECEIVE:
		return box_ws_receive(lws_get_opaque_user_data(wsi), in, len);
	case LWS_CALLBACK_RECEIVE_PONG:
		box_ws_take_pong(lws_get_opaque_user_data(wsi), (struct box_str){in, len});
		return 0;
	case LWS_CALLBACK_TIMER:
		socket = lws_get_opaque_user_data(wsi);
		if (socket && socket->user->woken) {
			socket->user->woken(socket->arg);
		}
		return 0;
	case LWS_CALLBACK_WS_PEER_INITIATED_CLOSE:
		box_ws_take_close(lws_get_opaque_user_data(wsi), in, len);
		return 0;
	case LWS_CALLBACK_SERVER_WRITEABLE:
		return box_ws_write(lws_get_opaque_user_data(wsi));
	case LWS_CALLBACK_WSI_DESTROY:
		/* The one that comes on every path. */
		socket = lws_get_opaque_user_data(wsi);
		if (socket) {
			lws_set_opaque_user_data(wsi, NULL);
			socket_free(socket);
		}
		return 0;
	case LWS_CALLBACK_HTTP:
		/* Our own head always upgrades: this is not reached. */
		return -1;
	default:
		return 0;
	}
}

static const struct lws_protocols protocols[] = {
	{.name = "box", .callback = callback},
	{.name = "mcp", .callback = callback},
	{.name = "box.v1", .callback = callback},
	{0},
};

static void on_lws_log(int level, const char *line)
{
	/* Logged at error level, though they mean nothing: every adoption with a foreign loop, and
	 * the routes that the fence does not let it watch. */
	if (strstr(line, "calling service") || strstr(line, "unable to open netlink")) {
		return;
	}
	BOX_LOG(level & LLL_ERR ? BOX_LOG_WARNING : BOX_LOG_DEBUG, "libwebsockets",
		box_log_bytes("line", (struct box_str){line, strcspn(line, "\n")}));
}

struct box_ws *box_ws_new(uv_loop_t *loop, const struct box_keepalive_times *times)
{
	struct box_ws *ws = box_alloc(sizeof(*ws));
	void *loops[] = {loop};
	struct lws_context_creation_info info = {
		.port = CONTEXT_PORT_NO_LISTEN_SERVER,
		.protocols = protocols,
		.options = LWS_SERVER_OPTION_LIBUV | LWS_SERVER_OPTION_EXPLICIT_VHOSTS |
			LWS_SERVER_OPTION_SKIP_SERVER_CANONICAL_NAME,
		.foreign_loops = loops,
		.user = ws,
		.gid = (gid_t)-1,
		.uid = (uid_t)-1,
		.pt_serv_buf_size = (unsigned int)BOX_WS_FRAME_BYTES,
		.retry_and_idle_policy = &ws->hangup,
		.timeout_secs = BOX_HANDSHAKE_MS / 1000,
		.vhost_name = "box",
	};
	ws->times = *times;
	ws->closed.event = "websocket.closed";
	/* It hangs up only. A ping of its own would go into the buffer where the answer to one of the
	 * peer's waits: the peer would get a pong that it never asked for. */
	ws->hangup.secs_since_valid_ping = times->hangup_sec;
	ws->hangup.secs_since_valid_hangup = times->hangup_sec;
	lws_set_log_level(LLL_ERR | LLL_WARN, on_lws_log);
	box_list_init(&ws->connections);
	ws->context = lws_create_context(&info);
	if (ws->context) {
		ws->vhost = lws_create_vhost(ws->context, &info);
	}
	if (!ws->vhost) {
		free(ws);
		return NULL;
	}
	box_deferred_init(&ws->turn, loop);
	return ws;
}

static struct box_ws_socket *socket_new(
	struct box_ws *ws, const struct box_ws_user *user, void *arg)
{
	struct box_ws_socket *socket = box_alloc(sizeof(*socket));
	socket->ws = ws;
	socket->user = user;
	socket->arg = arg;
	box_ws_socket_init(socket);
	box_list_push(&ws->connections, &socket->links);
	ws->count++;
	return socket;
}

int box_ws_adopt(struct box_ws *ws, const struct box_ws_upgrade *upgrade,
	const struct box_ws_user *user, void *arg)
{
	struct box_buf head = box_buf(2 * BOX_HTTP_HEAD_BYTES_MAX);
	struct box_ws_socket *socket = socket_new(ws, user, arg);
	struct box_ws_upgrade checked = *upgrade;
	box_ws_recv_watch(socket, upgrade->fd);
	checked.rest.len = box_ws_frames_scan(&socket->frames,
		(const unsigned char *)upgrade->rest.bytes, upgrade->rest.len, &socket->fault,
		&socket->fault_code);
	box_ws_write_request_head(&head, &checked);
	if (user->patient) {
		box_keepalive_set_tcp_options(upgrade->fd, &ws->times);
	}
	ws->adopting = socket;
	struct lws *wsi = lws_adopt_socket_vhost_readbuf(
		ws->vhost, upgrade->fd, head.bytes, head.len);
	box_buf_free(&head);
	if (wsi && ws->adopting == socket) {
		ws->adopting = NULL;
		socket->wsi = wsi;
		lws_set_opaque_user_data(wsi, socket);
	}
	if (!wsi && ws->adopting == socket) {
		ws->adopting = NULL;
		socket_free(socket);
	}
	return wsi ? 0 : -EIO;
}

size_t box_ws_count(const struct box_ws *ws)
{
	return ws->count;
}

void box_ws_tick(struct box_ws *ws)
{
	uint64_t now_ms = box_clock_ms();
	uint64_t since_ms = now_ms - ws->ticked_ms;
	ws->ticked_ms = now_ms;
	box_log_limit_tick(&ws->closed);
	for (struct box_list *at = ws->connections.next; at != &ws->connections; at = at->next) {
		struct box_ws_socket *socket = BOX_CONTAINER_OF(at, struct box_ws_socket, links);
		if (socket->established) {
			box_ws_socket_tick(socket, now_ms, since_ms);
		}
	}
}

void box_ws_close_all(struct box_ws *ws, const char *reason)
{
	for (struct box_list *at = ws->connections.next; at != &ws->connections; at = at->next) {
		struct box_ws_socket *socket = BOX_CONTAINER_OF(at, struct box_ws_socket, links);
		if (socket->established) {
			box_ws_close(socket, BOX_WS_GOING_AWAY, reason, true);
		}
	}
}
